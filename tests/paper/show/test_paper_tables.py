"""Tables made of records with known scores, against figures worked out by hand."""

import math

import pytest

from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import (
    REPRESENTATIONS,
    Scale,
    candidate_settings,
    many_output_runs,
    method_runs,
    representation_runs,
    wide_network_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.show.entries import flat_entries
from softbins.paper.show.paper_tables import (
    TABLE_NAMES,
    claims_table,
    main_table,
    make_table,
    overview_table,
    representation_table,
)
from softbins.paper.show.published import METRICS, PrintedNumber, printed_result
from softbins.paper.show.selection import choose_setting
from tests.paper.synthetic import write_scores

TINY = Scale("tiny", 0.01, 3, 500, full_grids=True)
SHORT = Scale("short", 0.01, 2, 500, full_grids=False)
NOISES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def write(store, runs, metric, values):
    """One record for each run, with one score that matters."""
    for run, value in zip(runs, values, strict=False):
        write_scores(store, run, {metric: value})


def row(table, method):
    return next(row for row in table.rows if row.method == method)


# Means and standard errors


@pytest.mark.parametrize(
    ("values", "mean", "stderr"),
    [
        pytest.param([], None, None, id="none"),
        pytest.param([4.0], 4.0, None, id="one"),
        pytest.param([1.0, 2.0], 1.5, 0.5, id="two-of-three"),
        # The deviations are -2, -1 and 3: a variance of 14 / 2, and 7 / 3 for the mean.
        pytest.param([1.0, 2.0, 6.0], 3.0, math.sqrt(7 / 3), id="all"),
    ],
)
def test_a_cell_has_the_mean_and_standard_error_of_its_finished_runs(store, values, mean, stderr):
    write(store, method_runs("bike", "l2", TINY), "test_mae", values)
    cell = row(main_table("bike", TINY, store), "l2").cells["test_mae"]
    assert cell.mean == mean
    assert cell.stderr == (None if stderr is None else pytest.approx(stderr))
    assert (cell.runs, cell.planned) == (len(values), 3)


def test_a_diverged_run_shows_in_its_cell_and_is_missing_for_programs(store):
    write(store, method_runs("bike", "l2", TINY), "test_mae", [1.0, math.nan, 2.0])
    table = main_table("bike", TINY, store)
    cell = row(table, "l2").cells["test_mae"]
    assert math.isnan(cell.mean)
    assert (cell.stderr, cell.runs, cell.agrees) == (None, 3, None)
    entry = next(e for e in flat_entries(table) if (e["method"], e["metric"]) == ("l2", "test_mae"))
    assert (entry["mean"], entry["stderr"], entry["runs"], entry["agrees"]) == (None, None, 3, None)


@pytest.mark.parametrize(
    ("values", "agrees"),
    [
        # The paper prints 28.9984 ± 0.5244; ours here are ± 0.5774.
        pytest.param([28.0, 29.0, 30.0], True, id="near"),
        pytest.param([29.5, 30.5, 31.5], True, id="1.50-away-of-1.56"),
        pytest.param([29.6, 30.6, 31.6], False, id="1.60-away"),
        pytest.param([], None, id="nothing-to-compare"),
    ],
)
def test_agreement_is_within_two_combined_standard_errors(store, values, agrees):
    write(store, method_runs("bike", "l2", TINY), "test_mae", values)
    cell = row(main_table("bike", TINY, store), "l2").cells["test_mae"]
    assert cell.published == PrintedNumber(28.9984, 0.5244, "2899.84 ± 52.44")
    assert cell.agrees is agrees


# Table 1


def test_the_table_has_all_methods_and_metrics_in_the_paper_s_order(store):
    table = main_table("bike", TINY, store)
    assert [row.method for row in table.rows] == list(METHODS)
    assert table.rows[0].labels == ("Linear Reg.",)
    assert tuple(table.columns) == METRICS
    assert all(set(row.cells) == set(METRICS) for row in table.rows)
    named = (table.name, table.dataset, table.scale, table.selection, table.split)
    assert named == ("table", "bike", "tiny", "paper", "random")


def judge(store, dataset, method, tests, validations):
    """Finish all runs of a grid so that the test rows prefer one setting, and others another."""
    for setting, test, validation in zip(
        candidate_settings(dataset, method, TINY), tests, validations, strict=True
    ):
        _, reported, held_out = setting
        write(store, reported, "test_mae", [test - 0.1, test, test + 0.1])
        write(store, held_out, "validation_mae", [validation] * 3)


@pytest.mark.parametrize("dataset", ["bike", "ct", "song-simulated"])
@pytest.mark.parametrize(
    ("selection", "note", "mean"),
    [("paper", "noise=0.001", 1.0), ("honest", "noise=0.01", 2.0)],
)
def test_each_selection_takes_its_own_best_setting(store, dataset, selection, note, mean):
    judge(store, dataset, "l2-noise", [5, 4, 1, 2, 3], [5, 4, 3, 1, 2])
    chosen = row(main_table(dataset, TINY, store, selection), "l2-noise")
    assert chosen.note == note
    assert chosen.cells["test_mae"].mean == pytest.approx(mean)
    assert chosen.cells["test_mae"].stderr == pytest.approx(0.1 / math.sqrt(3))


def test_a_diverged_setting_is_not_chosen(store):
    judge(store, "bike", "mdn", [math.nan, 4, 3, 5, 6], [1] * 5)
    assert row(main_table("bike", TINY, store), "mdn").note == "components=8"


@pytest.mark.parametrize(
    ("finished", "best", "compared"),
    [
        pytest.param([3, 3, 2, 3, 3], 3, 4, id="all-but-the-best"),
        pytest.param([3, 0, 2, 0, 0], 0, 1, id="one-complete"),
        pytest.param([1, 2, 1, 2, 0], 3, 2, id="none-complete"),
        pytest.param([0, 0, 0, 0, 0], None, 0, id="nothing"),
    ],
)
def test_only_settings_with_the_most_runs_are_compared(store, finished, best, compared):
    # Their errors are 5, 4, 1, 2, 3: the third would be best.
    settings = candidate_settings("bike", "l2-noise", TINY)
    for (_, runs, _), count, error in zip(settings, finished, [5, 4, 1, 2, 3], strict=True):
        write(store, runs, "test_mae", [error] * count)
    choice = choose_setting("bike", "l2-noise", TINY, store)
    assert choice.compared == compared
    assert choice.note == ("" if best is None else f"noise={NOISES[best]:g}")
    table = main_table("bike", TINY, store)
    said = [note for note in table.notes if note.startswith("l2+Noise")]
    assert said == ([f"l2+Noise: chosen among {compared} of 5 settings."] if compared else [])
    cell = row(table, "l2-noise").cells["test_mae"]
    assert (cell.runs, cell.planned) == (0 if best is None else finished[best], 3)


def test_without_runs_to_judge_by_nothing_is_reported(store):
    for _, reported, _ in candidate_settings("ct", "l2-noise", TINY):
        write(store, reported, "test_mae", [1.0] * 3)
    cell = row(main_table("ct", TINY, store, "honest"), "l2-noise").cells["test_mae"]
    assert (cell.mean, cell.runs, cell.planned) == (None, 0, 3)
    assert cell.published == printed_result("ct", "l2-noise", "test_mae")


@pytest.mark.parametrize("selection", ["paper", "honest"])
def test_a_short_scale_has_one_setting_which_needs_no_judging(store, selection):
    ((_, runs, _),) = candidate_settings("ct", "l2-noise", SHORT)
    write(store, runs, "test_mae", [1.0, 2.0])
    table = main_table("ct", SHORT, store, selection)
    chosen = row(table, "l2-noise")
    assert (chosen.note, chosen.cells["test_mae"].mean) == ("noise=0.001", 1.5)
    assert table.notes[0].startswith("Scale short: ")
    assert "one setting for each method" in table.notes[0]


@pytest.mark.parametrize(
    ("dataset", "split", "method", "printed"),
    [
        ("ct", "random", "mdn", "17.950 ± 1.514"),
        ("ct", "grouped", "mdn", None),
        ("song", "random", "l2", "602.393 ± 2.026"),
        ("song", "fixed", "l2", "610.344"),
        ("song", "fixed", "mdn", None),
        ("bike", "random", "linear", None),
        ("ct-simulated", "random", "mdn", None),
    ],
)
def test_the_paper_s_figure_is_that_of_the_same_data_and_split(
    store, dataset, split, method, printed
):
    _, runs, _ = candidate_settings(dataset, method, SHORT, split)[0]
    write(store, runs, "test_mae", [6.0, 8.0])
    table = main_table(dataset, SHORT, store, split=split)
    cell = row(table, method).cells["test_mae"]
    assert (None if cell.published is None else cell.published.printed) == printed
    assert cell.mean == 7.0
    assert any("simulated" in note for note in table.notes) == dataset.endswith("simulated")
    assert table.title.startswith("CT Position (simulated)") == dataset.endswith("simulated")


# The other tables


def test_representations_are_a_metric_and_a_loss_in_each_row(store):
    for i, variant in enumerate(REPRESENTATIONS):
        write(
            store,
            representation_runs("ct", "hl-gaussian", variant, TINY),
            "test_rmse",
            [i, i, i + 3],
        )
    table = representation_table("ct", TINY, store)
    labels = [row.labels for row in table.rows]
    assert labels[:2] == [("Train MAE", "l2"), ("Train MAE", "HL-Gaussian")]
    assert labels[-1] == ("Test RMSE", "HL-Gaussian")
    assert len(labels) == 8
    assert [table.rows[-1].cells[v].mean for v in REPRESENTATIONS] == [1.0, 2.0, 3.0, 4.0]
    assert table.rows[-1].cells["fixed"].published.printed == "31.288 ± 2.145"
    assert table.rows[0].cells["random"].published.printed == "923.335 ± 15.665"
    assert table.rows[0].cells["random"].mean is None


def test_representations_share_their_default_with_the_main_table(store):
    write(store, method_runs("bike", "l2", TINY), "test_mae", [1.0, 2.0, 3.0])
    cell = next(
        row.cells["default"]
        for row in representation_table("bike", TINY, store).rows
        if row.labels == ("Test MAE", "l2")
    )
    assert (cell.mean, cell.published) == (2.0, None)


@pytest.mark.parametrize(
    ("dataset", "method", "metric", "mean", "printed"),
    [
        ("ct", "l2", "test_mae", 2.0, "19.110 ± 3.034"),
        ("ct", "l2-many", "test_mae_of_best_output", 1.0, "18.421"),
        ("ct", "l2-many", "test_mae", None, None),
        ("ct", "l2-wide", "test_mae", 3.0, None),
        ("bike", "l2-many", "test_mae_of_best_output", 1.0, None),
        ("bike", "l2-wide", "test_mae", 3.0, "2402.67"),
        ("bike", "l2-wide", "test_rmse", None, "4014.31"),
        ("ct-simulated", "l2-many", "test_mae_of_best_output", 1.0, None),
    ],
)
def test_claims_stand_beside_what_the_text_says(store, dataset, method, metric, mean, printed):
    write(store, many_output_runs(dataset, SHORT), "test_mae_of_best_output", [0.5, 1.5])
    write(store, method_runs(dataset, "l2", SHORT), "test_mae", [1.0, 3.0])
    write(store, wide_network_runs(dataset, SHORT), "test_mae", [2.0, 4.0])
    cell = row(claims_table(dataset, SHORT, store), method).cells[metric]
    found = None if cell.mean is None or math.isnan(cell.mean) else cell.mean
    assert found == mean
    assert (None if cell.published is None else cell.published.printed) == printed


def test_only_the_network_with_many_outputs_has_a_best_one(store):
    cells = [row.cells["test_mae_of_best_output"] for row in claims_table("ct", TINY, store).rows]
    assert [cell.planned for cell in cells] == [0, 3, 0]


def test_the_overview_counts_what_is_there_beside_what_is_printed(tmp_path):
    table = overview_table(["bike", "ct"], tmp_path)
    bike, ct = table.rows
    assert bike.labels == ("Bike Sharing",)
    assert [cell.mean for cell in bike.cells.values()] == [13903, 3476, 16, 0, 1000]
    assert [cell.published.mean for cell in bike.cells.values()] == [13911, 3478, 16, 0, 1000]
    assert [cell.agrees for cell in bike.cells.values()] == [False, False, True, True, True]
    assert bike.note == "targets from 1 to 977"
    assert [cell.mean for cell in ct.cells.values()] == [None] * 5
    assert [cell.published.mean for cell in ct.cells.values()] == [42800, 10700, 385, 0, 100]
    assert ct.note == "not loaded"
    (problem,) = table.notes
    assert "ct.parquet: no such file" in problem
    assert "softbins paper fetch ct" in problem


# By name, and for programs


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_tables_are_made_by_name(store, name):
    assert make_table(name, "bike", TINY, store).name == name


def test_the_main_table_heeds_selection_and_split(store):
    table = make_table("table", "ct", SHORT, store, "honest", "grouped")
    assert (table.selection, table.split) == ("honest", "grouped")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["figure", "bike"], "name: expected one of table,", id="name"),
        pytest.param(["table", "boston"], "dataset: expected one of bike,", id="dataset"),
        pytest.param(["overview", "boston"], "dataset: expected one of bike,", id="overview"),
        pytest.param(["table", "ct", "best"], "selection: expected one of paper,", id="selection"),
        pytest.param(
            ["table", "bike", "paper", "fixed"],
            "split: expected one of random, got 'fixed'",
            id="split",
        ),
    ],
)
def test_what_does_not_exist_is_named(store, arguments, message):
    name, dataset, *rest = arguments
    with pytest.raises(ValueError, match=message):
        make_table(name, dataset, TINY, store, *rest)


def test_an_overview_of_nothing_is_refused():
    with pytest.raises(ValueError, match="datasets: need at least one of bike, ct"):
        overview_table([])
