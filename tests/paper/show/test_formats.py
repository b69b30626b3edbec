"""Every format, against text worked out by hand."""

import sys
from dataclasses import replace

import pytest

from softbins.paper.run.plan import method_runs
from softbins.paper.run.store import Store
from softbins.paper.show import formats
from softbins.paper.show.formats import FORMATS, markdown_text, plain_text, render, rich_text
from softbins.paper.show.paper_tables import main_table
from softbins.paper.show.published import METRICS
from softbins.paper.show.tables import Cell
from tests.paper.show.small_tables import PRINTED_L2, SHORT, small_table
from tests.paper.synthetic import write_scores

# Text


def test_plain_text_is_aligned_with_the_paper_below():
    near, far = Cell(29.0, 0.5, 2, 2, PRINTED_L2), Cell(32.0, 0.5, 2, 2, PRINTED_L2)
    made = small_table(near, far, Cell(None, None, 0, 2))
    made = replace(made, rows=(replace(made.rows[0], note="noise=0.001"),))
    lines = plain_text(made).splitlines()
    assert lines[0] == "Bike Sharing (scale short)"
    assert lines[2:5] == [
        "Method       Column 0        Column 1        Column 2",
        "l2           29.00 ± 0.50 ✓  32.00 ± 0.50 ✗  –",
        "noise=0.001  (29.00 ± 0.52)  (29.00 ± 0.52)",
    ]


def test_rows_with_nothing_below_take_one_line():
    assert len(plain_text(small_table(Cell(29.0, 0.5, 2, 2))).splitlines()) == 6


def test_plain_text_of_whole_results(scored_store):
    lines = plain_text(main_table("bike", SHORT, scored_store)).splitlines()
    assert [cell.strip() for cell in lines[3].split("  ") if cell] == ["Linear Reg."] + [
        "29.00 ± 0.50"
    ] * 6
    l2 = next(line for line in lines if line.startswith("l2 "))
    assert l2.count("✗") == 5
    assert l2.count("✓") == 1
    mdn = next(line for line in lines if line.startswith("MDN"))
    assert mdn.count("diverged") == 1
    assert "components=8" in lines[lines.index(mdn) + 1]


@pytest.mark.parametrize(("width", "headers"), [(200, 1), (80, 2), (60, 3)])
def test_rich_text_is_cut_into_pieces_that_fit(scored_store, monkeypatch, width, headers):
    monkeypatch.setenv("COLUMNS", str(width))
    text = rich_text(main_table("bike", SHORT, scored_store))
    assert max(map(len, text.splitlines())) <= width
    assert sum(line.strip().startswith("Method") for line in text.splitlines()) == headers
    assert "…" not in text
    assert text.count("(29.00 ± 0.52)") == 1  # l2's test MAE
    assert text.startswith("Bike Sharing: all methods (scale short")


@pytest.mark.parametrize(
    ("interactive", "installed", "rich"),
    [
        pytest.param(False, True, False, id="pipe"),
        pytest.param(True, False, False, id="without-rich"),
        pytest.param(True, True, True, id="terminal"),
    ],
)
def test_a_terminal_gets_rich_text_if_it_can(monkeypatch, interactive, installed, rich):
    def optional_import(name):
        raise ImportError(name)

    monkeypatch.setattr(sys.stdout, "isatty", lambda: interactive)
    if not installed:
        monkeypatch.setattr(formats, "optional_import", optional_import)
    made = small_table(Cell(29.0, 0.5, 2, 2))
    assert (render(made, "terminal") != plain_text(made)) == rich


def test_markdown_is_a_table_with_as_many_cells_in_every_line(scored_store):
    text = markdown_text(main_table("bike", SHORT, scored_store))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 10
    assert {line.count("|") for line in lines} == {8}
    assert lines[1] == "|" + " --- |" * 7
    assert "| 29.00 ± 0.50 ✓<br>(29.00 ± 0.52) |" in next(x for x in lines if x.startswith("| l2 "))
    assert "| l2+Noise<br>(noise=0.001) |" in text
    assert text.startswith("**Bike Sharing: all methods (scale short,")


def test_markdown_keeps_bars_inside_their_cell():
    made = small_table(Cell(1.5, None, 1, 1))
    made = replace(made, rows=(replace(made.rows[0], labels=("a|b",)),))
    assert r"| a\|b | 1.500 |" in markdown_text(made)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dataset", ["bike", "song-simulated"])
def test_tables_without_any_run_are_shown_too(tmp_path, kind, dataset):
    made = main_table(dataset, SHORT, Store(tmp_path))
    text = render(made, kind)
    assert "HL-Gaussian" in text or "hl-gaussian" in text
    assert not text.endswith("\n")


def test_partial_results_say_so(tmp_path):
    store = Store(tmp_path)
    write_scores(store, method_runs("bike", "l2", SHORT)[0], dict.fromkeys(METRICS, 29.25))
    text = plain_text(main_table("bike", SHORT, store))
    assert "over 1 of 2 runs" in text
    assert text.count("29.25") == 6
    assert "– no run is finished." in text


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match="kind: expected one of terminal, .*, got 'html'"):
        render(small_table(Cell(1.0, None, 1, 1)), "html")
