"""The paper's tables with our figures in them, made from whatever runs are finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from softbins.paper.data.datasets import NAMES, load, original, title
from softbins.paper.data.datasets import TITLES as TITLES_OF_DATASETS
from softbins.paper.data.splits import Kind, split
from softbins.paper.run.methods import METHODS, TITLES, Parameters
from softbins.paper.run.plan import (
    REPRESENTATION_METHODS,
    REPRESENTATIONS,
    SELECTIONS,
    WIDE,
    Run,
    Scale,
    Selection,
    base,
    candidates,
    many_outputs,
    representation,
    splits,
    wide,
)
from softbins.paper.run.store import Store
from softbins.paper.show import published
from softbins.paper.show.cells import METRIC_TITLES, METRICS, Cell, Row, Table, cell
from softbins.paper.show.published import Figure

TABLES = ("table", "representations", "claims", "overview")
ERRORS = ("train_mae", "train_rmse", "test_mae", "test_rmse")  # Table 2
BEST_OUTPUT = "test_mae_of_best_output"
CLAIM_TITLES = {
    "l2": TITLES["l2"],
    "l2-many": TITLES["l2-many"],
    "l2-wide": f"{TITLES['l2']}, {len(WIDE)} x {WIDE[0]}",
}
SIMULATED = "The data are simulated, so that there is nothing in the paper to compare with."


def make_table(
    name: str,
    dataset: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: Kind = "random",
    data: Path | None = None,
) -> Table:
    """A table by its name; only that of all methods heeds `selection` and `split`."""
    _check("name", name, TABLES)
    if name == "representations":
        return representations(dataset, scale, store)
    if name == "claims":
        return claims(dataset, scale, store)
    if name == "overview":
        return overview(dict.fromkeys((*TITLES_OF_DATASETS, dataset)), data)
    return main_table(dataset, scale, store, selection, split)


# Table 1, and the appendix's like it


class Choice(NamedTuple):
    """The setting of a method that a table reports, and among how many it was chosen.

    With none to compare nothing is chosen, and `parameters` mean nothing.
    """

    parameters: Parameters
    runs: list[Run]
    compared: int
    settings: int

    @property
    def note(self) -> str:
        """The chosen parameters in words."""
        chosen = self.parameters if self.compared else {}
        return ", ".join(f"{name}={value:g}" for name, value in chosen.items())


def main_table(
    dataset: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: Kind = "random",
) -> Table:
    """All methods and their errors, in the order of Table 1."""
    _check("selection", selection, SELECTIONS)
    _check("split", split, splits(dataset))
    choices = {m: choose(dataset, m, scale, store, selection, split) for m in METHODS}
    return Table(
        name="table",
        title=f"{title(dataset)}: all methods",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Method",),
        columns={metric: METRIC_TITLES[metric] for metric in METRICS},
        rows=tuple(_method_row(m, choices[m], store, dataset, split) for m in METHODS),
        selection=selection,
        split=split,
        notes=(*_notes(dataset, scale), *_partly_compared(choices)),
    )


def choose(
    dataset: str,
    method: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: Kind = "random",
) -> Choice:
    """The setting with the smallest mean absolute error, on the test or the validation rows.

    Those with the most finished runs are compared: the complete ones, as soon as there are any.
    """
    settings = candidates(dataset, method, scale, split)
    if len(settings) == 1:
        parameters, runs, _ = settings[0]
        return Choice(parameters, runs, compared=1, settings=1)
    judged = [_judged(runs, others, selection, store) for _, runs, others in settings]
    most = max(judgement.runs for judgement in judged)
    compared = [i for i, judgement in enumerate(judged) if judgement.runs == most > 0]
    best = min(compared, key=lambda i: _comparable(judged[i].mean), default=0)
    parameters, runs, _ = settings[best]
    return Choice(parameters, runs, len(compared), len(settings))


def _judged(
    reported: Sequence[Run], held_out: Sequence[Run], selection: Selection, store: Store
) -> Cell:
    if selection == "paper":
        return cell(reported, "test_mae", store)
    return cell(held_out, "validation_mae", store)


def _comparable(mean: float | None) -> float:
    """A setting that diverged is the last to be chosen."""
    return math.inf if mean is None or math.isnan(mean) else mean


def _method_row(method: str, choice: Choice, store: Store, dataset: str, split: Kind) -> Row:
    cells = {}
    for metric in METRICS:
        printed = _printed(dataset, method, metric, split)
        # Without a choice, finished runs of some setting are not yet the method's.
        found = cell(choice.runs, metric, store, printed) if choice.compared else None
        cells[metric] = found or Cell(None, None, 0, len(choice.runs), printed)
    return Row((TITLES[method],), cells, method, choice.note)


def _printed(dataset: str, method: str, metric: str, split: Kind = "random") -> Figure | None:
    if _is_simulated(dataset) or split not in published.SPLITS:
        return None
    return published.published(dataset, method, metric, split)


def _partly_compared(choices: Mapping[str, Choice]) -> list[str]:
    """What to say about choices that unfinished runs may still change."""
    return [
        f"{TITLES[method]}: chosen among {choice.compared} of {choice.settings} settings."
        for method, choice in choices.items()
        if 0 < choice.compared < choice.settings
    ]


# Table 2


def representations(dataset: str, scale: Scale, store: Store) -> Table:
    """Both losses on their own, the other's, and random hidden layers."""
    return Table(
        name="representations",
        title=f"{title(dataset)}: representations",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Error", "Loss"),
        columns={variant: variant.capitalize() for variant in REPRESENTATIONS},
        rows=tuple(
            _representation_row(dataset, metric, method, scale, store)
            for metric in ERRORS
            for method in REPRESENTATION_METHODS
        ),
        split="random",
        notes=_notes(dataset, scale),
    )


def _representation_row(dataset: str, metric: str, method: str, scale: Scale, store: Store) -> Row:
    cells: dict[str, Cell] = {}
    for variant in REPRESENTATIONS:
        printed = None
        if not _is_simulated(dataset):
            printed = published.representation(dataset, method, variant, metric)
        runs = representation(dataset, method, variant, scale)
        cells[variant] = cell(runs, metric, store, printed)
    return Row((METRIC_TITLES[metric], TITLES[method]), cells, method)


# What the text claims beside the tables


def claims(dataset: str, scale: Scale, store: Store) -> Table:
    """l2, l2 with 100 outputs (a footnote of Section 4), and with a wide network (Appendix C)."""
    runs = {
        "l2": base(dataset, "l2", scale),
        "l2-many": many_outputs(dataset, scale),
        "l2-wide": wide(dataset, scale),
    }
    metrics = {name: METRIC_TITLES[name] for name in ("test_mae", "test_rmse")}
    return Table(
        name="claims",
        title=f"{title(dataset)}: l2 with 100 outputs, and with a wide network",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Method",),
        columns={**metrics, BEST_OUTPUT: "Test MAE of the best output"},
        rows=tuple(_claim_row(dataset, method, runs[method], store) for method in runs),
        split="random",
        notes=_notes(dataset, scale),
    )


def _claim_row(dataset: str, method: str, runs: list[Run], store: Store) -> Row:
    cells = {
        metric: cell(runs, metric, store, _claimed(dataset, method, metric))
        for metric in ("test_mae", "test_rmse")
    }
    cells[BEST_OUTPUT] = Cell(None, None, 0, 0)
    if method == "l2-many":
        cells[BEST_OUTPUT] = cell(runs, BEST_OUTPUT, store, _claimed(dataset, method, BEST_OUTPUT))
    return Row((CLAIM_TITLES[method],), cells, method)


def _claimed(dataset: str, method: str, metric: str) -> Figure | None:
    if _is_simulated(dataset):
        return None
    if method == "l2":
        return published.published(dataset, "l2", metric)
    if method == "l2-wide":
        return published.quoted(dataset, f"l2_wide_{metric}")
    return published.quoted(dataset, "l2_many_test_mae") if metric == BEST_OUTPUT else None


# Table 3


def overview(datasets: Iterable[str] = NAMES, data: Path | None = None) -> Table:
    """Rows, features and target range as used here, beside those printed.

    A dataset that cannot be loaded has the printed ones alone. The cells are counts: they have no
    runs, and agree when they are equal.
    """
    described = [_dataset_row(name, data) for name in datasets]
    if not described:
        raise ValueError(f"datasets: need at least one of {', '.join(NAMES)}, got none")
    return Table(
        name="overview",
        title="Datasets",
        dataset="",
        scale="",
        label_titles=("Dataset",),
        columns={
            "train": "Training rows",
            "test": "Test rows",
            "features": "Features",
            "low": "Lowest target",
            "high": "Highest target",
        },
        rows=tuple(row for row, _ in described),
        notes=tuple(problem for _, problem in described if problem),
    )


def _dataset_row(name: str, data: Path | None) -> tuple[Row, str]:
    """The row of a dataset, and why it could not be loaded if so."""
    printed = published.overview(original(name))
    counts: dict[str, float] = {}
    note, problem = "not loaded", ""
    try:
        counts, note = _counts(name, data)
    except (ValueError, OSError, ImportError) as error:
        problem = f"{title(name)} is not loaded: {error}"
    cells = {
        key: Cell(counts.get(key), None, 0, 0, Figure(value, None, str(value)))
        for key, value in vars(printed).items()
    }
    return Row((title(name),), cells, note=note), problem


def _counts(name: str, data: Path | None) -> tuple[dict[str, float], str]:
    dataset = load(name, data)
    rows = split(dataset, "random", seed=0)
    counts = {
        "train": len(rows.training),
        "test": len(rows.test),
        "features": dataset.X.shape[1],
        "low": dataset.low,
        "high": dataset.high,
    }
    return counts, f"targets from {dataset.y.min():g} to {dataset.y.max():g}"


# For programs


def long_rows(table: Table) -> list[dict[str, Any]]:
    """A table as one flat entry for each cell, in the target's own unit; None where missing."""
    return [
        {**_place(table, row, column), **_values(row.cells[column])}
        for row in table.rows
        for column in table.columns
    ]


def _place(table: Table, row: Row, column: str) -> dict[str, Any]:
    """What a cell is about."""
    place: dict[str, Any] = {
        "dataset": table.dataset,
        "method": row.method or None,
        "metric": column,
        "scale": table.scale or None,
        "selection": table.selection or None,
        "split": table.split or None,
        "parameters": row.note or None,
    }
    if table.name == "representations":
        metrics = {label: metric for metric, label in METRIC_TITLES.items()}
        return place | {"metric": metrics[row.labels[0]], "variant": column}
    if table.name == "overview":
        names = {title(name): name for name in NAMES}
        return place | {"dataset": names[row.labels[0]], "parameters": None}
    return place


def _values(found: Cell) -> dict[str, Any]:
    diverged = found.mean is not None and math.isnan(found.mean)
    printed = found.published
    return {
        "mean": None if diverged else found.mean,
        "stderr": found.stderr,
        "runs": found.runs,
        "planned": found.planned,
        "published_mean": None if printed is None else printed.mean,
        "published_stderr": None if printed is None else printed.stderr,
        "agrees": found.agrees,
    }


def _is_simulated(dataset: str) -> bool:
    return dataset != original(dataset)


def _notes(dataset: str, scale: Scale) -> tuple[str, ...]:
    """Why the figures cannot be the paper's, if so."""
    simulated = (SIMULATED,) if _is_simulated(dataset) else ()
    return (*simulated, *(() if scale.epochs == 1 else (_shortened(scale),)))


def _shortened(scale: Scale) -> str:
    rows = "" if scale.rows is None else f", at most {scale.rows} rows"
    grids = "" if scale.full_grids else ", one setting for each method"
    share = f"Scale {scale.name}: {scale.epochs:.0%} of the paper's epochs{rows}{grids}."
    return f"{share} Differences are to be expected."


def _check(argument: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")
