"""ONNX files of fitted estimators, with onnxruntime as the oracle.

Most of an export's time is torch's. So every kind of column goes through the part of the graph that
encodes it, which is made by hand; all estimators go through what torch is to export, without the
export; and a few through all of it. A calibrated distribution takes torch more than a minute.
"""

import json
import sys
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.exceptions import NotFittedError

from softbins import HistogramRegressor, NeuralRegressor
from softbins.tabular.columns import Columns
from softbins.tabular.forest import Forest
from softbins.tabular.frames import is_missing
from softbins.tabular.onnx_export.columns import add_columns, check_columns, is_text
from softbins.tabular.onnx_export.forecast import Forecast
from softbins.tabular.onnx_export.graph import MACHINE_LEARNING, Graph
from softbins.tabular.onnx_export.trees import add_trees
from softbins.tabular.validation import prediction_data
from tests.tabular.quick import with_few_rounds
from tests.tabular.test_columns import CHANGES, COLUMNS, one

TOLERANCE = 1e-5  # as a share of the targets' standard deviation
GAP = "a text that no training row has"
DOUBLE, STRING = onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING


def values_of(column, text):
    """A column as the input of a graph: (n, 1), with a gap as NaN or as text that is not known."""
    values = [None if is_missing(v) else v for v in column]
    if text:
        texts = [GAP if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in values]
        return np.array(texts, dtype=object).reshape(-1, 1)
    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce")
    return numbers.to_numpy(np.float64, na_value=np.nan).reshape(-1, 1)


def columns_of(x):
    if isinstance(x, np.ndarray):
        return list(x.T)
    return [x[name].to_list() for name in x.columns]


# Columns


def run_graph(graph, inputs, output, given):
    """What a part of a graph gives for inputs by name."""
    program = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "part",
            [onnx.helper.make_tensor_value_info(n, t, [None, w]) for n, t, w in inputs],
            [onnx.helper.make_empty_tensor_value_info(output)],
            graph.constants,
        ),
        opset_imports=[
            onnx.helper.make_opsetid("", 18),
            onnx.helper.make_opsetid(MACHINE_LEARNING, 5),
        ],
        ir_version=10,
    )
    session = onnxruntime.InferenceSession(program.SerializeToString())
    return session.run(None, given)[0]


def encoded(columns, x):
    """The encoding of a table by ONNX."""
    graph, names = Graph("inner/"), [f"{i}" for i in range(len(columns.encoders))]
    texts = [is_text(encoder) for encoder in columns.encoders]
    features = add_columns(graph, columns, names)
    inputs = [(n, STRING if t else DOUBLE, 1) for n, t in zip(names, texts, strict=True)]
    pairs = zip(columns_of(x), texts, strict=True)
    given = dict(zip(names, (values_of(column, text) for column, text in pairs), strict=True))
    return run_graph(graph, inputs, features, given)


@pytest.mark.parametrize("case", COLUMNS)
def test_every_kind_of_column_is_encoded_the_same(case):
    x = one(COLUMNS[case][0])
    columns = Columns.fit(x)
    np.testing.assert_array_equal(encoded(columns, x), columns.transform(x))


# What else the estimator reads (text for numbers, infinity) is for the caller of the graph.
NEW = [name for name, (_, _, found) in CHANGES.items() if not isinstance(found, str)]


@pytest.mark.parametrize("case", [name for name in NEW if "text for " not in name])
def test_new_values_are_encoded_the_same(case):
    learned, given, _ = CHANGES[case]
    if case in ("gaps in text for numbers", "infinite categories"):
        given = [None if v == np.inf or isinstance(v, str) else v for v in given]
    columns, x = Columns.fit(one(learned)), one(given)
    np.testing.assert_array_equal(encoded(columns, x), columns.transform(x))


def test_many_categories_and_columns_in_any_order():
    rows = 48
    x = pd.DataFrame(
        {
            "many": [f"{i}" for i in range(rows)],
            "gaps": [1.5, None] * 24,
            "nothing": [None] * rows,
            "number": np.arange(rows) / 7,
            "few": ["a", "b", None, ""] * 12,
            "empty too": [np.nan] * rows,
            "codes": pd.Series([7.0, 2.5] * 24, dtype="category"),
        }
    )
    columns = Columns.fit(x)
    np.testing.assert_array_equal(encoded(columns, x), columns.transform(x))
    learnt = replace(columns.encoders[0], means=[0.5] * rows, effects=np.arange(rows).tolist())
    columns = replace(columns, encoders=[learnt, *columns.encoders[1:]])
    x.loc[0, "many"] = "not known"
    np.testing.assert_array_equal(encoded(columns, x), columns.transform(x))


# Trees


def test_trees_are_the_same_at_their_thresholds_and_without_a_split():
    """The first tree is a leaf; the second splits twice."""
    forest = Forest(
        feature=np.array([0, 0, 0, 1, 0, 0]),
        threshold=np.array([0, 0.3, 0, 0.1, 0, 0]),
        left=np.array([0, 2, 2, 4, 4, 5]),
        right=np.array([0, 3, 2, 5, 4, 5]),
        value=np.array([1 / 3, 0, 0.1, 0, 0.2, 0.7]),
        roots=np.array([0, 1]),
        depths=np.array([0, 2]),
        base=1e9,
        features=2,
    )
    ends = [np.nextafter(t, side) for t in (0.1, 0.3) for side in (-1, t, 1)]
    x = np.array([[a, b] for a in ends for b in ends])
    graph = Graph("")
    found = run_graph(graph, [("x", DOUBLE, 2)], add_trees(graph, forest, "x"), {"x": x})
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, forest.predict(x), rtol=1e-15)
    assert len(np.unique(found)) == 3


# Estimators


def houses(rows, seed=0):
    """Text, gaps, booleans, numbers as categories, an empty column, and the name of an output."""
    random = np.random.default_rng(seed)
    x = pd.DataFrame({"size": random.normal(size=rows)})
    x["town"] = random.choice(["Aa", "Bö", ""], rows).astype(object)
    x.loc[1, "town"] = None
    x["mean"] = random.random(rows) < 0.5
    x["garden"] = pd.array(np.where(random.random(rows) < 0.2, None, x["mean"]), dtype="boolean")
    x["floor"] = pd.Series(random.choice([1.0, 2.0, 5.5], rows), dtype="category")
    x["nothing"] = None
    x["year"] = np.where(random.random(rows) < 0.3, np.nan, random.integers(1900, 2000, rows))
    return x, 2000 + 2 * (x["size"] > 0) + (x["town"] == "Aa") + 0.1 * random.normal(size=rows)


def surprises():
    """New rows, with categories that training rows did not have, gaps, and a huge number."""
    x, _ = houses(12, seed=1)
    x["floor"] = x["floor"].astype(float)
    x.loc[0, "town"], x.loc[0, "floor"], x.loc[0, "size"] = "elsewhere", 77.0, 1e30
    x.loc[2, ["size", "floor"]] = np.nan
    return x


def numbers(rows, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    return x, offset + np.exp(x[:, 0]) + 0.1 * random.normal(size=rows)


def clipped(rows, seed, low):
    """Many rows have the smallest value."""
    x, y = numbers(rows, seed)
    return x, np.maximum(y, low)


def rounded(rows, seed):
    x, y = numbers(rows, seed)
    return x, y.round()


class QuickTrees(HistogramRegressor):
    _defaults = with_few_rounds(20)


QUANTILES = (0.05, 0.5, 0.8)
QUICK = {"hidden": (8,), "max_epochs": 3, "random_state": 0}
TABULAR = QUICK | {"members": 2}
# An estimator, and a function that makes a table from a number of rows.
QUICK_CASES = {
    "the paper's, a mixed table": (HistogramRegressor.as_in_paper(**QUICK), houses),
    "numbers only": (NeuralRegressor("l2", **QUICK), numbers),
}
SLOW_CASES = {
    "trees and a mixed table": (QuickTrees(**TABULAR, gaussian_process=False), houses),
    "the paper's, an array": (HistogramRegressor.as_in_paper(**QUICK), numbers),
    "numbers only of a mixed table": (NeuralRegressor("l2", **QUICK), houses),
    "presets": (QuickTrees(preset="fast", max_epochs=2, random_state=0), numbers),
    "no trees": (HistogramRegressor(**TABULAR, trees=False), houses),
    "one head": (HistogramRegressor(**TABULAR, trees=False, blur=None), numbers),
    "equal bins": (HistogramRegressor(**TABULAR, trees=False, bins=30), numbers),
    "no calibration": (HistogramRegressor(**TABULAR, early_stopping=False), houses),
    "an ensemble": (NeuralRegressor(**QUICK, members=3), houses),
    "l2-softmax": (NeuralRegressor("l2-softmax", **QUICK), numbers),
    "mixtures": (NeuralRegressor("mdn", **QUICK), numbers),
    "around a billion": (
        HistogramRegressor(**TABULAR, trees=False),
        lambda rows, seed=0: numbers(rows, seed, 1e9),
    ),
    "a spike": (
        HistogramRegressor(**TABULAR, trees=False),
        lambda rows, seed=0: clipped(rows, seed, 0.8),
    ),
    "whole numbers": (
        HistogramRegressor(**TABULAR, trees=False),
        lambda rows, seed=0: rounded(rows, seed),
    ),
    "no tree splits": (QuickTrees(**TABULAR), lambda rows, seed=0: numbers(min(rows, 30), seed)),
}
CASES = [*QUICK_CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW_CASES)]


class Exported:
    """A fitted estimator, its file, and both on new rows."""

    def __init__(self, path, model, table):
        self.path, self.model = path, model
        x, y = table(90)
        self.spread = float(np.std(y))
        self.new = surprises() if isinstance(x, pd.DataFrame) else table(12, seed=1)[0]
        model.fit(x, y)

    @cached_property
    def session(self):
        if self.model.objective_.has_distribution:
            self.model.to_onnx(self.path, quantiles=QUANTILES, coverage=0.8)
        else:
            with pytest.warns(UserWarning, match="^objective: L2.* no distribution; only the mean"):
                self.model.to_onnx(self.path)
        return onnxruntime.InferenceSession(self.path)

    def expected(self, x):
        found = [self.model.predict(x)]
        if self.model.objective_.has_distribution:
            found.append(self.model.predict_quantiles(x, QUANTILES))
            found.append(self.model.predict_interval(x, 0.8))
        return found

    def run(self, x):
        inputs = self.session.get_inputs()
        pairs = zip(inputs, columns_of(x), strict=True)
        given = {i.name: values_of(c, i.type == "tensor(string)") for i, c in pairs}
        return self.session.run(None, given)

    @torch.no_grad()
    def run_in_torch(self, x):
        """What the part that torch exports computes, by the operations that it exports."""
        has = self.model.objective_.has_distribution
        forecast = Forecast(self.model, QUANTILES if has else None, 0.8 if has else None)
        features = prediction_data(self.model, x, self.model.columns_)
        trees = [self.model.forest_.predict(features)] if forecast.takes_trees else []
        forecast(*forecast.example(3))  # what is computed once and kept looks at values
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.compiler, "is_exporting", lambda: True)
            found = forecast(*(torch.as_tensor(part) for part in [features, *trees]))
        return [part.numpy() for part in found]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """The exported case of a name, made once."""
    folder, made = tmp_path_factory.mktemp("onnx"), {}

    def export(case):
        if case not in made:
            model, table = (QUICK_CASES | SLOW_CASES)[case]
            made[case] = Exported(folder / f"{len(made)}.onnx", model, table)
        return made[case]

    return export


@pytest.mark.parametrize("case", [*QUICK_CASES, *SLOW_CASES])
def test_what_torch_exports_is_what_the_estimator_does(exports, case):
    exported = exports(case)
    assert_alike(exported, exported.run_in_torch)


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_predicts_what_the_estimator_does(exports, case):
    exported = exports(case)
    assert_alike(exported, exported.run)


def assert_alike(exported, run):
    for x in (exported.new, exported.new[:7], exported.new[:1]):
        found, expected = run(x), exported.expected(x)
        assert [part.shape for part in found] == [part.shape for part in expected]
        for theirs, ours in zip(found, expected, strict=True):
            assert theirs.dtype == np.float64
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=TOLERANCE * exported.spread)


def test_inputs_and_outputs_are_named_after_the_columns(exports):
    session = exports("the paper's, a mixed table").session
    inputs = {each.name: (each.type, each.shape) for each in session.get_inputs()}
    assert list(inputs) == ["size", "town", "mean", "garden", "floor", "nothing", "year"]
    assert inputs.pop("town") == ("tensor(string)", ["rows", 1])
    assert {tuple(map(str, each)) for each in inputs.values()} == {
        ("tensor(double)", "['rows', 1]")
    }
    outputs = {each.name: each.shape for each in session.get_outputs()}
    assert outputs == {"mean_": ["rows"], "quantiles": ["rows", 3], "interval": ["rows", 2]}
    session = exports("numbers only").session
    assert [each.name for each in session.get_inputs()] == ["column_0", "column_1", "column_2"]
    assert session.get_outputs()[0].name == "mean"


@pytest.mark.parametrize(
    ("case", "estimator", "calibrated"),
    [
        ("the paper's, a mixed table", "HistogramRegressor", False),
        pytest.param("trees and a mixed table", "QuickTrees", True, marks=pytest.mark.slow),
    ],
)
def test_the_file_says_what_it_is_and_nothing_of_where_it_was_made(
    exports, case, estimator, calibrated
):
    exported = exports(case)
    assert exported.session is not None  # it is written
    program = onnx.load(exported.path)
    onnx.checker.check_model(program, full_check=True)
    assert (program.producer_name, program.producer_version) == ("softbins", "0.1.0")
    notes = {entry.key: json.loads(entry.value) for entry in program.metadata_props}
    assert notes["estimator"] == estimator
    assert (notes["quantiles"], notes["coverage"]) == ([0.05, 0.5, 0.8], 0.8)
    assert notes["calibrated"] == calibrated
    assert notes["columns"]["town"] == "category"
    assert b"site-packages" not in exported.path.read_bytes()
    assert b".py" not in exported.path.read_bytes()


def test_trees_take_part_in_the_case_of_trees(exports):
    model = exports("trees and a mixed table").model
    assert model.aggregator_.shares.get("trees", 0.0) > 0
    assert model.columns_.kinds.count("boolean") == 2
    assert "empty" in model.columns_.kinds


# What cannot be exported


def fitted(x, rows=20):
    return NeuralRegressor("l2", (4,), max_epochs=1, random_state=0).fit(x, np.arange(float(rows)))


def test_long_categories_are_refused_by_name(tmp_path):
    long = ["x" * 40 + "y" * 60, "ü" * 39 + "abc"] * 10
    for names, title in ((["town"], "column 'town'"), (None, "column 0")):
        x = pd.DataFrame({"town": long}) if names else np.array(long, dtype=object)[:, None]
        model = NeuralRegressor("l2", (4,), max_epochs=1, categorical_features=[0])
        model.fit(x, np.arange(20.0))
        with pytest.raises(ValueError, match=f"^{title}: category 'xxxx.* longer than 80 bytes"):
            model.to_onnx(tmp_path / "model.onnx", quantiles=None, coverage=None)
    assert not list(tmp_path.iterdir())


def test_texts_of_80_bytes_are_taken():
    x = pd.DataFrame({"town": ["x" * 80, "ü" * 40] * 10})
    columns = Columns.fit(x)
    check_columns(columns)
    np.testing.assert_array_equal(encoded(columns, x), columns.transform(x))


@pytest.mark.parametrize(
    ("names", "fault"), [(["a", "a"], "2 columns are named 'a'"), (["", "b"], "a column has no")]
)
def test_inputs_need_names_of_their_own(tmp_path, names, fault):
    model = fitted(np.eye(20, 2))
    model.feature_names_in_ = np.array(names)  # as older versions of scikit-learn let them be
    with pytest.raises(ValueError, match=f"^X: {fault}"):
        model.to_onnx(tmp_path / "model.onnx", quantiles=None, coverage=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantiles": (0.5, 1.5)}, r"^q: 1 of 2 values are outside \[0, 1\]"),
        ({"coverage": 1.5}, "^coverage: "),
    ],
)
def test_levels_are_checked_before_anything_is_exported(tmp_path, exports, options, message):
    model = exports("trees and a mixed table").model
    with pytest.raises(ValueError, match=message):
        model.to_onnx(tmp_path / "model.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_estimators_have_to_be_fitted():
    with pytest.raises(NotFittedError):
        HistogramRegressor().to_onnx("model.onnx")


@pytest.mark.parametrize("library", ["onnx", "onnxscript"])
def test_a_missing_library_names_its_extra(tmp_path, monkeypatch, library):
    model = fitted(np.eye(20, 2))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        ImportError, match=rf'^{library} is not installed: pip .*"softbins\[onnx\]"'
    ):
        model.to_onnx(tmp_path / "model.onnx")


def test_a_frame_of_polars_has_named_inputs(tmp_path):
    model = fitted(pl.DataFrame({"a": np.arange(20.0), "b": ["u", "v"] * 10}))
    model.to_onnx(tmp_path / "model.onnx", quantiles=None, coverage=None)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    given = {"a": np.array([[3.0]]), "b": np.array([["v"]], dtype=object)}
    expected = model.predict(pl.DataFrame({"a": [3.0], "b": ["v"]}))
    np.testing.assert_allclose(session.run(None, given)[0], expected, rtol=1e-9)
