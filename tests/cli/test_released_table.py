"""`softbins fit` holds its table no longer than until it is encoded."""

import weakref

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor
from softbins.cli.commands import fit as command
from softbins.tabular.base import fit_and_release

QUICK = {"hidden": (4,), "members": 2, "max_epochs": 1, "trees": False, "random_state": 0}


class Watched(HistogramRegressor):
    """Notes, when its training begins, whether a table is still there."""

    def _fit(self, data, stop):
        seen.append(table_is_there())
        return super()._fit(data, stop)


seen: list[bool] = []
reference: list[weakref.ref] = []


def table_is_there():
    return reference[0]() is not None


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(60, 2)), columns=["a", "b"])
    seen.clear()
    reference[:] = [weakref.ref(frame)]
    return [frame]


def targets():
    return pd.Series(np.random.default_rng(1).normal(size=60), name="y")


def test_the_table_is_gone_before_the_training(table):
    model = Watched(**QUICK)
    fit_and_release(model, table, targets())
    assert seen == [False]
    assert table == []
    assert list(model.feature_names_in_) == ["a", "b"]


def test_the_command_lets_go_of_it_too(table, monkeypatch):
    monkeypatch.setattr(
        command, "new_estimator", lambda given, **more: Watched(**QUICK).set_params(**more)
    )
    options = {"max_seconds": None, "n_jobs": 1, "groups": None, "time": None}
    command._trained_model(table, targets(), options)
    assert seen == [False]


def test_fit_itself_gives_the_same_model(table):
    x, y = table[0].copy(), targets()
    released = Watched(**QUICK)
    fit_and_release(released, table, y)
    np.testing.assert_array_equal(
        released.predict(x), HistogramRegressor(**QUICK).fit(x, y).predict(x)
    )
