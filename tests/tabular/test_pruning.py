"""The fast preset goes on with two members where there is no noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from softbins import HistogramRegressor, load
from softbins.tabular.defaults import DEFAULTS, BySize
from tests.tabular.quick import few_rounds

SHORT = replace(DEFAULTS.presets["fast"], epochs=BySize(((math.inf, 12),)), min_steps=1)
ALWAYS = replace(DEFAULTS.training.pruning, max_gap=math.inf, max_remaining=math.inf)


class Pruned(HistogramRegressor):
    """A short training of the fast preset, which always prunes its members."""

    _defaults = replace(
        DEFAULTS,
        trees=few_rounds(5),
        training=replace(DEFAULTS.training, pruning=ALWAYS),
        presets=DEFAULTS.presets | {"fast": SHORT},
    )


def table(rows=1200):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(rows, 3))
    return x, x @ [3.0, 2.0, 1.0]


def fitted(**options):
    small = {"hidden": (16,), "random_state": 0, "embeddings": False, "trees": False}
    return Pruned(**small | options).fit(*table())


@pytest.mark.parametrize("trees", [True, False])
def test_the_fast_preset_ends_with_two_networks(trees, tmp_path):
    model = fitted(preset="fast", trees=trees)
    assert model.network_.members == 2
    assert model.n_epochs_ > 12
    assert {row["member"] for row in model.history_} == {0, 1}
    x, y = table()
    low, high = model.predict_interval(x).T
    assert np.mean((low <= y) & (y <= high)) > 0.8
    model.__class__ = HistogramRegressor  # a file knows the estimators of the library only
    model.save(tmp_path / "two.model")
    assert np.array_equal(load(tmp_path / "two.model").predict(x), model.predict(x))


def test_the_rows_that_calibrate_are_those_that_both_have_left_out():
    """An eighth of the rows, 150."""
    model = fitted(preset="fast")
    assert model.aggregator_.rows == 150


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({"preset": "default", "max_epochs": 4}, 8),
        ({"preset": "fast", "max_epochs": 12}, 4),
        ({"preset": "fast", "members": 6}, 6),
        ({"preset": "fast", "early_stopping": False}, 4),
    ],
)
def test_otherwise_all_networks_stay(options, members):
    model = fitted(**options)
    assert model.network_.members == members
    assert model.n_epochs_ <= 12


def test_members_without_a_partner_all_go_on():
    x, y = (part[:800] for part in table())
    model = Pruned(preset="fast", hidden=(16,), trees=False, random_state=0).fit(x, y)
    assert model.network_.members == 4
