"""Tables as LaTeX, against text worked out by hand and against pdflatex."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from softbins.paper.show.latex import latex_text
from softbins.paper.show.paper_tables import TABLE_NAMES, main_table, make_table, overview_table
from softbins.paper.show.tables import Cell
from tests.paper.show.small_tables import PRINTED_L2, SHORT, small_table


def tabular(text):
    """The column specification and the lines of cells."""
    columns, body = re.search(r"\\begin{tabular}{(l+)}\n(.*?)\\end{tabular}", text, re.S).groups()
    lines = [line for line in body.splitlines() if line != r"\hline"]
    assert all(line.endswith(r" \\") for line in lines)
    return columns, [line.removesuffix(r" \\").split(" & ") for line in lines]


def test_latex_cells_are_as_the_paper_prints_them():
    cells = [
        Cell(29.0, 0.5, 2, 2, PRINTED_L2),
        Cell(32.0, 0.5, 2, 2, PRINTED_L2),
        Cell(28.5, None, 1, 2),
        Cell(None, None, 0, 2),
        Cell(float("nan"), None, 2, 2),
    ]
    _, lines = tabular(latex_text(small_table(*cells)))
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
    made = small_table(Cell(0.089921, 0.002351, 2, 2), dataset="ct")
    assert tabular(latex_text(made))[1][1][1] == r"$8.992$ {\scriptsize $(\pm 0.235)$}"


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_latex_is_balanced(scored_store, name):
    text = latex_text(make_table(name, "bike", SHORT, scored_store))
    begun = re.findall(r"\\begin{(.*?)}", text)
    assert begun == re.findall(r"\\end{(.*?)}", text)[::-1] == ["table*", "tabular"]
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    columns, lines = tabular(text)
    assert {len(line) for line in lines} == {len(columns)}
    assert text.isascii()
    assert "usepackage" not in text


def test_the_caption_says_what_the_numbers_are(scored_store):
    text = latex_text(main_table("ct-simulated", SHORT, scored_store))
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
    made = small_table(Cell(1.0, None, 1, 1), title=HARD, notes=("a_note",))
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
def test_latex_compiles_without_any_package(scored_store, tmp_path):
    hard = small_table(
        Cell(1.0, None, 1, 1), Cell(float("nan"), None, 1, 1), title=HARD, notes=(HARD,)
    )
    hard = replace(hard, rows=(replace(hard.rows[0], labels=(HARD,), note=HARD),))
    tables = [make_table(name, "bike", SHORT, scored_store) for name in TABLE_NAMES]
    missing = [
        overview_table(["ct"], tmp_path),
        main_table("song", SHORT, scored_store, split="fixed"),
    ]
    done = compiled("\n".join(map(latex_text, [*tables, *missing, hard])), tmp_path)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 0
