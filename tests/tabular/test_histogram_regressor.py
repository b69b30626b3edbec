import math
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from softbins import Bins, HistogramRegressor, load
from softbins.tabular.objectives import (
    PrecomputedObjective,
    TwoHeadObjective,
    UnequalBinsObjective,
)
from tests.tabular.quick import with_few_rounds

QUICK = {"hidden": (16,), "members": 3, "max_epochs": 5, "random_state": 0}
AUTO = QUICK | {"members": "auto"}
NO_TREES = QUICK | {"trees": False}


@pytest.fixture(autouse=True)
def _few_rounds(request, monkeypatch):
    """As many trees as a test can wait for."""
    if "slow" not in request.keywords:
        monkeypatch.setattr(HistogramRegressor, "_defaults", with_few_rounds(2))


def data(rows=120, seed=0, noise=0.3):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    return x, 10 + 3 * x[:, 0] - x[:, 1] * x[:, 2] + noise * generator.normal(size=rows)


def heavy(rows=120, seed=0):
    x, y = data(rows, seed)
    return x, np.exp(y / 2)


def frame(rows=120, seed=0):
    x, y = data(rows, seed)
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    table["kind"] = np.where(x[:, 0] > 0, "up", "down")
    table.loc[::7, "b"] = np.nan
    return table, y


# What the options make of it

OPTIONS = {
    "default": (data, QUICK),
    "no trees": (data, NO_TREES),
    "no Gaussian process": (data, QUICK | {"gaussian_process": False}),
    "fast": (data, AUTO | {"preset": "fast"}),
    "one head": (data, NO_TREES | {"blur": None}),
    "own blur": (data, NO_TREES | {"blur": 0.2}),
    "no early stopping": (data, QUICK | {"early_stopping": False}),
    "no embeddings": (data, NO_TREES | {"embeddings": False}),
    "two members": (data, NO_TREES | {"members": 2}),
    "heavy tails": (heavy, QUICK),
    "heavy tails, one head": (heavy, NO_TREES | {"blur": None}),
    "own bins": (data, NO_TREES | {"bins": Bins.uniform(-20.0, 50.0, 200), "sigma": 1.0}),
    "columns of any kind": (frame, QUICK),
    "constant target": (lambda: (data()[0], np.full(120, 0.1)), NO_TREES),
    "as in paper": (data, None),
}


def regressor(name):
    options = OPTIONS[name][1]
    if options is None:
        return HistogramRegressor.as_in_paper(**QUICK | {"members": 1})
    return HistogramRegressor(**options)


@pytest.fixture(scope="module")
def fitted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistogramRegressor, "_defaults", with_few_rounds(2))
        return {name: regressor(name).fit(*make()) for name, (make, _) in OPTIONS.items()}


def everything(model, x):
    """All that a model says about rows, by name."""
    said = {f"predict {output}": model.predict(x, output) for output in ("mean", "median", "mode")}
    said["distribution"] = model.predict_distribution(x).probs.numpy()
    said["quantiles"] = model.predict_quantiles(x)
    for kind in ("central", "shortest"):
        for calibrated in (True, False):
            interval = model.predict_interval(x, 0.8, kind, calibrated)
            said[f"{kind} {calibrated}"] = interval
    return said


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_random_state_gives_the_same_model(fitted, name):
    make, _ = OPTIONS[name]
    again = regressor(name).fit(*make())
    assert_same(everything(fitted[name], make()[0]), everything(again, make()[0]))


def test_another_random_state_gives_another_model(fitted):
    x, y = data()
    other = HistogramRegressor(**QUICK | {"random_state": 1}).fit(x, y)
    assert (other.predict(x) != fitted["default"].predict(x)).any()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_file_holds_all_of_it_to_the_bit(fitted, name, tmp_path):
    model, x = fitted[name], OPTIONS[name][0]()[0]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_same(everything(model, x), everything(again, x))
    assert again.bins_ == model.bins_
    assert again.bins_.bias == model.bins_.bias
    assert again.aggregator_ == model.aggregator_
    assert (again.forest_ is None) == (model.forest_ is None)
    assert type(again.objective_) is type(model.objective_)
    assert (again.n_epochs_, again.history_) == (model.n_epochs_, model.history_)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_partners_are_those_that_have_a_share(fitted):
    for model in fitted.values():
        shares = {} if model.aggregator_ is None else model.aggregator_.shares
        assert (model.forest_ is not None) == ("trees" in shares)
        assert (model.gaussian_process_ is not None) == ("gaussian_process" in shares)
        assert all(0 < share <= 1 for share in shares.values())
        assert sum(shares.values()) <= 1 + 1e-12


def test_some_of_these_have_partners(fitted):
    assert "gaussian_process" in fitted["default"].aggregator_.shares
    assert "trees" in fitted["no Gaussian process"].aggregator_.shares
    assert fitted["no trees"].forest_ is None
    assert fitted["no Gaussian process"].gaussian_process_ is None


@pytest.mark.parametrize("name", OPTIONS)
def test_the_distribution_has_the_predicted_mean(fitted, name):
    model, (x, _) = fitted[name], OPTIONS[name][0]()
    gap = model.predict_distribution(x).mean.numpy() - model.predict(x)
    assert np.abs(gap).max() <= 1e-8 * (model.bins_.high - model.bins_.low)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_row_does_not_depend_on_the_rows_beside_it(fitted, name, monkeypatch):
    model, (x, _) = fitted[name], OPTIONS[name][0]()
    together = model.predict(x), model.predict_interval(x, 0.8)
    monkeypatch.setattr(HistogramRegressor, "_chunk_size", 7)
    for start, end in ((0, 1), (5, 50), (0, 120)):
        part = x[start:end]
        close = {"rtol": 1e-9, "atol": 1e-9}
        np.testing.assert_allclose(model.predict(part), together[0][start:end], **close)
        interval = model.predict_interval(part, 0.8)
        np.testing.assert_allclose(interval, together[1][start:end], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_objectives(fitted, name):
    model = fitted[name]
    one_head = name in ("as in paper", "one head", "heavy tails, one head")
    assert isinstance(model.objective_, TwoHeadObjective) != one_head
    sharp = model.objective_ if one_head else model.objective_.sharp
    assert isinstance(sharp, UnequalBinsObjective) == name.startswith("heavy")
    assert sharp.bins == model.bins_
    assert model.network_.outputs == model.objective_.outputs


def test_as_in_paper_has_nothing_new(fitted):
    model = fitted["as in paper"]
    assert type(model.objective_) is PrecomputedObjective
    assert (model.aggregator_, model.forest_) == (None, None)
    assert model.network_.members == 1
    assert model.network_.embedded == []
    assert model.optimizer == "adam"
    assert (model.bins_.count, model.sigma) == (100, 1.0)
    assert {tuple(row) for row in model.history_} == {
        ("member", "epoch", "train_objective", "train_mae", "train_rmse")
    }
    x, _ = data()
    calibrated, raw = (model.predict_interval(x, calibrated=c) for c in (True, False))
    np.testing.assert_array_equal(calibrated, raw)


def test_as_in_paper_takes_changes():
    model = HistogramRegressor.as_in_paper(bins=50, trees=True)
    assert (model.bins, model.trees, model.hidden) == (50, True, (64, 64, 64, 64))
    assert clone(model).get_params() == model.get_params()


def test_without_early_stopping_nothing_is_held_out(fitted):
    model = fitted["no early stopping"]
    assert (model.aggregator_, model.forest_) == (None, None)
    assert model.n_epochs_ == 5
    assert all(name.startswith("train") for name in list(model.history_[0])[2:])


def test_with_early_stopping_there_are_errors_of_held_out_rows(fitted):
    model = fitted["default"]
    names = ("member", "epoch", "validation_objective", "validation_mae", "validation_rmse")
    assert {tuple(row) for row in model.history_} == {names}
    assert {row["member"] for row in model.history_} == set(range(model.network_.members))


def test_patience_stops():
    x, _ = data()
    y = np.random.default_rng(3).normal(size=len(x))  # nothing to learn
    stopped = HistogramRegressor(**NO_TREES | {"max_epochs": 200, "patience": 2}).fit(x, y)
    assert stopped.n_epochs_ < 200


@pytest.mark.parametrize("monitor", ["rmse", "mae", "objective"])
def test_any_monitor(monitor):
    x, y = data()
    model = HistogramRegressor(**NO_TREES, monitor=monitor).fit(x, y)
    assert np.isfinite(model.predict(x)).all()


def test_max_seconds_ends_the_training():
    x, y = data()
    start = time.perf_counter()
    options = NO_TREES | {"max_epochs": 10**6, "patience": 10**6, "gaussian_process": False}
    with pytest.warns(UserWarning, match="^max_seconds: networks learnt for "):
        model = HistogramRegressor(**options, max_seconds=0.2).fit(x, y)
    assert time.perf_counter() - start < 10
    assert 1 <= model.n_epochs_ < 10**6
    assert np.isfinite(model.predict(x)).all()


def test_a_gaussian_process_that_takes_too_long_is_left_out():
    x, y = data()
    networks = pytest.warns(UserWarning, match="^max_seconds: networks learnt for ")
    with networks, pytest.warns(UserWarning, match="the Gaussian process was left out"):
        model = HistogramRegressor(**NO_TREES, max_seconds=1e-3).fit(x, y)
    assert model.gaussian_process_ is None
    assert np.isfinite(model.predict(x)).all()


def test_it_learns_and_trees_help_where_steps_are():
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (400, 4))
    y = np.where(x[:, 0] > 0.3, 5.0, 0.0) * np.where(x[:, 1] > -0.2, 1.0, -1.0)
    model = HistogramRegressor(**QUICK, gaussian_process=False).fit(x, y)
    assert model.aggregator_.shares["trees"] > 0.5
    assert model.forest_ is not None
    smooth = HistogramRegressor(**QUICK | {"max_epochs": 40, "learning_rate": 1e-2})
    x, y = data(400, noise=0.1)
    assert smooth.fit(x, y).score(*data(400, seed=1, noise=0.1)) > 0.8


# Intervals


def test_intervals_are_ordered_and_grow_with_the_coverage(fitted):
    x, _ = data()
    for kind in ("central", "shortest"):
        for calibrated in (True, False):
            widths = []
            for coverage in (0.3, 0.6, 0.9):
                low, high = fitted["default"].predict_interval(x, coverage, kind, calibrated).T
                assert (low <= high).all()
                widths.append(high - low)
            assert (widths[0] <= widths[1]).all()
            assert (widths[1] <= widths[2]).all()


def test_raw_intervals_are_the_distributions_own(fitted):
    x, _ = data()
    model = fitted["default"]
    low, high = model.predict_distribution(x, calibrated=False).interval(0.9)
    raw = model.predict_interval(x, 0.9, calibrated=False)
    # Up to the last bits of targets about 10, which depend on where in memory a product has its
    # numbers.
    np.testing.assert_allclose(raw, torch.stack([low, high], -1).numpy(), rtol=1e-14, atol=1e-14)
    assert (model.predict_interval(x, 0.9) != raw).any()


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize(
    ("given", "name"),
    [({"coverage": 0.0}, "coverage"), ({"coverage": 1.5}, "coverage"), ({"kind": "wide"}, "kind")],
)
def test_wrong_intervals_are_refused(fitted, given, name, calibrated):
    with pytest.raises(ValueError, match=f"^{name}: "):
        fitted["default"].predict_interval(data()[0], calibrated=calibrated, **given)


def covered(model, x, y, **options):
    low, high = model.predict_interval(x, 0.9, **options).T
    return np.mean((low <= y) & (y <= high))


def simulated(rows, seed):
    """Noise that depends on x, and is skewed."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (rows, 2))
    return x, x[:, 0] + (0.2 + 0.5 * np.abs(x[:, 1])) * generator.exponential(size=rows)


@pytest.mark.parametrize("trees", [False, True], ids=["no trees", "trees"])
def test_calibrated_intervals_cover(monkeypatch, trees):
    monkeypatch.setattr(HistogramRegressor, "_defaults", with_few_rounds(1))
    fits, rows, new = (20 if not trees else 6), 100, 400
    shares = {kind: [] for kind in ("central", "shortest")}
    for seed in range(fits):
        options = AUTO | {"random_state": seed, "trees": trees}
        model = HistogramRegressor(**options).fit(*simulated(rows, seed))
        for kind, found in shares.items():
            found.append(covered(model, *simulated(new, 1000 + seed), kind=kind))
    # Each fit's coverage has the variance c (1 - c) / n of its held-out rows, and that of the new
    # ones on top. All members together err a little less than the single ones that were judged.
    deviation = math.sqrt(0.09 / fits * (1 / rows + 1 / new))
    # The central intervals are what is calibrated; the shortest come from the same distribution.
    for kind, found in shares.items():
        least = 0.9 - 3 * deviation - (0.03 if kind == "shortest" else 0)
        assert least <= np.mean(found) <= 0.9 + 3 * deviation + 0.03


# Bins and what they cost


def test_bias_is_known_and_small(fitted):
    for name in OPTIONS.keys() - {"constant target"}:
        bins = fitted[name].bins_
        # Bins that end at a bound cost more next to it, where the mean comes from other bins.
        share = 0.02 if bins.low == 0 else 0.01
        assert sum(bins.bias) < share * OPTIONS[name][0]()[1].std()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_bias_is_in_the_targets_unit(fitted, scale):
    x, y = data()
    scaled = HistogramRegressor(**NO_TREES | {"max_epochs": 1}).fit(x, scale * y)
    expected = [scale * part for part in fitted["no trees"].bins_.bias]
    assert list(scaled.bins_.bias) == pytest.approx(expected, rel=1e-3, abs=1e-9 * scale)


COARSE = {
    "a few bins": {"bins": 4, "sigma": 0.3},
    "own bins": {"bins": Bins.uniform(-20.0, 50.0, 8), "sigma": 0.3},
    "bins that end at targets": {"bins": "tight", "sigma": 2.0},
}


@pytest.mark.parametrize("case", COARSE)
def test_coarse_bins_are_warned_of(case):
    x, y = data()
    options = COARSE[case]
    if options["bins"] == "tight":
        options = options | {"bins": Bins.uniform(y.min(), y.max(), 50)}
    with pytest.warns(UserWarning, match="^bins: predictions may be off by") as caught:
        model = HistogramRegressor(**NO_TREES | options).fit(x, y)
    # It points to the line that called fit.
    assert [warning.filename for warning in caught] == [__file__]
    assert sum(model.bins_.bias) > 0.01 * y.std()


def test_targets_outside_given_bins_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="^y: targets .* outside"):
        HistogramRegressor(**NO_TREES, bins=Bins.uniform(9.0, 11.0, 50)).fit(x, y)


def test_a_unit_changes_nothing_but_the_unit(fitted):
    x, y = data()
    other = HistogramRegressor(**NO_TREES).fit(x, 1024 * y)
    predicted = fitted["no trees"].predict(x)
    np.testing.assert_allclose(other.predict(x) / 1024, predicted, rtol=1e-3, atol=1e-3)


# Weights


def test_a_row_without_weight_is_no_row():
    x, y = data()
    weight = np.arange(120) % 3.0
    some = weight > 0
    weighted = HistogramRegressor(**QUICK).fit(x, y, weight)
    fewer = HistogramRegressor(**QUICK).fit(x[some], y[some], weight[some])
    assert_same(everything(weighted, x), everything(fewer, x))


@pytest.mark.parametrize("factor", [1.0, 1e-6, 1e6])
def test_weights_are_relative(fitted, factor):
    x, y = data()
    weighted = HistogramRegressor(**NO_TREES).fit(x, y, np.full(120, factor))
    np.testing.assert_allclose(weighted.predict(x), fitted["no trees"].predict(x), rtol=1e-3)


@pytest.mark.parametrize("trees", [False, True], ids=["no trees", "trees"])
@pytest.mark.parametrize("early_stopping", [False, True], ids=["to the end", "early stopping"])
def test_the_heavier_rows_are_believed(early_stopping, trees):
    # Features that say nothing of targets 0 and 1: the best prediction is the weights' share.
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 2))
    y = np.arange(200) % 2.0
    options = QUICK | {"trees": trees, "max_epochs": 30, "learning_rate": 1e-2}
    options["early_stopping"] = early_stopping
    means = []
    for heavier in (0.0, 1.0):
        weight = np.where(y == heavier, 9.0, 1.0)
        means.append(HistogramRegressor(**options).fit(x, y, weight).predict(x).mean())
    assert means == pytest.approx([0.1, 0.9], abs=0.1)


def test_wrong_weights_are_refused():
    x, y = data()
    for weight in (np.full(120, -1.0), np.zeros(120), np.ones(7), np.full(120, np.nan)):
        with pytest.raises(ValueError, match="^sample_weight: "):
            HistogramRegressor(**NO_TREES).fit(x, y, weight)


# Bad tables


def base(rows=60):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    return x, x[:, 0] + 0.3 * generator.normal(size=rows)


def with_target(change, rows=60):
    x, y = base(rows)
    return x, change(y)


def categories(rows=60):
    x, y = base(rows)
    return pd.DataFrame({"a": x[:, 0], "id": [f"row {i}" for i in range(rows)]}), y


TABLES = {
    "10 rows": lambda: base(10),
    "3 rows": lambda: base(3),
    "2 rows": lambda: base(2),
    "2 rows, one target": lambda: (base(2)[0], np.ones(2)),
    "one category for each row": categories,
    "an empty column": lambda: (np.c_[base()[0], np.full(60, np.nan)], base()[1]),
    "nothing but empty columns": lambda: (np.full((60, 2), np.nan), base()[1]),
    "whole numbers": lambda: with_target(np.round),
    "two values": lambda: with_target(lambda y: (y > 0).astype(float)),
    "half zeros": lambda: with_target(lambda y: np.maximum(y, 0)),
    "12 orders of magnitude": lambda: with_target(lambda y: 10.0 ** np.linspace(-6, 6, len(y))),
    "constant target": lambda: with_target(lambda y: np.full_like(y, 0.1)),
    "constant features": lambda: (np.full((60, 3), 0.1), base()[1]),
    "repeated rows": lambda: tuple(np.repeat(part[:6], 10, 0) for part in base()),
    "one outlier": lambda: with_target(lambda y: np.append(y[1:], 1e6)),
    "one huge outlier": lambda: with_target(lambda y: np.append(y[1:], 1e12)),
    "all but one the same": lambda: with_target(lambda y: np.append(np.zeros(59), 1e6)),
    "tiny targets": lambda: with_target(lambda y: 1e-30 * y),
    "huge targets": lambda: with_target(lambda y: 1e30 * y),
    "around 1e9": lambda: with_target(lambda y: 1e9 + np.round(y)),
    "around -1e15": lambda: with_target(lambda y: -1e15 + 8 * np.round(y)),
    "large features": lambda: (1e37 * base()[0], base()[1]),
    "tiny features": lambda: (1e-37 * base()[0], base()[1]),
    "features around 1e9": lambda: (1e9 + base()[0], base()[1]),
}


def assert_finite(model, x):
    bins = model.bins_
    predicted = model.predict(x)
    assert predicted.shape == (len(x),)
    assert (predicted >= bins.low).all()
    assert (predicted <= bins.high).all()
    distribution = model.predict_distribution(x)
    assert torch.isfinite(distribution.probs).all()
    np.testing.assert_allclose(distribution.probs.sum(-1).numpy(), 1, rtol=1e-9)
    for kind in ("central", "shortest"):
        low, high = model.predict_interval(x, 0.5, kind).T
        assert np.isfinite([low, high]).all()
        assert (low <= high).all()
        assert np.isfinite(model.predict_interval(x, 0.9, kind, calibrated=False)).all()
    assert np.isfinite(model.predict_quantiles(x)).all()


@pytest.mark.parametrize("trees", [False, True], ids=["no trees", "trees"])
@pytest.mark.parametrize("name", TABLES)
def test_any_table_can_be_fitted(name, trees, monkeypatch, tmp_path):
    monkeypatch.setattr(HistogramRegressor, "_defaults", with_few_rounds(1))
    x, y = TABLES[name]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X: column .* has another text in nearly every row")
        warnings.filterwarnings("ignore", "y: the target 1e.12 at index 59 is more than a million")
        model = HistogramRegressor(**AUTO | {"max_epochs": 2, "trees": trees}).fit(x, y)
    assert_finite(model, x)
    # Training was not given up: the error is a number in each epoch.
    assert all(math.isfinite(value) for row in model.history_ for value in row.values())
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(x), model.predict(x))


@pytest.mark.parametrize("name", ["whole numbers", "around 1e9", "tiny targets", "huge targets"])
def test_it_learns_whatever_the_unit(name):
    x, y = TABLES[name]()
    model = HistogramRegressor(**NO_TREES | {"max_epochs": 60, "learning_rate": 1e-2}).fit(x, y)
    assert model.score(x, y) > 0.7


def test_a_constant_target_is_predicted():
    x, _ = base()
    for value in (0.0, 0.1, -3e9, 1e-30):
        model = HistogramRegressor(**NO_TREES).fit(x, np.full(60, value))
        np.testing.assert_allclose(model.predict(x), value, rtol=1e-6, atol=1e-6)
        assert (model.aggregator_, model.forest_) == (None, None)


def test_more_columns_than_rows():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(50, 2000)), generator.normal(size=50)
    options = NO_TREES | {"max_epochs": 1, "members": 2}
    assert_finite(HistogramRegressor(**options, embeddings=False).fit(x, y), x)


@pytest.mark.slow
def test_more_columns_than_rows_with_all_parts(monkeypatch):
    monkeypatch.setattr(HistogramRegressor, "_defaults", with_few_rounds(10))
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(50, 2000)), generator.normal(size=50)
    assert_finite(HistogramRegressor(**QUICK).fit(x, y), x)


def test_new_rows_may_hold_what_was_not_there():
    table, y = frame()
    model = HistogramRegressor(**QUICK).fit(table, y)
    new = table.head(9).copy()
    new["kind"] = "sideways"
    new.loc[0, "a"] = np.nan
    new.loc[1, "a"] = 1e30
    new["c"] = np.nan
    assert_finite(model, new)


def test_one_row_is_refused_and_fits_without_early_stopping():
    x, y = base(1)
    with pytest.raises(ValueError, match="^early_stopping: n_samples=1 "):
        HistogramRegressor(**AUTO).fit(x, y)
    model = HistogramRegressor(**QUICK, early_stopping=False).fit(x, y)
    assert model.predict(x) == pytest.approx(y, abs=0.02)


def test_very_few_held_out_rows_still_give_intervals():
    x, y = base(5)
    model = HistogramRegressor(**AUTO, trees=False).fit(x, y)
    for calibrated in (True, False):
        assert np.isfinite(model.predict_interval(x, 0.99, calibrated=calibrated)).all()


REFUSED = {
    "no rows": lambda: (np.zeros((0, 3)), np.zeros(0)),
    "no columns": lambda: (np.zeros((60, 0)), base()[1]),
    "nan in y": lambda: with_target(lambda y: np.append(y[1:], np.nan)),
    "infinity in y": lambda: with_target(lambda y: np.append(y[1:], np.inf)),
    "infinity in X": lambda: (np.where(base()[0] > 2, np.inf, base()[0]), base()[1]),
    "two columns of targets": lambda: (base()[0], np.c_[base()[1], base()[1]]),
    "fewer targets": lambda: (base()[0], base()[1][1:]),
    "targets beyond float32": lambda: with_target(lambda y: 1e39 * y),
    "targets near the largest float": lambda: with_target(lambda y: 1e300 * y),
    "targets near the smallest float": lambda: with_target(lambda y: 1e-300 * y),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fitted_is_refused(fitted, name):
    x, y = REFUSED[name]()
    with pytest.raises(ValueError, match="X|y|sample|feature"):
        HistogramRegressor(**QUICK).fit(x, y)


# Wrong parameters

WRONG = {
    "preset": ["slow", None],
    "members": [0, -1, 1.5, "many", 1000],
    "blur": [-1, 0, math.nan, "no", True],
    "bins": [1, 4, 100.5, "many"],
    "sigma": [0, -1, math.nan, "2"],
    "patience": [0, -1, 2.5],
    "hidden": [(), (0,), (16, -1), 16, "big"],
    "learning_rate": [-1, 0, math.nan, "fast"],
    "beta_2": [1, -0.1, None],
    "weight_decay": [-1, math.nan, "little"],
    "scaling": ["minmax", None],
    "activation": ["tanh", None],
    "max_seconds": [0, -1, "long"],
    "monitor": ["r2", None],
    "max_epochs": [0, -1, 1.5],
    "batch_size": [0, -1, 1.5],
    "schedule": ["linear"],
    "optimizer": ["sgd", None],
    "categorical_features": ["all"],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
def test_a_wrong_parameter_is_named(name, value):
    x, y = base()
    with pytest.raises(ValueError, match=f"^{name}: "):
        HistogramRegressor(**NO_TREES | {name: value}).fit(x, y)


@pytest.mark.parametrize(("name", "value"), [("sigma", 0), ("beta_2", 1), ("preset", "slow")])
def test_a_failed_fit_leaves_the_estimator_as_it_was(name, value):
    x, y = data()
    model = HistogramRegressor(**NO_TREES).fit(x, y)
    before, attributes = everything(model, x), dict(vars(model))
    model.set_params(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}: "):
        model.fit(x[:, :2], y)
    model.set_params(**{name: attributes[name]})
    with pytest.raises(ValueError, match="NaN"):
        model.fit(x, np.full(120, np.nan))
    with pytest.raises(ValueError, match="^early_stopping: "):
        model.fit(x[:1, :1], y[:1])
    assert vars(model) == attributes
    assert_same(before, everything(model, x))


class Reporter:
    """Somebody who hears of the progress, and cannot be copied."""

    def __init__(self):
        self.lock, self.epochs = threading.Lock(), []

    def hear(self, epoch, *_):
        with self.lock:
            self.epochs.append(epoch)


def test_progress_may_be_bound_to_what_cannot_be_copied():
    reporter = Reporter()
    x, y = data()
    model = HistogramRegressor(**NO_TREES, progress=reporter.hear)
    model.fit(x, y)
    assert reporter.epochs == list(range(1, model.n_epochs_ + 1))
    model.tune(x, y)
    assert len(reporter.epochs) > 2 * model.n_epochs_


def test_an_interrupted_fit_leaves_the_estimator_as_it_was():
    x, y = data()
    model = HistogramRegressor(**NO_TREES).fit(x, y)
    before = everything(model, x)

    def interrupt(*_):
        raise KeyboardInterrupt

    model.set_params(progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, -y)
    assert_same(before, everything(model, x))


# At the defaults


@pytest.mark.slow
def test_the_defaults_on_a_table_of_some_rows(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (3000, 4))
    y = np.sin(4 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * generator.normal(size=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = HistogramRegressor(random_state=0).fit(x[:2000], y[:2000])
    new, target = x[2000:], y[2000:]
    # Noise of 0.1 is all that should be left of a spread of about 0.75.
    assert math.sqrt(np.mean((model.predict(new) - target) ** 2)) < 0.12
    for kind in ("central", "shortest"):
        slack = 3 * math.sqrt(0.09 * (1 / 500 + 1 / 1000))  # two folds, and the new rows
        assert covered(model, new, target, kind=kind) == pytest.approx(0.9, abs=slack)
        assert covered(model, new, target, kind=kind, calibrated=False) > 0.8
    model.save(tmp_path / "model")
    assert_same(everything(model, new), everything(load(tmp_path / "model"), new))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "fast"])
def test_the_defaults_keep_a_heavy_tail(preset):
    x, y = heavy(1500)
    model = HistogramRegressor(preset=preset, random_state=0).fit(x[:1000], y[:1000])
    assert model.bins_.step is None
    error = np.log(model.predict(x[1000:]).clip(1)) - np.log(y[1000:].clip(1))
    assert math.sqrt(np.mean(error**2)) < 0.5 * np.log(y).std()
