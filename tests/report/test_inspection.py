"""Importance and partial dependence: scikit-learn's, on columns as the user knows them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.inspection import partial_dependence, permutation_importance

from softbins import HistogramRegressor, NeuralRegressor
from softbins.report import importance
from softbins.report.cells import CellModel, EncodedTable
from softbins.report.dependence import COVERAGES, column_dependence
from softbins.report.importance import column_importance
from softbins.report.table_values import table_columns


def numbers(rows=120, columns=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, columns))
    return X, 3 * X[:, 0] + random.normal(size=rows) * np.exp(X[:, 1])


def mixed(rows=120):
    X, y = numbers(rows)
    town = np.where(y > 1, "high", np.where(y < -1, "low", "middle"))
    frame = pd.DataFrame({"town": town, "size": X[:, 0], "noise": X[:, 2]})
    return frame.mask(np.random.default_rng(1).random(frame.shape) < 0.1, None), y


@pytest.fixture(scope="module")
def fitted():
    return HistogramRegressor((16,), members=2, max_epochs=40, random_state=0).fit(*numbers())


@pytest.fixture(scope="module")
def of_frame():
    how = {"learning_rate": 0.01, "max_epochs": 60, "random_state": 0}
    return NeuralRegressor(hidden=(16,), bins=20, **how).fit(*mixed())


def test_cells_that_stay_where_they_are_predict_what_the_model_predicts(fitted, of_frame):
    for model, (X, _) in [(fitted, numbers()), (of_frame, mixed())]:
        rows = np.array([5, 0, 7])
        cells = CellModel(EncodedTable(model, X), rows, [1], COVERAGES)
        some = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
        found = cells.predict(cells.cells)
        np.testing.assert_allclose(found[:, 0], model.predict(some))
        for place, coverage in [(1, 0.5), (3, 0.9)]:
            ends = model.predict_interval(some, coverage)
            np.testing.assert_allclose(found[:, place : place + 2], ends)


def test_a_cell_takes_its_value_from_another_row(of_frame):
    X, _ = mixed()
    cells = CellModel(EncodedTable(of_frame, X), np.arange(3), [0], COVERAGES)
    moved = X[:3].assign(town=X["town"][[9, 8, 7]].to_numpy())
    found = cells.predict(np.array([[9.0], [8.0], [7.0]]))[:, 0]
    np.testing.assert_allclose(found, of_frame.predict(moved))


def test_importance_is_that_of_scikit_learn_on_the_table_itself(fitted):
    X, y = numbers()
    found = column_importance(EncodedTable(fitted, X), y, 0.9)
    expected = permutation_importance(
        fitted, X, y, scoring="neg_root_mean_squared_error", n_repeats=4, random_state=0
    )
    order = np.argsort(-expected.importances_mean)
    assert found.columns == order.tolist()
    np.testing.assert_allclose(found.error, expected.importances[order])
    assert found.rows == 120
    errors = fitted.predict(X) - y
    assert found.base_error == pytest.approx(np.sqrt(np.square(errors).mean()))


def test_a_column_may_matter_for_the_width_alone(fitted):
    X, y = numbers()
    found = column_importance(EncodedTable(fitted, X), y, 0.9)
    width = dict(zip(found.columns, found.width.mean(1), strict=True))
    assert found.columns[0] == 0
    assert width[1] > 2 * width[2]


def test_importance_of_a_frame_is_by_its_columns(of_frame):
    X, y = mixed()
    found = column_importance(EncodedTable(of_frame, X), y, 0.9)
    assert sorted(found.columns) == [0, 1, 2]
    assert found.columns[0] == 0


def test_of_many_columns_those_that_matter_get_a_closer_look(monkeypatch):
    X, _ = numbers(columns=30)
    y = 3 * X[:, 0]
    how = {"learning_rate": 0.01, "max_epochs": 60, "random_state": 0}
    model = NeuralRegressor("l2", (8,), **how).fit(X, y)
    monkeypatch.setattr(importance, "MAX_COLUMNS", 5)
    found = column_importance(EncodedTable(model, X), y, 0.9)
    assert (len(found.columns), found.columns[0]) == (5, 0)
    assert found.width is None


def test_dependence_is_that_of_scikit_learn_on_the_table_itself(fitted):
    X, _ = numbers()
    column = table_columns(fitted, X)[0]
    found = column_dependence(EncodedTable(fitted, X), column)
    expected = partial_dependence(fitted, X, [0], custom_values={0: found.values})
    np.testing.assert_allclose(found.mean, expected["average"][0])
    assert (np.diff(found.values) > 0).all()
    first, third, low, high = found.bands
    assert (np.diff([low, first, third, high], axis=0) > 0).all()
    ends = [fitted.predict_interval(np.where([1, 0, 0], v, X), 0.9) for v in found.values]
    np.testing.assert_allclose([low, high], np.mean(ends, axis=1).T)


def test_dependence_on_categories_gaps_among_them(of_frame):
    X, _ = mixed()
    town, size, _ = table_columns(of_frame, X)
    found = column_dependence(EncodedTable(of_frame, X), town)
    assert found.values is None
    assert set(found.labels) == {"high", "low", "middle", "missing"}
    for label, mean in zip(found.labels, found.mean, strict=True):
        same = X.assign(town=None if label == "missing" else label)
        assert mean == pytest.approx(of_frame.predict(same).mean())
    assert not np.isnan(column_dependence(EncodedTable(of_frame, X), size).values).any()


def test_a_column_of_one_value_has_no_dependence(fitted):
    X = numbers()[0].copy()
    X[:, 2] = 1.0
    assert column_dependence(EncodedTable(fitted, X), table_columns(fitted, X)[2]) is None


def test_a_polars_frame_is_as_good(of_frame):
    X, y = mixed()
    theirs = pl.DataFrame({name: X[name].tolist() for name in X}, strict=False)
    one, other = (column_importance(EncodedTable(of_frame, t), y, 0.9) for t in (X, theirs))
    assert one.columns == other.columns
    np.testing.assert_allclose(one.error, other.error)
