"""What a model file says of its model, without the weights and without torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from softbins._core.model_content import ModelFileError, read_stored
from softbins.tabular.model_layout import Layout, check_layout

MAX_REASON_CHARACTERS = 200
# Names in files of older versions, and what they are called today.
OLD_NAMES = {
    "optimiser": "optimizer",
    "share": "tree_share",
    "parts": "bin_splits",
}


@dataclass(frozen=True)
class ModelContents:
    """A model's header, with the names of today, and the layout of each of its tensors."""

    header: dict[str, Any]
    layouts: Mapping[str, Layout]


def read_contents(path: str | os.PathLike[str]) -> ModelContents:
    """What a model file says, after its digest, its header and its layout were checked.

    Values of weights are not looked at, which `softbins.load` does before it makes a model of
    them. Errors are those of `softbins.load`.
    """
    header, stored = read_stored(path)
    layouts = {name: Layout(part.dtype, part.shape) for name, part in stored.items()}
    with refused_as_no_model(path):
        header = upgraded(header)
        check_layout(header, layouts)
    return ModelContents(header, layouts)


@contextmanager
def refused_as_no_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about what a file holds into a `ModelFileError` of one line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:MAX_REASON_CHARACTERS]
        raise ModelFileError(f"{os.fspath(path)}: holds no model ({reason})") from error


def upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """A header of an older version with the names of today; the schema looks at what is in it."""
    header = dict(header)
    if "finish" in header:
        header["aggregator"] = header.pop("finish")
    for part in ("parameters", "aggregator"):
        if isinstance(header.get(part), dict):
            header[part] = {
                OLD_NAMES.get(name, name): value for name, value in header[part].items()
            }
    # Dropout in hidden layers changed the training only, not what is predicted.
    if header.get("class") == "HistogramRegressor" and isinstance(header.get("parameters"), dict):
        header["parameters"].pop("dropout", None)
        before = {"lower": None, "upper": None, "folds": None, "gaussian_process": False}
        header["parameters"] = before | header["parameters"]
        header.setdefault("gaussian_process", False)
    aggregator = header.get("aggregator")
    if isinstance(aggregator, dict) and "tree_share" in aggregator:
        share = aggregator.pop("tree_share")
        aggregator["shares"] = {"trees": share} if header.get("trees") else {}
    if isinstance(aggregator, dict) and "temperature" in aggregator:
        raise ValueError(
            "it was calibrated by an older version, in a way that there is no longer; fit it again"
        )
    return header
