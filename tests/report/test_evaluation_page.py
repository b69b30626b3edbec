"""The page of an evaluation shows its scores, figures and facts, and nothing else."""

import math
import re

import numpy as np
import pytest
import torch

from softbins import Bins, Histogram, NeuralRegressor, load, scores
from softbins._core.text import shown
from softbins.evaluation import Evaluation, evaluate
from softbins.report.evaluation_page import distribution_figures
from softbins.tabular.description import aggregator_of
from softbins.tabular.summary import training_summary
from tests.parsed_page import Page
from tests.report.small_models import fitted, table

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
FIGURES = ["densities", "intervals", "reliability", "pit", "training"]


@pytest.fixture(scope="module")
def text(found):
    return found.page("some.model", "new.csv")


def test_the_page_is_whole_and_asks_for_nothing(text):
    page = Page(text)
    assert (page.open, page.badly_nested) == ([], [])
    assert len(set(page.ids)) == len(page.ids)
    assert page.sources == []
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert not {"script", "img", "iframe", "object", "form"} & set(page.tags)
    assert "@import" not in text
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)", text))
    # The names of SVG's own language, which nobody fetches.
    assert set(re.findall(r"https?://[\w./-]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_every_figure_is_there_with_its_caption(text):
    page = Page(text)
    assert [name for name in page.ids if name in FIGURES] == FIGURES
    assert {f"{name}-caption" for name in FIGURES} <= set(page.ids)
    assert "The 80% intervals and the targets of 40 of 40 rows" in page.words


def test_every_number_of_the_table_is_that_of_the_scores(found, text):
    expected = list(found.scores().values())
    assert Page(text).cells == [(value, shown(value)) for value in expected]
    assert "Share of targets in their 80% intervals." in text


def test_the_page_says_what_was_judged_and_how_it_was_trained(found, text):
    facts = Page(text).facts
    told = dict(zip(facts[::2], facts[1::2], strict=True))
    expected = {"model": "some.model", "data": "new.csv", "rows": 40}
    expected |= {"objective": found.model.objective, "members": found.model.network_.members}
    expected |= training_summary(found.model)
    aggregator = aggregator_of(found.model)
    if aggregator is not None:
        expected |= {"share_of_trees": aggregator.tree_share}
        expected |= {"temperature": aggregator.temperature.t}
        expected |= {"calibration_rows": 20, "bias_of_bins": found.model.bins_.bias._asdict()}
    for name, value in expected.items():
        assert told[name.replace("_", " ")] == shown(value)
    assert "None" not in told.values()


def test_the_page_of_a_model_of_numbers_shows_its_training_only():
    found = evaluate(fitted("l2"), *table())
    page = Page(found.page())
    assert [name for name in FIGURES if name in page.ids] == ["training"]
    assert found.remarks()[0] in page.words
    assert len(page.cells) == 2


def test_the_page_says_that_targets_lie_outside_the_bins(models):
    x, y = table()
    found = evaluate(models["equal bins"], x, np.where(np.arange(80) < 3, 99.0, y))
    page = Page(found.page())
    assert (math.inf, "inf") in page.cells
    assert found.remarks()[0] in page.words


def test_the_legends_repeat_the_scores(found, text):
    share = scores.coverage(found.y, *found.interval.T)
    assert f"interval: {share:.1%} of 40 inside" in Page(text).words


@pytest.mark.parametrize("name", ["equal bins", "calibrated"])
def test_a_saved_model_gives_the_same_page(models, tmp_path, name):
    model, rows = models[name], table(40, seed=1)
    model.save(tmp_path / "some.model")
    first, second = (evaluate(m, *rows).page() for m in (model, load(tmp_path / "some.model")))
    assert first == second


def test_names_of_files_are_text_and_no_markup(models):
    found = evaluate(models["equal bins"], *table(1))
    page = Page(found.page("<script>x.model", "a&b.csv"))
    assert "script" not in page.tags
    assert "<script>x.model on a&b.csv" in page.words


@pytest.mark.parametrize(("rows", "drawn"), [(1, 1), (450, 200)])
def test_at_most_200_intervals_are_drawn(models, rows, drawn):
    page = Page(evaluate(models["equal bins"], *table(rows)).page())
    assert f"the targets of {drawn} of {rows} rows" in page.words
    assert f"of {drawn} inside" in page.words


def test_whole_numbered_targets_are_judged_as_such(models):
    predicted = Histogram(Bins.uniform(0, 5, 50), logits=torch.zeros(6, 50).double())
    model = models["equal bins"]
    for y, whole in [(np.arange(6.0), True), (np.arange(6.0) / 2, False)]:
        found = Evaluation(model, y, y, predicted, np.column_stack([y, y]), 0.9)
        drawers = distribution_figures(found)
        assert drawers["pit"].keywords == drawers["reliability"].keywords == {"integer": whole}


def test_training_without_an_epoch_is_said_in_words():
    x, _ = table()
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, np.full(80, 4.0))
    page = Page(evaluate(model, x, np.full(80, 4.0)).page())
    assert "training" not in page.ids
    assert "No figure of the training: no epochs, which a constant target" in page.words
