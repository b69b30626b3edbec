"""Everything about one dataset on one HTML page, which needs nothing but itself.

Styles, script and figures are inside the page. It asks for nothing from anywhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from softbins._extras import optional_import
from softbins._files import write_whole
from softbins.paper.data.datasets import dataset_title, load_dataset, original_name
from softbins.paper.run import plan
from softbins.paper.run.plan import ARTEFACTS, Artefact, Run, Scale
from softbins.paper.run.store import Record, Store
from softbins.paper.show.claims import Claim, judge_claims
from softbins.paper.show.figures import CAPTIONS, PANELS, make_panels, panel_caption, svg_text
from softbins.paper.show.formats import MARKS, heading, our_text, printed_text, remarks
from softbins.paper.show.paper_tables import claims_table as claims_table
from softbins.paper.show.paper_tables import main_table, overview_table, representation_table
from softbins.paper.show.tables import Row, Table

TITLES: dict[Artefact, str] = {
    "table": "All methods",
    "bins": "Number of bins",
    "sigma": "Width of the target",
    "representations": "Representations",
    "curves": "During training",
    "claims": "More outputs, a wider network",
    "targets": "Targets",
    "overview": "The dataset",
}
AGREEMENT = {True: "agrees with the paper", False: "differs from the paper", None: ""}


@dataclass(frozen=True)
class Picture:
    """A panel of a figure: SVG to stand inside a page, and what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """What the page says about an artefact."""

    name: str
    title: str
    claims: Sequence[Claim]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    caption: str
    finished: int
    planned: int
    problem: str = ""


def write_report(path: str | Path, dataset: str, scale: Scale, store: Store) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, report_page(dataset, scale, store).encode())


def report_page(dataset: str, scale: Scale, store: Store) -> str:
    """The page as text."""
    claims = judge_claims(dataset, scale, store)
    runs = plan.plan_runs(ARTEFACTS, dataset, scale)
    environment = optional_import("jinja2", "paper").Environment(
        loader=optional_import("jinja2", "paper").PackageLoader("softbins.paper.show"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ours": our_text, "printed": printed_text, "heading": heading}
    environment.filters |= {"remarks": remarks, "runs": runs_text}
    text: str = environment.get_template("report.html").render(
        dataset=dataset_title(dataset),
        simulated=dataset != original_name(dataset),
        source=_source(dataset),
        scale=scale,
        claims=claims,
        sections=[_section(name, dataset, scale, store, claims) for name in TITLES],
        deviations=deviations(dataset),
        made=_made(runs, store),
        marks=MARKS,
        agreement=AGREEMENT,
    )
    return text


def deviations(dataset: str) -> list[dict[str, str]]:
    """Where the experiments on a dataset depart from the paper's text: point, here, reason."""
    text = files("softbins.paper.show").joinpath("deviations.toml").read_text("utf-8")
    entries = tomllib.loads(text)["deviation"]
    return [
        e for e in entries if e.get("dataset", original_name(dataset)) == original_name(dataset)
    ]


def runs_text(row: Row) -> str:
    """How many runs the cells of a row rest on."""
    cells = [found for found in row.cells.values() if found.planned]
    finished, planned = {c.runs for c in cells}, max((c.planned for c in cells), default=0)
    counts = "–".join(str(count) for count in sorted({min(finished), max(finished)}))
    return f"{counts} of {planned}"


def inline_svg(svg: str, prefix: str) -> str:
    """An SVG file as a part of a page: as wide as its place, with names that are its own."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}-", body)
    # Its style sheet would hold for the whole page.
    body = body.replace("*{stroke", f"#{prefix} *{{stroke")
    opening = f'<svg id="{prefix}" role="img" aria-labelledby="{prefix}-caption"'
    return re.sub(r'<svg(.*?) width="[^"]*" height="[^"]*"', rf"{opening}\1", body, count=1)


# Sections


def _section(
    name: Artefact, dataset: str, scale: Scale, store: Store, claims: Sequence[Claim]
) -> Section:
    runs = plan.artefact_runs(name, dataset, scale)
    pictures, problem = _pictures(name, dataset, scale, store)
    return Section(
        name,
        TITLES[name],
        [claim for claim in claims if claim.artefact == name],
        _tables(name, dataset, scale, store),
        pictures,
        CAPTIONS.get(name, ""),
        sum(map(store.has, runs)),
        len(runs),
        problem,
    )


def _tables(name: Artefact, dataset: str, scale: Scale, store: Store) -> list[Table]:
    match name:
        case "table":
            # Without grids there is nothing to choose, and both selections are the same.
            selections = plan.SELECTIONS if scale.full_grids else plan.SELECTIONS[:1]
            return [
                main_table(dataset, scale, store, selection=selection, split=split)
                for split in plan.split_kinds(dataset)
                for selection in selections
            ]
        case "representations":
            return [representation_table(dataset, scale, store)]
        case "claims":
            return [claims_table(dataset, scale, store)]
        case "overview":
            return [overview_table([dataset])]
    return []


def _pictures(
    name: Artefact, dataset: str, scale: Scale, store: Store
) -> tuple[list[Picture], str]:
    """The panels of a figure, or why there are none."""
    if name not in PANELS:
        return [], ""
    try:
        panels = make_panels(name, dataset, scale, store)
    except (ValueError, OSError) as error:  # the original data are not on this machine
        return [], str(error)
    names = {panel: f"{name}-{panel}".replace("_", "-") for panel in panels}
    pictures = [
        Picture(
            names[panel], inline_svg(svg_text(figure), names[panel]), panel_caption(name, panel)
        )
        for panel, figure in panels.items()
    ]
    return pictures, "" if pictures else "no run is finished yet."


def _source(dataset: str) -> str:
    """Where the data come from, if they are on this machine."""
    with suppress(ValueError, OSError):
        return load_dataset(dataset).source
    return ""


# How the runs were made


def _made(runs: Sequence[Run], store: Store) -> dict[str, Any]:
    records = [record for record in map(store.read, runs) if record is not None]
    return {
        "finished": len(records),
        "planned": len(runs),
        "time": duration_text(sum(record["seconds"] for record in records)),
        "with": _distinct(records),
    }


def _distinct(records: Sequence[Record]) -> dict[str, str]:
    """What the runs were made with, by name; several if they differ."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in record["made_with"].items():
            found.setdefault(name, {})[value] = None
    return {name: "; ".join(values) for name, values in found.items()}


def duration_text(seconds: float) -> str:
    """A time for people."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
