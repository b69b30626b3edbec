"""Whether intervals of fitted estimators hold what they promise, simulated and on real tables."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from softbins import HistogramRegressor
from tests.tabular.noisy_tables import KINDS, LEVELS, held

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "accuracy"
SHARED = Path(__file__).parents[3] / "shared" / "data"
REPETITIONS, ROWS, NEW, COVERAGE = 200, 600, 100, 0.9


def heteroscedastic(generator, rows):
    """The noise grows from left to right, and has heavy tails."""
    x = generator.uniform(-1, 1, (rows, 2))
    noise = (0.2 + 0.2 * (x[:, 0] + 1)) * generator.standard_t(4, rows)
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + noise


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["central", "shortest"])
def test_coverage_over_many_fits_is_nominal_up_to_sampling(kind):
    # With fewer epochs four members together are better than the one that has left out a row.
    generator, quick = np.random.default_rng(0), {"hidden": (16,), "max_epochs": 12, "trees": False}
    found = []
    for repetition in range(REPETITIONS):
        x, y = heteroscedastic(generator, ROWS + NEW)
        model = HistogramRegressor(preset="fast", random_state=repetition, **quick)
        low, high = model.fit(x[:ROWS], y[:ROWS]).predict_interval(x[ROWS:], COVERAGE, kind).T
        found.append(((low <= y[ROWS:]) & (y[ROWS:] <= high)).mean())
    variance = COVERAGE * (1 - COVERAGE) * (1 / model.aggregator_.rows + 1 / NEW)
    # The same few rows have stopped the training and chosen shares: a percent of leeway. The
    # shortest intervals are chosen as such, which is paid for by some more.
    slack = 3 * math.sqrt(variance / REPETITIONS) + (0.01 if kind == "central" else 0.02)
    assert np.mean(found) == pytest.approx(COVERAGE, abs=slack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_of_every_kind_of_noise_hold_what_they_say(kind):
    """A small part of benchmarks/coverage.py."""
    found = np.mean([held(kind, 300, "fast", repetition) for repetition in range(6)], 0)
    np.testing.assert_allclose(found, LEVELS, atol=0.035)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elevators", "bike", "california", "kin40k", "keggdirected"])
def test_coverage_on_real_tables(name, monkeypatch):
    """5000 rows to learn from and all others, eight thousand or more, to judge by.

    Rows that stand on both sides are no test.
    """
    if not SHARED.exists():
        pytest.skip("needs the tables of benchmarks/accuracy in a folder 'shared/data'")
    monkeypatch.syspath_prepend(BENCHMARK)
    monkeypatch.delitem(sys.modules, "data", raising=False)
    import data

    x, y = data.load(SHARED, name)
    monkeypatch.setattr(data, "TEST_SHARE", 1 - 5000 / len(y))
    split = data.split(x, y, seed=0)
    model = HistogramRegressor(max_epochs=10, random_state=0).fit(split.x, split.y)
    low, high = model.predict_interval(split.x_test, COVERAGE).T
    assert 0.88 <= ((low <= split.y_test) & (split.y_test <= high)).mean() <= 0.92
