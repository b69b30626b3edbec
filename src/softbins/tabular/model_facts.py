"""What a model is, in plain values, from what its file says; nothing here needs torch."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from softbins._core.text import shown
from softbins.tabular.model_contents import ModelContents
from softbins.tabular.model_header import PARTNERS
from softbins.tabular.provenance import Provenance, column_summaries
from softbins.tabular.summary import history_summary


def model_facts(contents: ModelContents) -> dict[str, Any]:
    """Everything that is known of a model, with the same keys for all; None is not known.

    First what `Provenance` has, then what `description` has, the errors of the training, all
    parameters, and the columns one by one.
    """
    header = contents.header
    provenance, parameters = Provenance.from_header(header), header["parameters"]
    names = [field.name for field in fields(Provenance) if field.name != "columns"]
    monitor = parameters["monitor"] if parameters["early_stopping"] else None
    return {
        "class": header["class"],
        **{name: getattr(provenance, name, None) for name in names},
        **describe(contents),
        **history_summary(header["history"], monitor),
        "parameters": parameters,
        "columns": [asdict(column) for column in column_summaries(header)],
    }


def describe(contents: ModelContents) -> dict[str, Any]:
    """The objective, bins, columns, networks and calibration; see `evaluation.description`."""
    header, layouts = contents.header, contents.layouts
    parameters, columns = header["parameters"], column_summaries(header)
    aggregator = header.get("aggregator")
    return {
        "objective": parameters.get("objective", "hl-gaussian"),
        "bins": _bins(contents) if "edges" in layouts else None,
        "bias_of_bins": _bias(header["bias"]) if "bias" in header else None,
        "features": len(columns),
        "names": header["columns"]["names"] or [],
        "kinds": [column.kind for column in columns],
        **_network(header),
        **{
            f"share_of_{name}": aggregator and aggregator["shares"].get(name, 0.0)
            for name in PARTNERS
        },
        "calibration_rows": aggregator and aggregator["rows"],
    }


def _bins(contents: ModelContents) -> dict[str, Any]:
    low, high = contents.header["range"]
    return {"count": contents.layouts["edges"].shape[0] - 1, "low": low, "high": high}


def _bias(parts: list[float]) -> dict[str, float]:
    return dict(zip(("discretisation", "truncation"), parts, strict=True))


def _network(header: dict[str, Any]) -> dict[str, Any]:
    sizes = header.get("network", header["parameters"])
    return {"hidden": sizes["hidden"], "members": sizes["members"]}


# For people


def shown_parameter(value: Any) -> str:
    """A parameter as text: of bins that were given, their number and their ends."""
    if isinstance(value, dict):
        edges = value["edges"]
        return f"{len(edges) - 1} bins from {shown(edges[0])} to {shown(edges[-1])}"
    return ",".join(map(shown, value)) if isinstance(value, list) else shown(value)


def shown_range(column: dict[str, Any]) -> str:
    """What a column had in training: numbers from and to, or so many categories."""
    if column["distinct"] is not None:
        return f"{column['distinct']} categories"
    ends = [shown(column[name]) for name in ("low", "high") if column[name] is not None]
    return ", ".join(filter(None, (" to ".join(ends), column["remark"])))
