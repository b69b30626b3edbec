"""The page of an evaluation shows its verdict, scores, figures and facts, and nothing else."""

import base64
import hashlib
import io
import math
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from softbins import Bins, Histogram, NeuralRegressor, load
from softbins._core.text import shown
from softbins.evaluation import Evaluation, evaluate
from softbins.report.evaluation_figures import axis_scale, draw_densities, draw_predictions
from softbins.report.evaluation_page import honesty_figures, worst_rows
from softbins.report.page import figure_of
from softbins.report.predictions_file import predictions_text
from softbins.tabular.description import aggregator_of
from softbins.tabular.summary import training_summary
from tests.parsed_page import Page
from tests.report.small_models import fitted, table

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
FIGURES = [
    *("predictions", "densities", "errors-by-target", "errors-by-column-0", "errors-by-column-1"),
    *("importance-error", "importance-width", "dependence-0", "dependence-1"),
    *("reliability", "pit", "training"),
]
OF_NUMBERS = [name for name in FIGURES if name not in ("densities", "importance-width")][:-3]


@pytest.fixture(scope="module")
def text(found):
    return found.page("some.model", "new.csv")


def test_the_page_is_whole_and_asks_for_nothing(text):
    page = Page(text)
    assert (page.open, page.badly_nested) == ([], [])
    assert len(set(page.ids)) == len(page.ids)
    assert page.sources == []
    inside = ("#", "data:text/csv;")
    assert all(link.startswith(inside) or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert not {"img", "iframe", "object", "form"} & set(page.tags)
    assert "@import" not in text
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)", text))
    # The names of SVG's own language, which nobody fetches.
    assert set(re.findall(r"https?://[\w./-]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_the_only_script_is_the_one_that_browsers_are_told_to_run(text):
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in text


def test_the_verdict_comes_first(found, text):
    words = Page(text).words
    places = [words.index(part) for each in found.verdict() for part in (each.headline, each.text)]
    assert places == sorted(places)
    assert places[-1] < words.index("Scores")
    for each in found.verdict():
        assert f'<div class="finding {each.level}">' in text


def test_the_predictions_can_be_taken_out_of_the_page(found, text):
    (link,) = [link for link in Page(text).links if link.startswith("data:text/csv")]
    frame = pd.read_csv(io.BytesIO(base64.b64decode(link.partition("base64,")[2])))
    assert list(frame) == ["row", "true", "predicted", "error", "median", "low_0.8", "high_0.8"]
    np.testing.assert_allclose(frame["true"], found.y)
    np.testing.assert_allclose(frame["predicted"], found.mean)
    np.testing.assert_allclose(frame[["low_0.8", "high_0.8"]], found.interval)


def test_the_worst_rows_are_shown_with_their_values(found, text):
    x, y = table(40, seed=1)
    row = int(np.abs(found.mean - y).argmax())
    (cells,) = re.findall(
        rf'<th scope="row" class="number" data-value="{row}">.*?</tr>', text, re.S
    )
    shown_values = re.findall(r'data-value="([^"]*)"', cells)
    expected = [row, y[row], found.mean[row], found.mean[row] - y[row], *found.interval[row]]
    assert [float(value) for value in shown_values[:6]] == pytest.approx(expected)
    assert sorted(map(float, shown_values[6:])) == pytest.approx(sorted(x.loc[row]))


def test_rows_have_the_numbers_of_the_index():
    y = np.array([1.0, 2.0, 5.0])
    x = pd.DataFrame({"a": y}, index=[7, 3, 12])
    judged = partial(Evaluation, None, y, y, distribution=None, interval=None, coverage=0.9)
    assert judged(X=x).row_numbers == [7, 3, 12]
    assert predictions_text(judged(X=x), 2).splitlines()[1:] == ["7,1,1,0", "3,2,2,0"]
    named = worst_rows(judged(X=x), [])
    assert [row[0] for row in named.rows] == [7, 3, 12]
    assert named.caption.endswith("Rows have their numbers in the table.")
    for other in (None, x.set_axis(list("abc")), x.set_axis([7, 7, 8]), y[:, None]):
        assert judged(X=other).row_numbers == [0, 1, 2]
    assert worst_rows(judged(), []).caption.endswith("Rows count from 0.")


def test_a_number_that_many_targets_share_is_named_beside_the_figures(models):
    x, y = table(40, seed=1)
    lead = "50% of the targets are 0. Each of them counts as one point"
    half = np.where(np.arange(40) % 2, y, 0.0)
    assert lead in evaluate(models["equal bins"], x, half).page(quick=True)
    assert "of the targets are" not in evaluate(models["equal bins"], x, y).page(quick=True)


def test_every_figure_is_there_with_its_caption(text):
    page = Page(text)
    assert [name for name in page.ids if name in FIGURES] == FIGURES
    assert {f"{name}-caption" for name in FIGURES} <= set(page.ids)
    assert "The targets of 40 of 40 rows, evenly chosen by their predicted means, " in page.words
    assert "and their 80% intervals." in page.words


def test_every_number_of_the_table_is_that_of_the_scores(found, text):
    expected = list(found.scores().values())
    assert Page(text).cells[: len(expected)] == [(value, shown(value)) for value in expected]
    assert "Share of targets in their 80% intervals." in text


def test_the_page_says_what_was_judged_and_how_it_was_trained(found, text):
    facts = Page(text).facts
    told = dict(zip(facts[::2], facts[1::2], strict=True))
    expected = {"model": "some.model", "data": "new.csv", "rows": 40}
    expected |= {"objective": found.model.objective, "members": found.model.network_.members}
    expected |= training_summary(found.model)
    aggregator = aggregator_of(found.model)
    if aggregator is not None:
        expected |= {"share_of_trees": aggregator.shares.get("trees", 0.0)}
        expected |= {"calibration_rows": 20, "bias_of_bins": found.model.bins_.bias._asdict()}
    for name, value in expected.items():
        assert told[name.replace("_", " ")] == shown(value)
    assert "None" not in told.values()


def test_the_page_of_a_model_of_numbers_shows_nothing_of_distributions():
    found = evaluate(fitted("l2"), *table())
    page = Page(found.page())
    assert [name for name in FIGURES if name in page.ids] == [*OF_NUMBERS, "training"]
    assert found.remarks()[0] in page.words
    assert "Width" not in page.words


def test_a_quick_page_says_nothing_about_columns(found):
    page = Page(found.page(quick=True))
    some = [name for name in FIGURES if not re.match("errors-by-column|importance|depend", name)]
    assert [name for name in page.ids if name in FIGURES] == some


def test_the_page_says_that_targets_lie_outside_the_bins(models):
    x, y = table()
    found = evaluate(models["equal bins"], x, np.where(np.arange(80) < 3, 99.0, y))
    page = Page(found.page(quick=True))
    assert (math.inf, "inf") in page.cells
    assert found.remarks()[0] in page.words


def test_a_saved_model_gives_the_same_page(models, tmp_path):
    model, rows = models["calibrated"], table(40, seed=1)
    model.save(tmp_path / "some.model")
    first, second = (evaluate(m, *rows).page() for m in (model, load(tmp_path / "some.model")))
    assert first == second


def test_names_of_files_are_text_and_no_markup(models):
    found = evaluate(models["equal bins"], *table(1))
    page = Page(found.page("<script>x.model", "a&b.csv", quick=True))
    assert page.tags.count("script") == 1
    assert "<script>x.model on a&b.csv" in page.words


HOSTILE = "</td><script>alert(1)</script>"


def test_names_and_values_of_columns_are_text_and_no_markup():
    """Nor are they formulas, or characters that no page can hold."""
    x, y = table(60)
    values = np.array([HOSTILE, "$x^2$", "<img src=x>\x00", "a&amp;b"])[np.arange(60) % 4]
    frame = x.assign(**{HOSTILE: values, "$y_{2}": x["width"], "_漢字'\"": values[::-1]})
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(frame, y)
    text = evaluate(model, frame, y).page()
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert (page.open, page.badly_nested) == ([], [])
    for name in (HOSTILE, "$y_{2}", "_漢字'\""):
        assert f"Errors by {name}, with" in page.words or f"if {name} were" in page.words
    assert "a&amp;b" in page.words
    assert "\x00" not in text


@pytest.mark.parametrize(("rows", "drawn"), [(1, 1), (450, 200)])
def test_at_most_200_rows_are_drawn(models, rows, drawn):
    page = Page(evaluate(models["equal bins"], *table(rows)).page(quick=True))
    assert f"The targets of {drawn} of {rows} rows" in page.words


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (np.linspace(-3, 3, 50), "linear"),
        (np.zeros(5), "linear"),
        (np.exp(np.linspace(-6, 6, 99)), "log"),
        (np.append(np.zeros(200), np.exp(np.linspace(-6, 6, 99))), "symlog"),
    ],
    ids=["even", "zeros", "skewed", "zero-inflated"],
)
def test_axes_fit_what_is_on_them(values, scale):
    assert axis_scale(values) == scale
    figure = figure_of(partial(draw_predictions, values, values, None), 3.0, "white")
    assert figure.axes[0].get_yscale() == scale


def test_densities_are_drawn_where_their_mass_is():
    wide = Bins.uniform(0, 1000, 2000)
    logits = -torch.square(wide.centers - torch.linspace(5, 20, 30)[:, None]).double()
    predicted = Histogram(wide, logits=logits)
    figure = figure_of(partial(draw_densities, predicted, np.zeros(30), range(30)), 3.0, "white")
    low, high = figure.axes[0].get_xlim()
    assert -1 < low < 6
    assert 19 < high < 25


def test_whole_numbered_targets_are_judged_as_such(models):
    predicted = Histogram(Bins.uniform(0, 5, 50), logits=torch.zeros(6, 50).double())
    model = models["equal bins"]
    for y, whole in [(np.arange(6.0), True), (np.arange(6.0) / 2, False)]:
        found = Evaluation(model, y, y, predicted, np.column_stack([y, y]), 0.9)
        drawers = honesty_figures(found)
        assert drawers["pit"].keywords == drawers["reliability"].keywords == {"integer": whole}


def test_training_without_an_epoch_is_said_in_words():
    x, _ = table()
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, np.full(80, 4.0))
    page = Page(evaluate(model, x, np.full(80, 4.0)).page(quick=True))
    assert "training" not in page.ids
    assert "No figure of the training: no epochs, which a constant target" in page.words
