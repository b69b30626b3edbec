"""Every format, against text worked out by hand."""

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from softbins.paper.run.plan import Scale, method_runs, plan_runs
from softbins.paper.run.store import Store
from softbins.paper.show import formats
from softbins.paper.show.formats import (
    FORMATS,
    heading,
    latex_text,
    markdown_text,
    our_text,
    plain_text,
    printed_text,
    remarks,
    render,
    rich_text,
)
from softbins.paper.show.paper_tables import flat_entries, main_table, make_table, overview_table
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import METRICS, Cell, Row, Table

SHORT = Scale("short", 0.01, 2, 500, full_grids=False)
NAMES = ["table", "representations", "claims", "overview"]
PAPER = PrintedNumber(28.9984, 0.5244, "2899.84 ± 52.44")
SAID = "Mean ± standard error over 2 runs, errors in the target's unit."


def table(*cells, **changes):
    """One row with a cell for each column."""
    columns = {f"c{i}": f"Column {i}" for i in range(len(cells))}
    row = Row(("l2",), dict(zip(columns, cells, strict=True)), "l2")
    made = Table("table", "Bike Sharing", "bike", "short", ("Method",), columns, (row,))
    return replace(made, **changes)


@pytest.fixture
def store(tmp_path):
    """All runs of two seeds on Bike Sharing, with scores 28.5 and 29.5; half of MDN's failed."""
    store = Store(tmp_path / "results")
    for run in plan_runs(["table", "representations", "claims"], "bike", SHORT):
        scores = dict.fromkeys((*METRICS, "test_mae_of_best_output"), 28.5 + run.seed)
        failed = {"test_mae": None} if run.method == "mdn" and run.seed else {}
        store.write(run, {"scores": scores | failed})
    return store


# Numbers


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
        pytest.param(PAPER, "(29.00 ± 0.52)", id="usual"),
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


# What is said around the table


def test_the_heading_names_everything_that_the_table_depends_on(store):
    made = main_table("bike", SHORT, store, "honest")
    assert (
        heading(made) == "Bike Sharing: all methods (scale short, honest selection, random split)"
    )
    simulated = main_table("ct-simulated", SHORT, store, split="grouped")
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
    made = table(*(Cell(2.5 if n else None, None, n, planned) for n, planned in runs))
    first = remarks(made)[0]
    assert first.startswith(f"Mean ± standard error{said}, errors in the target's unit.")
    assert ("n=3" in plain_text(made)) == ("or n" in said)
    assert "n=5" not in plain_text(made)
    assert ("– no run is finished." in first) == any(n == 0 for n, _ in runs)


def test_remarks_explain_only_what_is_there():
    near, far = Cell(29.0, 0.5, 2, 2, PAPER), Cell(32.0, 0.5, 2, 2, PAPER)
    assert remarks(table(Cell(29.0, 0.5, 2, 2))) == [SAID]
    assert remarks(table(near, far, notes=("And this.",))) == [
        f"{SAID} In brackets what the paper prints. ✓ within two combined standard errors, ✗ not.",
        "And this.",
    ]


# Text


def test_plain_text_is_aligned_with_the_paper_below():
    near, far = Cell(29.0, 0.5, 2, 2, PAPER), Cell(32.0, 0.5, 2, 2, PAPER)
    made = table(near, far, Cell(None, None, 0, 2))
    made = replace(made, rows=(replace(made.rows[0], note="noise=0.001"),))
    lines = plain_text(made).splitlines()
    assert lines[0] == "Bike Sharing (scale short)"
    assert lines[2:5] == [
        "Method       Column 0        Column 1        Column 2",
        "l2           29.00 ± 0.50 ✓  32.00 ± 0.50 ✗  –",
        "noise=0.001  (29.00 ± 0.52)  (29.00 ± 0.52)",
    ]


def test_rows_with_nothing_below_take_one_line():
    assert len(plain_text(table(Cell(29.0, 0.5, 2, 2))).splitlines()) == 6


def test_plain_text_of_whole_results(store):
    lines = plain_text(main_table("bike", SHORT, store)).splitlines()
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
def test_rich_text_is_cut_into_pieces_that_fit(store, monkeypatch, width, headers):
    monkeypatch.setenv("COLUMNS", str(width))
    text = rich_text(main_table("bike", SHORT, store))
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
    made = table(Cell(29.0, 0.5, 2, 2))
    assert (render(made, "terminal") != plain_text(made)) == rich


def test_markdown_is_a_table_with_as_many_cells_in_every_line(store):
    text = markdown_text(main_table("bike", SHORT, store))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 10
    assert {line.count("|") for line in lines} == {8}
    assert lines[1] == "|" + " --- |" * 7
    assert "| 29.00 ± 0.50 ✓<br>(29.00 ± 0.52) |" in next(x for x in lines if x.startswith("| l2 "))
    assert "| l2+Noise<br>(noise=0.001) |" in text
    assert text.startswith("**Bike Sharing: all methods (scale short,")


def test_markdown_keeps_bars_inside_their_cell():
    made = table(Cell(1.5, None, 1, 1))
    made = replace(made, rows=(replace(made.rows[0], labels=("a|b",)),))
    assert r"| a\|b | 1.500 |" in markdown_text(made)


# LaTeX


def tabular(text):
    """The column specification and the lines of cells."""
    columns, body = re.search(r"\\begin{tabular}{(l+)}\n(.*?)\\end{tabular}", text, re.S).groups()
    lines = [line for line in body.splitlines() if line != r"\hline"]
    assert all(line.endswith(r" \\") for line in lines)
    return columns, [line.removesuffix(r" \\").split(" & ") for line in lines]


def test_latex_cells_are_as_the_paper_prints_them():
    cells = [
        Cell(29.0, 0.5, 2, 2, PAPER),
        Cell(32.0, 0.5, 2, 2, PAPER),
        Cell(28.5, None, 1, 2),
        Cell(None, None, 0, 2),
        Cell(float("nan"), None, 2, 2),
    ]
    _, lines = tabular(latex_text(table(*cells)))
    assert lines[1:] == [
        [
            r"$\ell_2$",
            r"$2900.00$ {\scriptsize $(\pm 50.00)$}",
            r"$3200.00^{*}$ {\scriptsize $(\pm 50.00)$}",
            r"$2850.00$ {\scriptsize n=1}",
            "--",
            "diverged",
        ],
        ["", *[r"{\scriptsize $[2899.84 \pm 52.44]$}"] * 2, "", "", ""],
    ]


def test_latex_has_the_paper_s_number_of_decimals():
    made = table(Cell(0.089921, 0.002351, 2, 2), dataset="ct")
    assert tabular(latex_text(made))[1][1][1] == r"$8.992$ {\scriptsize $(\pm 0.235)$}"


@pytest.mark.parametrize("name", NAMES)
def test_latex_is_balanced(store, name):
    text = latex_text(make_table(name, "bike", SHORT, store))
    begun = re.findall(r"\\begin{(.*?)}", text)
    assert begun == re.findall(r"\\end{(.*?)}", text)[::-1] == ["table*", "tabular"]
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    columns, lines = tabular(text)
    assert {len(line) for line in lines} == {len(columns)}
    assert text.isascii()
    assert "usepackage" not in text


def test_the_caption_says_what_the_numbers_are(store):
    text = latex_text(main_table("ct-simulated", SHORT, store))
    caption = re.search(r"\\caption{(.*)}\n", text)[1]
    assert caption.startswith("CT Position (simulated): all methods (scale short, paper selection")
    assert "multiplied by $10^2$" in caption
    assert "multiplied" not in latex_text(overview_table(["bike"]))


def test_counts_are_not_multiplied():
    _, lines = tabular(latex_text(overview_table(["bike"])))
    assert lines[1][:3] == ["Bike Sharing", "$13903^{*}$", "$3476^{*}$"]
    assert lines[2][1] == r"{\scriptsize $[13911]$}"


HARD = r"50% of a_b & #1 {x} ~ ^ \ [z] ±"


def test_special_characters_are_escaped():
    made = table(Cell(1.0, None, 1, 1), title=HARD, notes=("a_note",))
    text = latex_text(replace(made, rows=(replace(made.rows[0], labels=(HARD,), note="p_1=2"),)))
    safe = (
        r"50\% of a\_b \& \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"{[}z] $\pm$"
    )
    assert text.count(safe) == 2
    assert r"p\_1=2" in text
    assert r"a\_note" in text


def compiled(text, folder):
    document = f"\\documentclass{{article}}\n\\begin{{document}}\n{text}\n\\end{{document}}\n"
    (folder / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_without_any_package(store, tmp_path):
    hard = table(Cell(1.0, None, 1, 1), Cell(float("nan"), None, 1, 1), title=HARD, notes=(HARD,))
    hard = replace(hard, rows=(replace(hard.rows[0], labels=(HARD,), note=HARD),))
    tables = [make_table(name, "bike", SHORT, store) for name in NAMES]
    missing = [overview_table(["ct"], tmp_path), main_table("song", SHORT, store, split="fixed")]
    done = compiled("\n".join(map(latex_text, [*tables, *missing, hard])), tmp_path)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 0


# For programs


@pytest.mark.parametrize("name", NAMES)
def test_json_is_the_long_rows(store, name):
    made = make_table(name, "bike", SHORT, store)
    assert json.loads(render(made, "json")) == flat_entries(made)


@pytest.mark.parametrize("name", NAMES)
def test_csv_is_the_long_rows_as_text(store, name):
    made = make_table(name, "bike", SHORT, store)
    expected = [
        {key: "" if value is None else str(value) for key, value in entry.items()}
        for entry in flat_entries(made)
    ]
    assert list(csv.DictReader(render(made, "csv").splitlines())) == expected


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dataset", ["bike", "song-simulated"])
def test_tables_without_any_run_are_shown_too(tmp_path, kind, dataset):
    made = main_table(dataset, SHORT, Store(tmp_path))
    text = render(made, kind)
    assert "HL-Gaussian" in text or "hl-gaussian" in text
    assert not text.endswith("\n")


def test_partial_results_say_so(tmp_path):
    store = Store(tmp_path)
    store.write(method_runs("bike", "l2", SHORT)[0], {"scores": dict.fromkeys(METRICS, 29.25)})
    text = plain_text(main_table("bike", SHORT, store))
    assert "over 1 of 2 runs" in text
    assert text.count("29.25") == 6
    assert "– no run is finished." in text


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match="kind: expected one of terminal, .*, got 'html'"):
        render(table(Cell(1.0, None, 1, 1)), "html")
