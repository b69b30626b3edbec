"""Columns as they come: kinds, encodings, what prediction may change, and what is refused."""

import datetime
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.tabular.categories import MAX_ONE_HOT_CATEGORIES
from softbins.tabular.columns import MAX_KNOWN_CATEGORIES, Columns
from softbins.tabular.encoded_feature import EncodedFeature

QUICK = {"hidden": (16,), "max_epochs": 5, "random_state": 0}
TABULAR = QUICK | {"members": 2, "trees": False}
ESTIMATORS = {
    "networks": HistogramRegressor(**TABULAR),
    "trees": HistogramRegressor(**TABULAR | {"trees": True}),
    "paper": HistogramRegressor.as_in_paper(**QUICK),
    "neural": NeuralRegressor(**QUICK),
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
DAY = datetime.date(2020, 1, 31)


def category(*values):
    return pd.Series(values, dtype="category")


def polars(values, dtype):
    return pl.Series(values, dtype=dtype)


def one(column):
    """A frame with that one column."""
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    return frame({"x": column})


# A column, its kind, and its inputs.
LETTERS = ("a", "b", "a", None)
ENCODED = [[1, 0], [0, 1], [1, 0], [0, 0]]
TRUE_GAP = [[1, 0], [0, 0], [0.5, 1]]
COLUMNS = {
    "floats": ([1.5, 2.5], "number", [[1.5], [2.5]]),
    "integers": ([3, 4], "number", [[3], [4]]),
    "gaps": ([1.0, None, 2.0, 6.0], "number", [[1, 0], [2, 1], [2, 0], [6, 0]]),
    "all missing": ([math.nan, math.nan], "empty", [[0, 1], [0, 1]]),
    "all None": ([None, None], "empty", [[0, 1], [0, 1]]),
    "Int64": (pd.Series([1, None, 3], dtype="Int64"), "number", [[1, 0], [2, 1], [3, 0]]),
    "decimals": (pd.Series([Decimal("1.5"), None], dtype=object), "number", [[1.5, 0], [1.5, 1]]),
    "objects of numbers": (pd.Series([1, 2.5], dtype=object), "number", [[1], [2.5]]),
    "booleans": ([True, False], "boolean", [[1], [0]]),
    "booleans with a gap": (pd.Series([True, False, None], dtype="boolean"), "boolean", TRUE_GAP),
    "object booleans": (pd.Series([True, False, None], dtype=object), "boolean", TRUE_GAP),
    "text": (list(LETTERS), "category", ENCODED),
    "objects": (pd.Series(LETTERS, dtype=object), "category", ENCODED),
    "text with NA": (pd.Series(["a", "b", "a", pd.NA], dtype="string"), "category", ENCODED),
    "categories": (category(*LETTERS), "category", ENCODED),
    "missing categories": (category(None, None), "empty", [[0, 1], [0, 1]]),
    "unused categories": (pd.Series(pd.Categorical(["b"], ["a", "b"])), "category", [[1]]),
    "numbers as categories": (category(7, 3, 7), "category", [[1, 0], [0, 1], [1, 0]]),
    "intervals": (pd.Series(pd.cut([1, 5, 1], 2)), "category", [[1, 0], [0, 1], [1, 0]]),
    "mixed": (pd.Series([1, "a", 1], dtype=object), "category", [[1, 0], [0, 1], [1, 0]]),
    "polars floats": (polars([1.0, None], pl.Float32), "number", [[1, 0], [1, 1]]),
    "polars integers": (polars([1, None], pl.Int8), "number", [[1, 0], [1, 1]]),
    "polars decimals": (polars([Decimal("1.5")], pl.Decimal(5, 2)), "number", [[1.5]]),
    "polars nothing": (polars([None, None], pl.Null), "empty", [[0, 1], [0, 1]]),
    "polars booleans": (polars([True, False, None], pl.Boolean), "boolean", TRUE_GAP),
    "polars text": (polars(LETTERS, pl.String), "category", ENCODED),
    "polars categories": (polars(LETTERS, pl.Categorical), "category", ENCODED),
    "polars enum": (polars(LETTERS, pl.Enum(["b", "a"])), "category", ENCODED),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_kinds_and_inputs(case):
    column, kind, inputs = COLUMNS[case]
    columns = Columns.fit(one(column))
    assert columns.kinds == [kind]
    assert columns.names == ["x"]
    np.testing.assert_array_equal(columns.transform(one(column)), inputs)
    assert len(columns.encoded_features) == len(inputs[0])
    assert Columns.from_json(json.loads(json.dumps(columns.to_json()))) == columns


def test_features_say_where_they_come_from():
    frame = pd.DataFrame({"a": [1.0, None], "b": ["u", "v"], "c": [1.0, 2.0]})
    many = frame.loc[[0] * 45].assign(d=[f"{i:02}" for i in range(45)])
    assert Columns.fit(frame).encoded_features == [
        EncodedFeature(0, "value"),
        EncodedFeature(0, "is_missing"),
        EncodedFeature(1, "is_category", "u"),
        EncodedFeature(1, "is_category", "v"),
        EncodedFeature(2, "value"),
    ]
    features = Columns.fit(many).encoded_features
    assert [feature.content for feature in features if feature.column == 3] == [
        *["is_category"] * 39,
        *("is_rare_category", "category_frequency"),
    ]


@pytest.mark.parametrize(("count", "width"), [(39, 39), (40, 40), (41, 41), (80, 41), (5000, 41)])
def test_many_categories(count, width):
    """The first category three times, the second twice, all others once."""
    names = [f"{i:04}" for i in range(count)]
    frame = pd.DataFrame({"x": [*names, "0000", "0000", "0001"]})
    columns = Columns.fit(frame, ["x"])  # named, because text of one row each is left out
    inputs = columns.transform(frame)
    assert inputs.shape == (count + 3, width)
    assert np.isfinite(inputs).all()
    assert columns.encoded_features[0] == EncodedFeature(0, "is_category", "0000")
    if count > MAX_ONE_HOT_CATEGORIES:
        assert inputs[0].tolist() == pytest.approx([1, *[0] * 38, 0, math.log(4)])
        assert inputs[1].tolist() == pytest.approx([0, 1, *[0] * 37, 0, math.log(3)])
        assert inputs[40].tolist() == pytest.approx([*[0] * 39, 1, math.log(2)])
    unseen = columns.transform(pd.DataFrame({"x": ["new", None]}))
    assert not unseen.any()
    assert len(columns.to_json()["parts"][0]["labels"]) == min(count, MAX_KNOWN_CATEGORIES)


def test_how_many_categories_are_shown_and_known_can_be_chosen():
    """Of a, b, c and d only a has a feature of its own, and d is not known."""
    frame = pd.DataFrame({"x": list("aaaabbbccd")})
    columns = Columns.fit(frame, max_one_hot=2, max_known=3)
    again = Columns.from_json(json.loads(json.dumps(columns.to_json())))
    assert again == columns
    a, b, c, d = again.transform(pd.DataFrame({"x": list("abcd")})).tolist()
    assert a == pytest.approx([1, 0, math.log(5)])
    assert b == pytest.approx([0, 1, math.log(4)])
    assert c == pytest.approx([0, 1, math.log(3)])
    assert d == [0, 0, 0]


def test_files_have_these_keys_and_no_others():
    """Files of other versions of softbins have to be read, and to read these."""
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["u", "v", "u"], "c": [True, False, True]})
    assert Columns.fit(frame).to_json() == {
        "names": ["a", "b", "c"],
        "parts": [
            {"kind": "number", "fill": 2.0, "gaps": True},
            {"kind": "category", "labels": ["u", "v"], "counts": [2, 1]},
            {"kind": "boolean", "fill": 1.0, "gaps": False},
        ],
    }


def test_the_order_of_rows_does_not_matter():
    names = [f"{i % 37}" for i in range(100)]
    frame = pd.DataFrame({"x": names})
    assert Columns.fit(frame) == Columns.fit(frame.iloc[::-1])


def test_long_and_broken_text_can_be_told_apart_and_saved():
    texts = ["x" * 500, "x" * 499 + "y", "ü" * 60, "half \ud800", ""]
    frame = pd.DataFrame({"x": pd.Series(texts, dtype=object)})
    columns = Columns.fit(frame)
    assert np.array_equal(columns.transform(frame).sum(0), np.ones(5))
    assert all(len(text.encode()) < 200 for text in columns.to_json()["parts"][0]["labels"])


# What was learned from, what comes at prediction, and its inputs or a part of the complaint.
CHANGES = {
    "text for numbers": ([1.0, 2.0], ["3", " 4e1 "], [[3], [40]]),
    "gaps in text for numbers": ([1.0, 3.0], ["", "NA"], [[2], [2]]),
    "gaps that training had not": ([1.0, 3.0], [None, 1.0], [[2], [1]]),
    "booleans for numbers": ([1.0, 2.0], [True, False], [[1], [0]]),
    "categories for numbers": ([1.0, 2.0], category(5, 6), [[5], [6]]),
    "a word for a number": ([1.0, 2.0], ["1", "tall"], "'x', row 1 (from 0): 'tall' is not a num"),
    "1_0 for a number": ([1.0, 2.0], ["1_0", "1"], "'x', row 0 (from 0): '1_0' is not a number"),
    "infinity": ([1.0, 2.0], [1.0, -math.inf], "'x', row 1 (from 0): -inf is infinity"),
    "too large": ([1.0, 2.0], [1.0, 1e39], "'x', row 1 (from 0): 1e+39 is larger than 1e+38"),
    "a huge integer": ([1.0, 2.0], pd.Series([10**400]), "'x', row 0 (from 0): 1000"),
    "infinity as text": ([1.0, 2.0], ["inf"], "'x', row 0 (from 0): 'inf' is infinity"),
    "dates for numbers": ([1.0, 2.0], [DAY], "'x': holds dates, where training had numbers"),
    "dates for text": (["a", "b"], [DAY], "'x': holds dates, where training had categories"),
    "numbers for booleans": ([True, False], [1, 0], [[1], [0]]),
    "text for booleans": ([True, False], ["true", "False"], [[1], [0]]),
    "neither true nor false": ([True, False], [2], "'x', row 0 (from 0): 2.0 is neither true nor"),
    "yes for booleans": ([True, False], ["yes"], "'x', row 0 (from 0): 'yes' is not a number"),
    "integers for categories": (category(7, 3, 7), [7, 3, 4], [[1, 0], [0, 1], [0, 0]]),
    "floats for categories": (category(7, 3, 7), [7.0, None], [[1, 0], [0, 0]]),
    "text for categories": (category(7, 3, 7), ["7", "3.0", "x"], [[1, 0], [0, 1], [0, 0]]),
    "infinite categories": (category(7, 3, 7), [math.inf, 7], [[0, 0], [1, 0]]),
    "text of categories": (category("a", "b"), ["b", "c"], [[0, 1], [0, 0]]),
    "categories of text": (["a", "b"], category("b", "c"), [[0, 1], [0, 0]]),
    "numbers for text": (["1", "2"], [1, 2.0], [[1, 0], [0, 1]]),
    "booleans for text": (["True", "False"], [True, False], [[0, 1], [1, 0]]),
    "nothing for text": (["a", "b"], [None, None], [[0, 0], [0, 0]]),
    "anything for nothing": ([None, None], ["a", 3], [[0, 1], [0, 1]]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_dtypes_may_change_if_the_values_make_sense(case):
    learned, given, expected = CHANGES[case]
    columns, frame = Columns.fit(one(learned)), one(given)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match="^X: column") as caught:
            columns.transform(frame)
        assert expected in str(caught.value)
    else:
        np.testing.assert_array_equal(columns.transform(frame), expected)


def test_pandas_and_polars_are_interchangeable():
    data = {"n": [1.0, None, 3.0], "t": ["a", "b", None], "b": [True, False, True]}
    ours, theirs = Columns.fit(pd.DataFrame(data)), Columns.fit(pl.DataFrame(data))
    assert ours == theirs
    same = [ours.transform(frame(data)) for frame in FRAMES.values()]
    np.testing.assert_array_equal(*same)


# What categorical_features is, and which of the columns (n, t, b, k) it makes categorical.
MIXED = {"n": [1.0, 2.0], "t": ["1", "2"], "b": [True, False], "k": [5, 6]}
CHOICES = {
    "dtype": ("from_dtype", ["number", "category", "boolean", "number"]),
    "none": (None, ["number", "number", "boolean", "number"]),
    "empty": ([], ["number", "number", "boolean", "number"]),
    "indices": ([0, 3], ["category", "number", "boolean", "category"]),
    "names": (["t", "k"], ["number", "category", "boolean", "category"]),
    "array of names": (np.array(["b"]), ["number", "number", "category", "number"]),
    "mask": ([False, True, False, True], ["number", "category", "boolean", "category"]),
    "array mask": (np.array([True] * 4), ["category"] * 4),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("case", CHOICES)
def test_categorical_features(tmp_path, frame, case):
    choice, kinds = CHOICES[case]
    x = FRAMES[frame](MIXED)
    model = HistogramRegressor(categorical_features=choice, **TABULAR).fit(x, [1.0, 2.0])
    assert model.columns_.kinds == kinds
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    np.testing.assert_array_equal(other.predict(x), model.predict(x))
    assert clone(other).fit(x, [1.0, 2.0]).columns_ == model.columns_


@pytest.mark.parametrize("kind", [object, str])
def test_arrays_with_text_need_categorical_features(kind):
    x = np.array([["a", 1.5], ["b", 2.5], ["a", 3.5]], dtype=kind)
    with pytest.raises(ValueError, match="could not convert string to float: .*'a'.*categorical_f"):
        HistogramRegressor(**TABULAR).fit(x, [1.0, 2.0, 3.0])
    model = HistogramRegressor(categorical_features=[0], **TABULAR).fit(x, [1.0, 2.0, 3.0])
    assert model.columns_.kinds == ["category", "number"]
    assert np.isfinite(model.predict(np.array([["z", 1.5], ["a", None]], dtype=object))).all()


def test_arrays_with_gaps_and_categories():
    x = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, np.nan], [4.0, 5.0]])
    columns = Columns.fit(x, [1])
    assert columns.kinds == ["number", "category"]
    assert columns.transform(x).tolist() == [[1, 0, 1, 0], [3, 1, 0, 1], [3, 0, 0, 0], [4, 0, 1, 0]]
    with pytest.raises(ValueError, match="has 1 columns instead of 2"):
        columns.transform(x[:, :1])


# Estimators


def houses(rows=300, seed=0):
    """A table of every kind of column, and a target that depends on all of them."""
    random = np.random.default_rng(seed)
    size, town = random.normal(size=rows), random.choice(["Aa", "Bö", "C"], rows)
    garden, rooms = random.random(rows) < 0.5, random.integers(1, 6, rows)
    y = 2 * size + np.where(town == "C", 5, 0) + 3 * garden + rooms
    frame = {"size": np.where(random.random(rows) < 0.1, np.nan, size), "town": town.tolist()}
    frame |= {"garden": garden, "rooms": rooms, "nothing": [None] * rows}
    frame["town"] = [None if i % 17 == 3 else town for i, town in enumerate(frame["town"])]
    return frame, y


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_learn_from_all_columns_and_survive_the_file(tmp_path, name, frame):
    (data, y), (other, truth) = houses(), houses(seed=1)
    x, new = FRAMES[frame](data), FRAMES[frame](other)
    options = {"hidden": (32, 32), "max_epochs": 60, "learning_rate": 5e-3}
    model = clone(ESTIMATORS[name]).set_params(**options).fit(x, y)
    assert model.score(new, truth) > 0.7
    assert model.n_features_in_ == 5
    assert model.columns_.kinds == ["number", "category", "boolean", "number", "empty"]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.columns_ == model.columns_
    assert again.feature_names_in_.tolist() == list(data)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_the_names_of_other_tables_survive_the_file(tmp_path):
    table = pyarrow.table({"a": [1.0, 2.0], "b": [3, 4]})
    model = HistogramRegressor(**TABULAR).fit(table, [1.0, 2.0])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(load(tmp_path / "model").predict(table), model.predict(table))


def test_nothing_is_learned_from_rows_without_weight():
    data, y = houses(40)
    x, weight = pd.DataFrame(data), np.r_[np.ones(20), np.zeros(20)]
    x.loc[20:, "town"], x.loc[20:, "size"] = "elsewhere", 1e6
    model = HistogramRegressor(**TABULAR)
    weighted = clone(model).fit(x, y, sample_weight=weight)
    assert weighted.columns_ == clone(model).fit(x[:20], y[:20]).columns_
    assert "elsewhere" not in [f.category for f in weighted.columns_.encoded_features]


def test_searches_and_pipelines_take_frames():
    data, y = houses(90)
    x = pd.DataFrame(data).astype({"town": "category"})
    pipeline = make_pipeline(FunctionTransformer(), HistogramRegressor(**TABULAR))
    choices = {"histogramregressor__categorical_features": ["from_dtype", ["town", "rooms"]]}
    search = GridSearchCV(pipeline, choices, cv=3, error_score="raise").fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(cross_val_score(HistogramRegressor(**TABULAR), x, y, cv=3)).all()


def test_the_tag_says_that_gaps_are_taken():
    assert get_tags(HistogramRegressor()).input_tags.allow_nan
    assert get_tags(NeuralRegressor()).input_tags.allow_nan


@pytest.mark.parametrize("frame", FRAMES)
def test_names_are_checked_for_all_frames(frame):
    data, y = houses(30)
    model = HistogramRegressor(**TABULAR).fit(FRAMES[frame](data), y)
    renamed = {name.upper(): values for name, values in data.items()}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAMES[frame](renamed))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(FRAMES[frame](data), y[:-1])
    with pytest.raises(ValueError, match=r"X: found 0 sample\(s\)"):
        model.fit(FRAMES[frame](data)[:0], y[:0])


# Odd data: each is fitted, and predicts finite numbers for itself and for a row of surprises.


def odd(rows=40, **columns):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=rows)})
    return frame.assign(**columns), random.normal(size=rows)


def with_target(change):
    x, y = odd(60)
    return x, change(y)


ODD = {
    "a category for each row": lambda: odd(1200, id=category(*(f"id {i}" for i in range(1200)))),
    "one category": lambda: odd(b="same"),
    "an empty column": lambda: odd(b=[None] * 40),
    "only an empty column": lambda: (pd.DataFrame({"a": [None] * 30}), np.arange(30.0)),
    "one value and gaps": lambda: odd(b=[1.0] + [None] * 39),
    "a constant column": lambda: odd(b=3.0),
    "a constant boolean": lambda: odd(b=True),
    "10 rows": lambda: odd(10, b=list("abcdefghij")),
    "two rows": lambda: odd(2, b="a"),
    "one row": lambda: odd(1, b="a"),
    "500 columns": lambda: (pd.DataFrame(np.eye(30, 500)), np.arange(30.0)),
    "500 categories": lambda: (pd.DataFrame(np.full((20, 500), "a")), np.arange(20.0)),
    "integer targets": lambda: with_target(lambda y: (y > 0).astype(int) + 1),
    "a spike": lambda: with_target(lambda y: np.where(y > 0, y, 0.0)),
    "12 orders of magnitude": lambda: with_target(lambda y: 10.0 ** np.linspace(-6, 6, 60)),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", ["networks", "paper", "neural"])
@pytest.mark.parametrize("case", ODD)
def test_odd_data_give_finite_predictions(name, case):
    x, y = ODD[case]()
    model = clone(ESTIMATORS[name]).set_params(max_epochs=2)
    if name == "networks":
        model.set_params(members="auto")
    if (name, len(x)) == ("networks", 1):
        with pytest.raises(ValueError, match="early_stopping: n_samples=1 leaves no row to train"):
            model.fit(x, y)
        return
    model.fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    surprise = pd.DataFrame([[None] * x.shape[1]], columns=x.columns)
    assert np.isfinite(model.predict(surprise)).all()
    assert np.isfinite(model.predict_interval(surprise)).all()


@pytest.mark.parametrize("rows", [2, 3, 7, 9])
def test_tables_may_have_fewer_rows_than_there_would_be_members(rows):
    x = np.arange(float(rows)).reshape(-1, 1)
    model = HistogramRegressor(**TABULAR | {"members": "auto"}).fit(x, x[:, 0] ** 2)
    assert 2 <= model.network_.members <= rows
    assert np.isfinite(model.predict([[1.0], [99.0]])).all()
