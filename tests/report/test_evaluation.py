"""A model judged on rows: the scores are those of `scores`, and the page shows nothing else."""

import math
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from softbins import (
    Bins,
    Histogram,
    HistogramRegressor,
    NeuralRegressor,
    load,
    scores,
)
from softbins._text import shown
from softbins.report import evaluation
from softbins.report.evaluation import (
    Evaluation,
    comparison_page,
    description,
    evaluate,
    predictions,
    summarised,
)
from softbins.tabular.validation import training_summary

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
# Elements without an end.
VOID = {"meta", "link", "path", "use"}
FIGURES = ["densities", "intervals", "reliability", "pit", "training"]


class Page(HTMLParser):
    """The parts of a page that the tests look at, and whether its elements are nested."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.tags, self.cells, self.facts = [], [], [], [], []
        self.open, self.badly_nested, self.value = [], [], None
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        names = ("href", "xlink:href", "src", "srcset", "data", "poster", "action")
        self.links += [found[name] for name in names if name in found]
        self.value = found.get("data-value")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.badly_nested.append(tag)
        self.value = None

    def handle_data(self, data):
        self.words += data
        if self.value is not None:
            self.cells.append((float(self.value), data))
        if self.open and self.open[-1] in ("dt", "dd"):
            self.facts.append(data)


def table(rows=80, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(rows, 2)), columns=["width", "height"])
    return frame, (2 * frame["width"] + random.normal(size=rows)).to_numpy()


def fitted(objective="hl-gaussian", bins=20, **how):
    how = {"max_epochs": 4, "early_stopping": True, "random_state": 0} | how
    return NeuralRegressor(objective, (8,), bins=bins, **how).fit(*table())


def tabular(**how):
    how = {"members": 2, "max_epochs": 4, "random_state": 0} | how
    return HistogramRegressor((8,), **how).fit(*table())


@pytest.fixture(scope="module")
def models():
    wide = np.concatenate([np.linspace(-10, -1, 5), np.linspace(-0.5, 0.5, 6), [1, 2, 10]])
    return {
        "equal bins": fitted(members=2),
        "unequal bins": fitted(bins=Bins(torch.from_numpy(wide))),
        "mdn": fitted("mdn", early_stopping=False),
        "calibrated": tabular(),
    }


@pytest.fixture(scope="module", params=["equal bins", "unequal bins", "mdn", "calibrated"])
def found(request, models):
    return evaluate(models[request.param], *table(40, seed=1), coverage=0.8)


@pytest.fixture(scope="module")
def text(found):
    return found.page("some.model", "new.csv")


# Scores


def test_the_scores_are_those_of_the_model_s_predictions(found):
    x, y = table(40, seed=1)
    model = found.model
    low, high = model.predict_interval(x, 0.8).T
    predicted = model.predict_distribution(x)
    assert found.scores() == {
        "mae": mean_absolute_error(y, model.predict(x)),
        "median_mae": mean_absolute_error(y, model.predict(x, output="median")),
        "rmse": root_mean_squared_error(y, model.predict(x)),
        "crps": scores.crps(predicted, y),
        "nll": scores.nll(predicted, y),
        "coverage": scores.coverage(y, low, high),
        "width": scores.width(low, high),
    }
    summary = found.summary()
    assert (summary["rows"], summary["interval"]) == (40, 0.8)
    assert summary["objective"] == model.objective


def test_a_model_of_numbers_has_no_scores_of_distributions():
    found = evaluate(fitted("l2"), *table())
    known = {name for name, value in found.summary().items() if value is not None}
    assert known == {"objective", "rows", "mae", "rmse"}
    (remark,) = found.remarks()
    assert "(l2) predicts numbers, no distributions: only MAE and RMSE" in remark
    page = Page(found.page())
    assert [name for name in FIGURES if name in page.ids] == ["training"]
    assert remark in page.words
    assert len(page.cells) == 2


def test_targets_outside_the_bins_are_counted(models):
    x, y = table()
    found = evaluate(models["equal bins"], x, np.where(np.arange(80) < 3, 99.0, y))
    assert found.scores()["nll"] == math.inf
    assert found.remarks()[0].startswith("3 of 80 targets lie outside the bins, [")
    page = Page(found.page())
    assert (math.inf, "inf") in page.cells
    assert found.remarks()[0] in page.words


@pytest.mark.parametrize(
    ("y", "coverage", "message"),
    [
        ([1.0], 0.9, "y: need one number for each of 80 rows, got 1"),
        ([math.nan] * 80, 0.9, "y: 80 of 80 values are NaN"),
        (["a"] * 80, 0.9, "y: need an array of numbers"),
        ([1.0] * 80, 1.5, "coverage: must lie strictly between 0 and 1, got 1.5"),
    ],
    ids=["short", "nan", "words", "coverage"],
)
def test_bad_input_names_the_argument(models, y, coverage, message):
    with pytest.raises(ValueError, match=message):
        evaluate(models["equal bins"], table()[0], y, coverage)


def test_a_model_that_has_diverged_is_refused():
    model = SimpleNamespace(predict=lambda x: np.array([1.0, math.nan]))
    with pytest.raises(ValueError, match="model: 1 of 2 predictions are not finite; fit it again"):
        evaluate(model, [[0], [0]], [1.0, 2.0])


# Predictions and descriptions


def test_predictions_are_columns_by_name(models):
    x, model = table(5, seed=1)[0], models["calibrated"]
    assert list(predictions(model, x)) == ["prediction"]
    asked = {"output": "median", "interval": 0.8, "quantiles": (0.1, 0.9)}
    found, raw = predictions(model, x, **asked), predictions(model, x, **asked, raw=True)
    names = ["prediction", "low_0.8", "high_0.8", "quantile_0.1", "quantile_0.9"]
    assert list(found) == list(raw) == names
    np.testing.assert_array_equal(found["prediction"], model.predict(x, output="median"))
    calibrated = np.column_stack([found["low_0.8"], found["high_0.8"]])
    np.testing.assert_array_equal(calibrated, model.predict_interval(x, 0.8))
    np.testing.assert_allclose(raw["low_0.8"], raw["quantile_0.1"])
    np.testing.assert_allclose(raw["high_0.8"], raw["quantile_0.9"])


@pytest.mark.parametrize("name", ["equal bins", "mdn"])
def test_raw_changes_nothing_where_nothing_is_calibrated(models, name):
    x = table(5, seed=1)[0]
    one, other = (predictions(models[name], x, interval=0.8, raw=raw) for raw in (False, True))
    assert all(np.array_equal(one[column], other[column]) for column in one)


def test_a_description_has_none_for_what_a_model_has_not(models):
    found = {name: description(model) for name, model in models.items()}
    found["as in the paper"] = description(tabular(early_stopping=False))
    assert len({tuple(about) for about in found.values()}) == 1
    for name, about in found.items():
        held_out = [about[key] for key in ("share_of_trees", "temperature", "calibration_rows")]
        assert (None not in held_out) if name == "calibrated" else (held_out == [None] * 3)
    assert found["mdn"]["bins"] is found["equal bins"]["bias_of_bins"] is None
    assert found["calibrated"]["hidden"] == [8]


# The page


def test_the_page_is_whole_and_asks_for_nothing(text):
    page = Page(text)
    assert (page.open, page.badly_nested) == ([], [])
    assert len(set(page.ids)) == len(page.ids)
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
    if hasattr(found.model, "aggregator_"):
        finish = found.model.aggregator_
        expected |= {"share_of_trees": finish.share, "temperature": finish.temperature.t}
        expected |= {"calibration_rows": 20, "bias_of_bins": found.model.bins_.bias._asdict()}
    for name, value in expected.items():
        assert told[name.replace("_", " ")] == shown(value)
    assert "None" not in told.values()


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
        drawers = found._figures_of_distributions()
        assert drawers["pit"].keywords == drawers["reliability"].keywords == {"integer": whole}


def test_training_without_an_epoch_is_said_in_words():
    x, _ = table()
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, np.full(80, 4.0))
    page = Page(evaluate(model, x, np.full(80, 4.0)).page())
    assert "training" not in page.ids
    assert "No figure of the training: no epochs, which a constant target" in page.words


# Methods


def folds(*errors):
    return [{"fold": i, "mae": e, "rmse": 2 * e} for i, e in enumerate(errors)]


def test_a_summary_is_the_mean_and_its_standard_error():
    found = summarised("l1", folds(3.0, 5.0))
    assert (found["mae"], found["mae_stderr"]) == (4.0, 1.0)
    assert (found["rmse"], found["rmse_stderr"]) == (8.0, 2.0)
    assert found["folds"] == folds(3.0, 5.0)


def test_compared_methods_are_ranked_and_reported():
    x, y = table()
    told = []
    found = evaluation.compared(
        x, y, ("linear", "l2"), lambda done, text: told.append((done, text)), folds=2, epochs=2
    )
    assert [row["method"] for row in found] == ["linear", "l2"]
    assert told == [(0.5, "l2 (1/2)"), (1.0, "l2 (1/2)")]


def test_the_page_of_a_comparison_has_the_errors_and_the_bars():
    results = [summarised("l1", folds(3.0, 5.0)), summarised("mdn", folds(4.0, 6.5))]
    facts = {"rows": 60, "features": 2, "folds": 2, "epochs": 3, "seed": 0}
    text = comparison_page(results, "data.csv", facts)
    page = Page(text)
    names = ("mae", "mae_stderr", "rmse", "rmse_stderr")
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
    results = [summarised("l1", folds(3.0, 5.0)), summarised("l2", folds(math.nan, 1.0))]
    page = Page(comparison_page(results, "data.csv", {"folds": 2}))
    assert "l2 diverged: its errors are not finite." in page.words


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_a_comparison_is_drawn_to_a_file(tmp_path, kind):
    path = tmp_path / f"p.{kind}"
    evaluation.draw_comparison([summarised("l1", folds(3.0, 5.0))], path, kind)
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(start)
