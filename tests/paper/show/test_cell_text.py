"""The words and numbers of a table, against text worked out by hand."""

import pytest

from softbins.paper.show.cell_text import heading, our_text, printed_text, remarks
from softbins.paper.show.formats import plain_text
from softbins.paper.show.paper_tables import main_table, overview_table
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import Cell
from tests.paper.show.small_tables import PRINTED_L2, SHORT, small_table

SAID = "Mean ± standard error over 2 runs, errors in the target's unit."


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        pytest.param(Cell(None, None, 0, 5), "–", id="not-run"),
        pytest.param(Cell(None, None, 0, 0), "", id="not-planned"),
        pytest.param(Cell(float("nan"), None, 5, 5), "diverged", id="diverged"),
        pytest.param(Cell(25.3748, 0.1328, 5, 5), "25.37 ± 0.13", id="usual"),
        pytest.param(Cell(-3.66062, 0.00225, 5, 5), "-3.6606 ± 0.0022", id="negative"),
        pytest.param(Cell(2534.7, 41.5, 5, 5), "2535 ± 42", id="large"),
        pytest.param(Cell(2e-5, 1.2e-7, 5, 5), "0.00002000 ± 0.00000012", id="small"),
        pytest.param(Cell(0.5, 0.0, 5, 5), "0.5000 ± 0.0000", id="no-spread"),
        pytest.param(Cell(0.0, 0.0, 5, 5), "0 ± 0", id="zero"),
        pytest.param(Cell(25.3748, None, 1, 5), "25.37", id="one-run"),
        pytest.param(Cell(13903, None, 0, 0), "13903", id="count"),
    ],
)
def test_our_figure_has_two_digits_of_its_standard_error(cell, text):
    assert our_text(cell) == text


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        pytest.param(None, "", id="none"),
        pytest.param(PRINTED_L2, "(29.00 ± 0.52)", id="usual"),
        pytest.param(
            PrintedNumber(1e-5, 0.0, "0.001 ± 0.000"),
            "(0.00001 ± 0.00000)",
            id="as-many-as-printed",
        ),
        pytest.param(
            PrintedNumber(2e-5, 1e-5, "0.002 ± 0.001"), "(0.00002 ± 0.00001)", id="no-more"
        ),
        pytest.param(PrintedNumber(0.18421, None, "18.421"), "(0.18421)", id="mean-alone"),
        pytest.param(PrintedNumber(13911, None, "13911"), "(13911)", id="count"),
    ],
)
def test_the_paper_s_figure_has_no_digits_that_it_does_not_print(figure, text):
    assert printed_text(figure) == text


def test_the_heading_names_everything_that_the_table_depends_on(scored_store):
    made = main_table("bike", SHORT, scored_store, "honest")
    assert (
        heading(made) == "Bike Sharing: all methods (scale short, honest selection, random split)"
    )
    simulated = main_table("ct-simulated", SHORT, scored_store, split="grouped")
    assert heading(simulated) == (
        "CT Position (simulated): all methods (scale short, paper selection, grouped split)"
    )
    assert heading(overview_table(["bike"])) == "Datasets"


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        pytest.param([(5, 5), (5, 5)], " over 5 runs", id="all"),
        pytest.param([(3, 5), (3, 5)], " over 3 of 5 runs", id="equally-many"),
        pytest.param([(3, 5), (0, 5)], " over 3 of 5 runs", id="some-not-run"),
        pytest.param([(1, 1), (1, 1)], " over 1 run", id="one"),
        pytest.param([(1, 5), (1, 5)], " over 1 of 5 runs", id="one-of-many"),
        pytest.param([(3, 5), (5, 5)], " over 5 runs, or n where a cell says so", id="unequal"),
        pytest.param([(0, 5), (0, 5)], "", id="none"),
    ],
)
def test_the_number_of_runs_is_said_once_or_in_each_cell(runs, said):
    made = small_table(*(Cell(2.5 if n else None, None, n, planned) for n, planned in runs))
    first = remarks(made)[0]
    assert first.startswith(f"Mean ± standard error{said}, errors in the target's unit.")
    assert ("n=3" in plain_text(made)) == ("or n" in said)
    assert "n=5" not in plain_text(made)
    assert ("– no run is finished." in first) == any(n == 0 for n, _ in runs)


def test_remarks_explain_only_what_is_there():
    near, far = Cell(29.0, 0.5, 2, 2, PRINTED_L2), Cell(32.0, 0.5, 2, 2, PRINTED_L2)
    assert remarks(small_table(Cell(29.0, 0.5, 2, 2))) == [SAID]
    assert remarks(small_table(near, far, notes=("And this.",))) == [
        f"{SAID} In brackets what the paper prints. ✓ within two combined standard errors, ✗ not.",
        "And this.",
    ]
