"""Methods compared on one table: ranked errors, a page and a picture."""

import math

import pytest

from softbins._core.text import shown
from softbins.evaluation import compare_methods, comparison_page
from softbins.report.comparison import draw_comparison, method_label, score_table, summarize_folds
from tests.parsed_page import Page
from tests.report.small_models import table

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")


def folds(*errors):
    rest = {"coverage": None, "seconds": 0.5}
    return [
        {"fold": i, "mae": e, "rmse": 2 * e, "crps": e / 2, **rest} for i, e in enumerate(errors)
    ]


def test_a_summary_is_the_mean_and_its_standard_error():
    found = summarize_folds("l1", folds(3.0, 5.0))
    assert (found["mae"], found["mae_stderr"]) == (4.0, 1.0)
    assert (found["rmse"], found["rmse_stderr"]) == (8.0, 2.0)
    assert (found["crps"], found["crps_stderr"]) == (2.0, 0.5)
    assert (found["coverage"], found["seconds"], found["undertrained"]) == (None, 0.5, None)
    assert (found["kind"], found["folds"]) == ("plain network", folds(3.0, 5.0))


def test_compared_methods_are_ranked_and_reported():
    x, y = table()
    told = []
    found = compare_methods(
        *(x, y, ["linear", "l2"]),
        folds=2,
        epochs=2,
        on_progress=lambda done, text: told.append((done, text)),
    )
    assert [row["method"] for row in found] == ["linear", "l2"]
    assert told[:2] == [(0.5, "linear (1/2)"), (1.0, "linear (1/2)")]
    assert told[-1] == (2.0, "l2 (2/2)")


def test_the_page_of_a_comparison_has_the_errors_and_the_bars():
    results = [summarize_folds("l1", folds(3.0, 5.0)), summarize_folds("mdn", folds(4.0, 6.5))]
    facts = {"rows": 60, "features": 2, "folds": 2, "epochs": 3, "seed": 0}
    text = comparison_page(results, "data.csv", facts)
    page = Page(text)
    names = ("mae", "mae_stderr", "rmse", "rmse_stderr", "crps", "crps_stderr", "seconds")
    expected = [row[name] for row in results for name in names]
    assert page.cells == [(value, shown(value)) for value in expected]
    assert "comparison" in page.ids
    assert text.count(">mdn</text>") == 1
    assert page.facts == [
        *("data", "data.csv", "rows", "60", "features", "2", "folds", "2"),
        *("epochs", "3", "seed", "0"),
    ]
    assert (page.open, page.badly_nested) == ([], [])
    assert "diverged" not in page.words


def test_a_method_that_diverged_is_named():
    results = [summarize_folds("l1", folds(3.0, 5.0)), summarize_folds("l2", folds(math.nan, 1.0))]
    page = Page(comparison_page(results, "data.csv", {"folds": 2}))
    assert "l2 diverged: its errors are not finite." in page.words


def test_undertrained_methods_are_marked():
    late = summarize_folds("l2", folds(3.0, 5.0), undertrained=True)
    results = [summarize_folds("softbins", folds(1.0, 2.0), undertrained=False), late]
    assert [method_label(result) for result in results] == [
        "softbins",
        "l2 (plain network, undertrained)",
    ]
    text = comparison_page(results, "data.csv")
    assert "l2 is undertrained: in most folds" in Page(text).words
    assert "plain network, undertrained" in Page(text).words
    assert text.count(">l2 *</text>") == 1
    assert "l2 (plain network, undertrained)" in score_table(results)


def test_an_unknown_method_is_refused_before_any_work():
    with pytest.raises(ValueError, match="got 'l7'"):
        compare_methods(*table(), ["l2", "l7"], on_progress=lambda *_: pytest.fail("it has begun"))


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_a_comparison_is_drawn_to_a_file(tmp_path, kind):
    path = tmp_path / f"p.{kind}"
    draw_comparison([summarize_folds("l1", folds(3.0, 5.0))], path, kind)
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(start)
