"""The tables of the paper with our results in them, made from whatever runs are finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from softbins.paper.data.datasets import (
    DATASET_TITLES,
    DATASETS,
    dataset_title,
    is_simulated,
    load_dataset,
    original_name,
)
from softbins.paper.data.splits import SplitKind, split_rows
from softbins.paper.run.methods import METHOD_TITLES, METHODS
from softbins.paper.run.plan import (
    REPRESENTATION_METHODS,
    REPRESENTATIONS,
    SELECTIONS,
    WIDE_HIDDEN,
    Run,
    Scale,
    Selection,
    many_output_runs,
    method_runs,
    representation_runs,
    split_kinds,
    wide_network_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.show import published
from softbins.paper.show.published import METRICS, PrintedNumber, check_known
from softbins.paper.show.selection import Choice, choose_setting
from softbins.paper.show.tables import METRIC_TITLES, Cell, Row, Table, mean_cell

TABLE_NAMES = ("table", "representations", "claims", "overview")
REPRESENTATION_METRICS = ("train_mae", "train_rmse", "test_mae", "test_rmse")
CLAIM_METRICS = ("test_mae", "test_rmse")
BEST_OUTPUT_METRIC = "test_mae_of_best_output"
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
    """Make a table by its name.

    Only the table of all methods depends on `selection` and `split`. Only the overview loads the
    datasets, fetched ones from the folder `data`.
    """
    check_known("name", name, TABLE_NAMES)
    if name == "representations":
        return representation_table(dataset, scale, store)
    if name == "claims":
        return claims_table(dataset, scale, store)
    if name == "overview":
        return overview_table(dict.fromkeys((*DATASET_TITLES, dataset)), data)
    return main_table(dataset, scale, store, selection, split)


# Table 1, and Tables 4 to 6 of the appendix


def main_table(
    dataset: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: SplitKind = "random",
) -> Table:
    """All methods and their errors, in the order of Table 1."""
    check_known("selection", selection, SELECTIONS)
    check_known("split", split, split_kinds(dataset))
    choices = {
        method: choose_setting(dataset, method, scale, store, selection, split)
        for method in METHODS
    }
    return Table(
        name="table",
        title=f"{dataset_title(dataset)}: all methods",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Method",),
        columns={metric: METRIC_TITLES[metric] for metric in METRICS},
        rows=tuple(
            _method_row(method, choice, store, dataset, split) for method, choice in choices.items()
        ),
        selection=selection,
        split=split,
        notes=(*_comparison_notes(dataset, scale), *_choice_notes(choices)),
        is_shortened=scale.epoch_share < 1,
    )


def _method_row(method: str, choice: Choice, store: Store, dataset: str, split: SplitKind) -> Row:
    cells = {}
    for metric in METRICS:
        printed = _printed_result(dataset, method, metric, split)
        if choice.compared:
            cells[metric] = mean_cell(choice.runs, metric, store, printed)
        else:
            # Without a choice, finished runs of some setting are not yet those of the method.
            cells[metric] = Cell(None, None, 0, len(choice.runs), printed)
    return Row((METHOD_TITLES[method],), cells, method, choice.note)


def _printed_result(
    dataset: str, method: str, metric: str, split: SplitKind
) -> PrintedNumber | None:
    if is_simulated(dataset) or split not in published.SPLITS:
        return None
    return published.printed_result(dataset, method, metric, split)


def _choice_notes(choices: Mapping[str, Choice]) -> list[str]:
    """Notes on the choices that unfinished runs may still change."""
    return [
        f"{METHOD_TITLES[method]}: chosen among {choice.compared} of {choice.settings} settings."
        for method, choice in choices.items()
        if 0 < choice.compared < choice.settings
    ]


# Table 2


def representation_table(dataset: str, scale: Scale, store: Store) -> Table:
    """Both losses on their own, on the other's, and on random hidden layers."""
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
        notes=_comparison_notes(dataset, scale),
        is_shortened=scale.epoch_share < 1,
    )


def _representation_row(dataset: str, metric: str, method: str, scale: Scale, store: Store) -> Row:
    cells: dict[str, Cell] = {}
    for variant in REPRESENTATIONS:
        printed = None
        if not is_simulated(dataset):
            printed = published.printed_representation(dataset, method, variant, metric)
        runs = representation_runs(dataset, method, variant, scale)
        cells[variant] = mean_cell(runs, metric, store, printed)
    return Row((METRIC_TITLES[metric], METHOD_TITLES[method]), cells, method)


# Results that stand in the text only


def claims_table(dataset: str, scale: Scale, store: Store) -> Table:
    """l2, l2 with 100 outputs (a footnote of Section 4), and with a wide network (Appendix C)."""
    runs = {
        "l2": method_runs(dataset, "l2", scale),
        "l2-many": many_output_runs(dataset, scale),
        "l2-wide": wide_network_runs(dataset, scale),
    }
    metrics = {name: METRIC_TITLES[name] for name in CLAIM_METRICS}
    return Table(
        name="claims",
        title=f"{dataset_title(dataset)}: l2 with 100 outputs, and with a wide network",
        dataset=dataset,
        scale=scale.name,
        label_titles=("Method",),
        columns={**metrics, BEST_OUTPUT_METRIC: "Test MAE of the best output"},
        rows=tuple(_claim_row(dataset, method, runs[method], store) for method in runs),
        split="random",
        notes=_comparison_notes(dataset, scale),
        is_shortened=scale.epoch_share < 1,
    )


def _claim_row(dataset: str, method: str, runs: list[Run], store: Store) -> Row:
    # Only the network with many outputs has a best one.
    metrics = (*CLAIM_METRICS, BEST_OUTPUT_METRIC) if method == "l2-many" else CLAIM_METRICS
    cells = {BEST_OUTPUT_METRIC: Cell(None, None, 0, 0)}
    for metric in metrics:
        cells[metric] = mean_cell(runs, metric, store, _printed_claim(dataset, method, metric))
    return Row((CLAIM_TITLES[method],), cells, method)


def _printed_claim(dataset: str, method: str, metric: str) -> PrintedNumber | None:
    if is_simulated(dataset):
        return None
    if method == "l2":
        return published.printed_result(dataset, "l2", metric)
    if method == "l2-wide":
        return published.quoted_result(dataset, f"l2_wide_{metric}")
    if metric == BEST_OUTPUT_METRIC:
        return published.quoted_result(dataset, "l2_many_test_mae")
    return None


# Table 3


def overview_table(datasets: Iterable[str] = DATASETS, data: Path | None = None) -> Table:
    """Rows, features and target range of the datasets as used here, beside those printed.

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
    """The row of a dataset, and the reason if it could not be loaded."""
    printed = published.printed_overview(original_name(name))
    counts: dict[str, float] = {}
    note, problem = "not loaded", ""
    try:
        counts, note = _count(name, data)
    except (ValueError, OSError, ImportError) as error:
        problem = f"{dataset_title(name)} is not loaded: {error}"
    cells = {
        key: Cell(counts.get(key), None, 0, 0, PrintedNumber(value, None, str(value)))
        for key, value in vars(printed).items()
    }
    return Row((dataset_title(name),), cells, note=note), problem


def _count(name: str, data: Path | None) -> tuple[dict[str, float], str]:
    dataset = load_dataset(name, data)
    split = split_rows(dataset, "random", seed=0)
    counts = {
        "train": len(split.train_and_validation),
        "test": len(split.test),
        "features": dataset.X.shape[1],
        "low": dataset.low,
        "high": dataset.high,
    }
    return counts, f"targets from {dataset.y.min():g} to {dataset.y.max():g}"


# Notes


def _comparison_notes(dataset: str, scale: Scale) -> tuple[str, ...]:
    """The reasons why our results cannot be the paper's, if there are any."""
    simulated = (SIMULATED_NOTE,) if is_simulated(dataset) else ()
    shortened = () if scale.epoch_share == 1 else (_scale_note(scale),)
    return (*simulated, *shortened)


def _scale_note(scale: Scale) -> str:
    rows = "" if scale.max_rows is None else f", at most {scale.max_rows} rows"
    grids = "" if scale.full_grids else ", one setting for each method"
    share = f"Scale {scale.name}: {scale.epoch_share:.0%} of the paper's epochs{rows}{grids}."
    return f"{share} Differences are to be expected."
