"""Contributions of columns: they add up, are those of the definition, and of the user's columns."""

import itertools
import math
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from softbins import Explanation, HistogramRegressor, NeuralRegressor

pytest.importorskip("shap", reason="explanations need the extra softbins[explain]")

SVG = "{http://www.w3.org/2000/svg}"


def houses(rows=60):
    """Numbers with gaps, categories, booleans, and a column that says nothing."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": random.normal(size=rows), "town": random.choice(list("ABC"), rows)}
    )
    frame["garden"], frame["same"] = random.random(rows) < 0.5, 1.0
    y = 3 * frame["size"] + 2 * (frame["town"] == "A") * frame["garden"]
    frame.loc[random.random(rows) < 0.2, "size"] = np.nan
    frame.loc[::9, "town"] = None
    return frame, y + random.normal(size=rows)


@pytest.fixture(scope="module")
def model():
    return HistogramRegressor((8,), members=2, max_epochs=15, random_state=0).fit(*houses())


@pytest.fixture(scope="module")
def found(model):
    rows, _ = houses()
    return model.explain(rows[:6], rows[20:40], orders=2)


def test_contributions_add_up_to_what_is_predicted(model, found):
    rows, _ = houses()
    low, high = model.predict_interval(rows[:6]).T
    np.testing.assert_allclose(found.base_mean + found.mean.sum(1), model.predict(rows[:6]))
    np.testing.assert_allclose(found.base_width + found.width.sum(1), high - low)
    assert found.base_mean == pytest.approx(model.predict(rows[20:40]).mean())
    assert found.columns == ["size", "town", "garden", "same"]


def test_a_column_that_is_always_the_same_adds_nothing(found):
    assert (found.mean[:, 3] == 0).all()
    assert (found.width[:, 3] == 0).all()
    assert np.abs(found.mean[:, 0]).max() > 0.5


def shapley(predict, row, background):
    """The definition: what a column adds, averaged over all orders in which columns get known."""
    columns = range(len(row))

    def known(which):
        mixed = background.copy()
        mixed[:, list(which)] = row[list(which)]
        return predict(mixed).mean(axis=0)

    value = {s: known(s) for n in range(len(row) + 1) for s in itertools.combinations(columns, n)}
    result = []
    for column in columns:
        total = 0.0
        for subset in value:
            if column not in subset:
                size, more = len(subset), tuple(sorted({*subset, column}))
                share = math.factorial(size) * math.factorial(len(row) - size - 1)
                total += share / math.factorial(len(row)) * (value[more] - value[subset])
        result.append(total)
    return np.array(result)


def test_contributions_are_those_of_the_definition():
    x = np.random.default_rng(0).normal(size=(60, 3))
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=10, random_state=0)
    model.fit(x, x[:, 0] * x[:, 1] + x[:, 2])

    def mean_and_width(rows):
        low, high = model.predict_interval(rows).T
        return np.stack([model.predict(rows), high - low], axis=1)

    expected = shapley(mean_and_width, x[0], x[10:15])
    found = model.explain(x[:1], x[10:15], orders=60)
    spread = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(found.mean[0], expected[:, 0], atol=0.02 * spread[0])
    np.testing.assert_allclose(found.width[0], expected[:, 1], atol=0.02 * spread[1])


def test_two_columns_that_act_together_need_one_order():
    """Then forward and backward is all there is to know, as with a product of two columns."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    model = NeuralRegressor("l2", hidden=(8,), max_epochs=2, random_state=0).fit(x, x[:, 0])
    model.predict = lambda rows: rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2])
    expected = shapley(lambda rows: model.predict(rows)[:, None], x[0], x[10:15])[:, 0]
    for seed in range(3):
        found = model.explain(x[:1], x[10:15], orders=1, random_state=seed)
        np.testing.assert_allclose(found.mean[0], expected)
    assert found.width is found.base_width is None
    assert "width" not in found.to_text()


def test_the_same_seed_explains_the_same_and_leaves_other_random_numbers_alone(model, found):
    rows, _ = houses()
    np.random.seed(7)
    expected = np.random.random(3)
    np.random.seed(7)
    again = model.explain(rows[:6], rows[20:40], orders=2)
    np.testing.assert_array_equal(np.random.random(3), expected)
    np.testing.assert_array_equal(again.mean, found.mean)
    # A row is explained alike, whatever else is.
    alone = model.explain(rows[4:5], rows[20:40], orders=2)
    np.testing.assert_array_equal(alone.width[0], found.width[4])


def test_all_kinds_of_tables_are_explained_alike(model, found):
    rows = pl.from_pandas(houses()[0])
    theirs = model.explain(rows[:6], rows[20:40], orders=2)
    np.testing.assert_array_equal(theirs.mean, found.mean)
    x = np.random.default_rng(0).normal(size=(30, 2)) * [1, 0]
    numbers = NeuralRegressor(hidden=(4,), bins=10, max_epochs=2, random_state=0).fit(x, x[:, 0])
    ours = numbers.explain(x[:2], x)
    assert ours.columns == ["x0", "x1"]
    np.testing.assert_array_equal(ours.mean, numbers.explain(sparse.csr_array(x)[:2], x).mean)


def test_of_a_large_background_some_rows_are_drawn(model, monkeypatch):
    rows, _ = houses()
    asked, predict = [], type(model)._mean_and_interval

    def counted(self, X, coverage):
        asked.append(len(X))
        return predict(self, X, coverage)

    monkeypatch.setattr(type(model), "_mean_and_interval", counted)
    model.explain(rows[:1], pd.concat([rows] * 5), orders=1)
    # Three columns that vary: six masks of 100 rows, in one batch, without those that come twice.
    assert len(asked) == 1
    assert asked[0] <= 600


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"orders": 0}, "orders: need a whole number of at least 1, got 0"),
        ({"coverage": 1.5}, "coverage"),
        ({"background": houses()[0][:1]}, "background: need at least 2 rows"),
    ],
)
def test_what_cannot_be_explained_is_refused(model, arguments, part):
    with pytest.raises(ValueError, match=part):
        model.explain(houses()[0][:3], **arguments)


def test_a_column_that_the_model_does_not_know_is_refused(model):
    rows = houses()[0].rename(columns={"size": "sise"})
    with pytest.raises(ValueError, match="sise"):
        model.explain(rows)


def test_without_shap_the_error_names_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match=r"softbins\[explain\]"):
        model.explain(houses()[0][:3])


# What is shown


def test_the_frame_has_a_line_for_each_cell(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "column", "value", "mean", "width"]
    one = frame[(frame["row"] == 2) & (frame["column"] == "town")].squeeze()
    assert one["value"] == houses()[0]["town"][2]
    assert (one["mean"], one["width"]) == (found.mean[2, 1], found.width[2, 1])
    assert len(frame) == 24


def by_hand(columns=2, **changes):
    values = {
        "columns": [f"c{i}" for i in range(columns)],
        "values": np.array([["<b>&", None, *range(columns - 2)]], dtype=object),
        "coverage": 0.9,
        "base_mean": 10.0,
        "mean": np.array([[-2.0, 1.0, *[0.25] * (columns - 2)]]),
        "base_width": 4.0,
        "width": np.array([[0.0, 0.0, *[0.0] * (columns - 2)]]),
    }
    return Explanation(**values | changes)


def test_text_is_sorted_and_its_bars_are_in_proportion():
    lines = by_hand().to_text().splitlines()
    assert lines == [
        "mean 9: 10 on average, plus",
        "c0 = <b>&     -2  " + 30 * "-",
        "c1 = missing  +1  " + 15 * "+",
        "width of the 90% interval 4: 4 on average, plus",
        "c0 = <b>&     +0",
        "c1 = missing  +0",
    ]
    assert "width of the 0.123 interval" in by_hand(coverage=0.123).to_text()


def test_small_contributions_are_shown_together_and_still_add_up():
    lines = by_hand(columns=20).to_text().splitlines()
    assert lines[0].startswith("mean 13.5: 10 on")
    assert lines[13].split() == ["8", "others", "+2", 30 * "+"]


def test_the_picture_is_svg_in_which_text_is_only_text():
    element = ElementTree.fromstring(by_hand().to_svg())
    names = [text.text for text in element.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    assert "c0 = <b>&" in names
    widths = [float(bar.get("width")) for bar in element.iter(f"{SVG}rect")]
    assert widths[:2] == [2 * widths[1], widths[1]]
    assert widths[2:] == [0, 0]
    long = by_hand(columns=2, values=np.array([["x" * 500, 1]], dtype=object))
    assert len(long.to_svg()) < 3000


def test_a_notebook_shows_a_few_rows(found):
    html = found._repr_html_()
    assert html.count("<svg") == 3
    assert "... and 3 more" in html
    with pytest.raises(ValueError, match="row: need a number from 0 to 5, got 6"):
        found.to_svg(6)
