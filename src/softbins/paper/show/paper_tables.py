"""The paper's tables with our figures in them, made from whatever runs are finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from softbins.paper.data.datasets import DATASET_TITLES as TITLES_OF_DATASETS
from softbins.paper.data.datasets import DATASETS, dataset_title, load_dataset, original_name
from softbins.paper.data.splits import SplitKind, split_rows
from softbins.paper.run.methods import METHOD_TITLES, METHODS, Parameters
from softbins.paper.run.plan import (
    REPRESENTATION_METHODS,
    REPRESENTATIONS,
    SELECTIONS,
    WIDE_HIDDEN,
    Run,
    Scale,
    Selection,
    candidate_settings,
    many_output_runs,
    method_runs,
    representation_runs,
    split_kinds,
    wide_network_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.show import published
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import METRIC_TITLES, METRICS, Cell, Row, Table, mean_cell

TABLE_NAMES = ("table", "representations", "claims", "overview")
REPRESENTATION_METRICS = ("train_mae", "train_rmse", "test_mae", "test_rmse")  # Table 2
BEST_OUTPUT = "test_mae_of_best_output"
CLAIM_TITLES = {
    "l2": METHOD_TITLES["l2"],
    "l2-many": METHOD_TITLES["l2-many"],
    "l2-wide": f"{METHOD_TITLES['l2']}, {len(WIDE_HIDDEN)} x {WIDE_HIDDEN[0]}",
}
SIMULATED_NOTE = "The data are simulated, so that there is nothing in the paper to compare with."


def make_table(
    name: str,
    dataset: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: SplitKind = "random",
    data: Path | None = None,
) -> Table:
    """A table by its name; only that of all methods heeds `selection` and `split`."""
    _check("name", name, TABLE_NAMES)
    if name == "representations":
        return representation_table(dataset, scale, store)
    if name == "claims":
        return claims_table(dataset, scale, store)
    if name == "overview":
        return overview_table(dict.fromkeys((*TITLES_OF_DATASETS, dataset)), data)
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
    split: SplitKind = "random",
) -> Table:
    """All methods and their errors, in the order of Table 1."""
    _check("selection", selection, SELECTIONS)
    _check("split", split, split_kinds(dataset))
    choices = {m: choose_setting(dataset, m, scale, store, selection, split) for m in METHODS}
    return Table(
        name="table",
        title=f"{dataset_title(dataset)}: all methods",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Method",),
        columns={metric: METRIC_TITLES[metric] for metric in METRICS},
        rows=tuple(_method_row(m, choices[m], store, dataset, split) for m in METHODS),
        selection=selection,
        split=split,
        notes=(*_notes(dataset, scale), *_partly_compared(choices)),
    )


def choose_setting(
    dataset: str,
    method: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: SplitKind = "random",
) -> Choice:
    """The setting with the smallest mean absolute error, on the test or the validation rows.

    Those with the most finished runs are compared: the complete ones, as soon as there are any.
    """
    settings = candidate_settings(dataset, method, scale, split)
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
        return mean_cell(reported, "test_mae", store)
    return mean_cell(held_out, "validation_mae", store)


def _comparable(mean: float | None) -> float:
    """A setting that diverged is the last to be chosen."""
    return math.inf if mean is None or math.isnan(mean) else mean


def _method_row(method: str, choice: Choice, store: Store, dataset: str, split: SplitKind) -> Row:
    cells = {}
    for metric in METRICS:
        printed = _printed(dataset, method, metric, split)
        # Without a choice, finished runs of some setting are not yet the method's.
        found = mean_cell(choice.runs, metric, store, printed) if choice.compared else None
        cells[metric] = found or Cell(None, None, 0, len(choice.runs), printed)
    return Row((METHOD_TITLES[method],), cells, method, choice.note)


def _printed(
    dataset: str, method: str, metric: str, split: SplitKind = "random"
) -> PrintedNumber | None:
    if _is_simulated(dataset) or split not in published.SPLITS:
        return None
    return published.printed_result(dataset, method, metric, split)


def _partly_compared(choices: Mapping[str, Choice]) -> list[str]:
    """What to say about choices that unfinished runs may still change."""
    return [
        f"{METHOD_TITLES[method]}: chosen among {choice.compared} of {choice.settings} settings."
        for method, choice in choices.items()
        if 0 < choice.compared < choice.settings
    ]


# Table 2


def representation_table(dataset: str, scale: Scale, store: Store) -> Table:
    """Both losses on their own, the other's, and random hidden layers."""
    return Table(
        name="representations",
        title=f"{dataset_title(dataset)}: representations",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Error", "Loss"),
        columns={variant: variant.capitalize() for variant in REPRESENTATIONS},
        rows=tuple(
            _representation_row(dataset, metric, method, scale, store)
            for metric in REPRESENTATION_METRICS
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
            printed = published.printed_representation(dataset, method, variant, metric)
        runs = representation_runs(dataset, method, variant, scale)
        cells[variant] = mean_cell(runs, metric, store, printed)
    return Row((METRIC_TITLES[metric], METHOD_TITLES[method]), cells, method)


# What the text claims beside the tables


def claims_table(dataset: str, scale: Scale, store: Store) -> Table:
    """l2, l2 with 100 outputs (a footnote of Section 4), and with a wide network (Appendix C)."""
    runs = {
        "l2": method_runs(dataset, "l2", scale),
        "l2-many": many_output_runs(dataset, scale),
        "l2-wide": wide_network_runs(dataset, scale),
    }
    metrics = {name: METRIC_TITLES[name] for name in ("test_mae", "test_rmse")}
    return Table(
        name="claims",
        title=f"{dataset_title(dataset)}: l2 with 100 outputs, and with a wide network",
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
        metric: mean_cell(runs, metric, store, _claimed(dataset, method, metric))
        for metric in ("test_mae", "test_rmse")
    }
    cells[BEST_OUTPUT] = Cell(None, None, 0, 0)
    if method == "l2-many":
        cells[BEST_OUTPUT] = mean_cell(
            runs, BEST_OUTPUT, store, _claimed(dataset, method, BEST_OUTPUT)
        )
    return Row((CLAIM_TITLES[method],), cells, method)


def _claimed(dataset: str, method: str, metric: str) -> PrintedNumber | None:
    if _is_simulated(dataset):
        return None
    if method == "l2":
        return published.printed_result(dataset, "l2", metric)
    if method == "l2-wide":
        return published.quoted_result(dataset, f"l2_wide_{metric}")
    return published.quoted_result(dataset, "l2_many_test_mae") if metric == BEST_OUTPUT else None


# Table 3


def overview_table(datasets: Iterable[str] = DATASETS, data: Path | None = None) -> Table:
    """Rows, features and target range as used here, beside those printed.

    A dataset that cannot be loaded has the printed ones alone. The cells are counts: they have no
    runs, and agree when they are equal.
    """
    described = [_dataset_row(name, data) for name in datasets]
    if not described:
        raise ValueError(f"datasets: need at least one of {', '.join(DATASETS)}, got none")
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
    printed = published.printed_overview(original_name(name))
    counts: dict[str, float] = {}
    note, problem = "not loaded", ""
    try:
        counts, note = _counts(name, data)
    except (ValueError, OSError, ImportError) as error:
        problem = f"{dataset_title(name)} is not loaded: {error}"
    cells = {
        key: Cell(counts.get(key), None, 0, 0, PrintedNumber(value, None, str(value)))
        for key, value in vars(printed).items()
    }
    return Row((dataset_title(name),), cells, note=note), problem


def _counts(name: str, data: Path | None) -> tuple[dict[str, float], str]:
    dataset = load_dataset(name, data)
    rows = split_rows(dataset, "random", seed=0)
    counts = {
        "train": len(rows.training),
        "test": len(rows.test),
        "features": dataset.X.shape[1],
        "low": dataset.low,
        "high": dataset.high,
    }
    return counts, f"targets from {dataset.y.min():g} to {dataset.y.max():g}"


# For programs


def flat_entries(table: Table) -> list[dict[str, Any]]:
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
        names = {dataset_title(name): name for name in DATASETS}
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
    return dataset != original_name(dataset)


def _notes(dataset: str, scale: Scale) -> tuple[str, ...]:
    """Why the figures cannot be the paper's, if so."""
    simulated = (SIMULATED_NOTE,) if _is_simulated(dataset) else ()
    return (*simulated, *(() if scale.epochs == 1 else (_shortened(scale),)))


def _shortened(scale: Scale) -> str:
    rows = "" if scale.rows is None else f", at most {scale.rows} rows"
    grids = "" if scale.full_grids else ", one setting for each method"
    share = f"Scale {scale.name}: {scale.epochs:.0%} of the paper's epochs{rows}{grids}."
    return f"{share} Differences are to be expected."


def _check(argument: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")
