"""The report: everything about one experiment on one HTML page.

Styles, script and figures are inside the page. It requests nothing from anywhere.
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

from softbins._core.extras import optional_import
from softbins._core.figures import Picture
from softbins._core.files import write_whole
from softbins.paper.data.datasets import (
    dataset_title,
    is_simulated,
    load_dataset,
    original_name,
)
from softbins.paper.run import plan
from softbins.paper.run.plan import ARTEFACTS, Artefact, Run, Scale
from softbins.paper.run.store import Record, Store
from softbins.paper.show.cell_text import (
    AGREEMENT_MARKS,
    Agreement,
    agreement,
    heading,
    our_text,
    printed_text,
    remarks,
    split_at_point,
    width_before_point,
)
from softbins.paper.show.claims import Claim, judge_claims
from softbins.paper.show.experiment import Experiment
from softbins.paper.show.figures import (
    FIGURE_CAPTIONS,
    PANELS,
    make_panels,
    panel_caption,
    svg_text,
)
from softbins.paper.show.paper_tables import (
    claims_table,
    main_table,
    overview_table,
    representation_table,
)
from softbins.paper.show.tables import Row, Table

SECTION_TITLES: dict[Artefact, str] = {
    "table": "All methods",
    "bins": "Number of bins",
    "sigma": "Width of the target",
    "representations": "Representations",
    "curves": "During training",
    "claims": "More outputs, a wider network",
    "targets": "Targets",
    "overview": "The dataset",
}
AGREEMENT_WORDS: dict[Agreement, str] = {
    "agrees": "agrees with the paper",
    "differs": "differs from the paper",
    "expected": "differs from the paper, which had more epochs",
    "": "",
}


@dataclass(frozen=True)
class Section:
    """What the page says about one table or figure.

    `finished` of the `planned` runs are finished. `problem` says why there are no pictures.
    """

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
    """Make the page as text."""
    experiment = Experiment(dataset, scale, store)
    claims = judge_claims(dataset, scale, store)
    text: str = _load_template().render(
        dataset=dataset_title(dataset),
        simulated=is_simulated(dataset),
        source=_data_source(dataset),
        scale=scale,
        claims=claims,
        sections=[_make_section(name, experiment, claims) for name in SECTION_TITLES],
        deviations=deviations(dataset),
        made=_summarize_runs(plan.plan_runs(ARTEFACTS, dataset, scale), store),
        marks=AGREEMENT_MARKS,
        agreement=agreement,
        words=AGREEMENT_WORDS,
        width=width_before_point,
    )
    return text


def _load_template() -> Any:
    jinja2 = optional_import("jinja2", "paper")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("softbins.paper.show"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ours": our_text, "printed": printed_text, "heading": heading}
    environment.filters |= {"remarks": remarks, "runs": runs_text, "split": split_at_point}
    return environment.get_template("report.html")


def deviations(dataset: str) -> list[dict[str, str]]:
    """Where the experiments on a dataset depart from the paper's text.

    Each deviation has a point, what is done here, and the reason.
    """
    text = files("softbins.paper.show").joinpath("deviations.toml").read_text("utf-8")
    entries = tomllib.loads(text)["deviation"]
    return [
        e for e in entries if e.get("dataset", original_name(dataset)) == original_name(dataset)
    ]


def runs_text(row: Row) -> str:
    """How many runs the cells of a row rest on, such as "0–3 of 5 runs"; empty if on all."""
    cells = [cell for cell in row.cells.values() if cell.planned]
    finished = {cell.runs for cell in cells}
    planned = max((cell.planned for cell in cells), default=0)
    if finished <= {planned}:
        return ""
    counts = "–".join(str(count) for count in sorted({min(finished), max(finished)}))
    return f"{counts} of {planned} runs"


def inline_svg(svg: str, prefix: str) -> str:
    """Make the text of an SVG file a part of a page.

    It becomes as wide as its place, and the prefix makes its names differ from those of others.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}-", body)
    # Without the prefix, its style sheet would hold for the whole page.
    body = body.replace("*{stroke", f"#{prefix} *{{stroke")
    opening = f'<svg id="{prefix}" role="img" aria-labelledby="{prefix}-caption"'
    return re.sub(r'<svg(.*?) width="[^"]*" height="[^"]*"', rf"{opening}\1", body, count=1)


# Sections


def _make_section(name: Artefact, experiment: Experiment, claims: Sequence[Claim]) -> Section:
    runs = plan.artefact_runs(name, experiment.dataset, experiment.scale)
    pictures, problem = _make_pictures(name, experiment)
    return Section(
        name=name,
        title=SECTION_TITLES[name],
        claims=[claim for claim in claims if claim.artefact == name],
        tables=_make_tables(name, experiment),
        pictures=pictures,
        caption=FIGURE_CAPTIONS.get(name, ""),
        finished=sum(map(experiment.store.has, runs)),
        planned=len(runs),
        problem=problem,
    )


def _make_tables(name: Artefact, experiment: Experiment) -> list[Table]:
    dataset, scale, store = experiment.dataset, experiment.scale, experiment.store
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


def _make_pictures(name: Artefact, experiment: Experiment) -> tuple[list[Picture], str]:
    """The panels of a figure, or the reason why there are none."""
    if name not in PANELS:
        return [], ""
    try:
        panels = make_panels(name, experiment.dataset, experiment.scale, experiment.store)
    # The original data are not on this machine.
    except (ValueError, OSError) as error:
        return [], str(error)
    names = {panel: f"{name}-{panel}".replace("_", "-") for panel in panels}
    pictures = [
        Picture(
            name=names[panel],
            svg=inline_svg(svg_text(figure), names[panel]),
            caption=panel_caption(name, panel),
        )
        for panel, figure in panels.items()
    ]
    return pictures, "" if pictures else "no run is finished yet."


def _data_source(dataset: str) -> str:
    """Where the data come from; empty if they are not on this machine."""
    with suppress(ValueError, OSError):
        return load_dataset(dataset).source
    return ""


# How the runs were made


def _summarize_runs(runs: Sequence[Run], store: Store) -> dict[str, Any]:
    records = [record for record in map(store.read, runs) if record is not None]
    return {
        "finished": len(records),
        "planned": len(runs),
        "time": duration_text(sum(record["seconds"] for record in records)),
        "with": _join_made_with(records),
    }


def _join_made_with(records: Sequence[Record]) -> dict[str, str]:
    """The versions and machines that the runs were made with; several values if they differ."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in record["made_with"].items():
            found.setdefault(name, {})[value] = None
    return {name: "; ".join(values) for name, values in found.items()}


def duration_text(seconds: float) -> str:
    """A time in hours, minutes or seconds, such as "2 h 3 min"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
