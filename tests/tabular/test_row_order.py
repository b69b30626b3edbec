"""Rows that belong together: groups, an order of time, folds of one's own, recent rows."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit

import softbins
from softbins import HistogramRegressor
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.folds import Folds
from softbins.tabular.row_order import RowOrder

QUICK = {"hidden": (8,), "members": 2, "max_epochs": 3, "trees": False, "random_state": 0}
NO_ORDER = {"groups": None, "time": None, "folds": None}


def table(rows=120, seed=0):
    random = np.random.default_rng(seed)
    x = pd.DataFrame({"a": random.normal(size=rows), "patient": np.arange(rows) % 12})
    x["day"] = pd.date_range("2024-01-01", periods=rows, freq="D")
    return x, (x["a"] + 0.1 * random.normal(size=rows)).to_numpy()


@pytest.mark.parametrize("members", [1, 2, 8])
@pytest.mark.parametrize("count", [2, 5, 40, 300])
def test_a_group_is_never_cut_apart(count, members):
    groups = np.random.default_rng(count).integers(count, size=600)
    groups = np.unique(groups, return_inverse=True)[1]
    folds = Folds.of_groups(groups, members, 0, DEFAULTS.folds)
    for fold, part in enumerate(folds.parts):
        outside = np.setdiff1d(np.arange(600), part.numpy())
        assert not np.isin(groups[part.numpy()], groups[outside]).any()
        assert sorted(folds.rows_for(fold).tolist()) == outside.tolist()
    together = torch.cat(folds.parts)
    assert len(together.unique()) == len(together)


@pytest.mark.parametrize("members", [1, 2, 8])
@pytest.mark.parametrize("ties", [1, 7, 50])
def test_what_is_held_out_is_later_than_what_is_learnt_from(ties, members):
    random = np.random.default_rng(0)
    time = random.permutation(600) // ties * 1.0
    folds = Folds.in_time(time, members, 0, DEFAULTS.folds)
    assert folds.fold_of_member == [0] * members
    known, latest = folds.rows_for(0).numpy(), folds.parts[0].numpy()
    assert time[known].max() < time[latest].min()
    assert sorted([*known, *latest]) == list(range(600))
    assert len(latest) == pytest.approx(DEFAULTS.folds.time_share * 600, abs=ties)


def test_two_rows_are_enough_for_one_to_be_later():
    folds = Folds.in_time(np.array([3.0, 1.0]), 1, 0, DEFAULTS.folds)
    assert (folds.rows_for(0).tolist(), folds.parts[0].tolist()) == ([1], [0])


def test_lists_of_different_lengths_make_as_many_batches():
    splits = list(TimeSeriesSplit(2).split(np.arange(600)))
    folds = Folds.given(splits, 600, 2, 0, DEFAULTS.folds)
    parts = folds.training_rows(32)
    assert len({len(part) for part in parts}) == 1
    for fold, part in enumerate(parts):
        assert set(part.tolist()) == set(folds.rows_for(fold).tolist())


SPLITS = {
    "k folds": KFold(3),
    "time series": TimeSeriesSplit(3),
    "pairs": [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))],
    "masks": [(np.arange(120) < 80, np.arange(120) >= 80)],
}


@pytest.mark.parametrize("name", SPLITS)
def test_folds_of_ones_own_are_taken(name):
    x, y = table()
    order = RowOrder.of(x, y, **NO_ORDER | {"folds": SPLITS[name]})
    model = HistogramRegressor(**QUICK, folds=SPLITS[name]).fit(x[["a"]], y)
    assert order.splits is not None
    assert model.aggregator_.rows == sum(len(test) for _, test in order.splits[-2:])
    assert model.provenance_.folds == "given"


@pytest.mark.parametrize("given", [{"groups": "patient"}, {"time": "day"}])
def test_a_column_of_the_table_or_its_values_are_the_same(given, tmp_path):
    x, y = table()
    ((kind, column),) = given.items()
    by_name = HistogramRegressor(**QUICK).fit(x, y, **given)
    by_values = HistogramRegressor(**QUICK).fit(x, y, **{kind: x[column]})
    assert by_name.predict(x).tolist() == by_values.predict(x).tolist()
    by_name.save(tmp_path / "a.model")
    assert softbins.load(tmp_path / "a.model").provenance_.folds == f"{kind}: {column}"


def test_rows_of_weight_zero_are_no_rows_of_a_group():
    x, y = table()
    weight = (np.arange(120) >= 40).astype(float)
    whole = HistogramRegressor(**QUICK).fit(x, y, weight, groups="patient")
    part = HistogramRegressor(**QUICK).fit(x[40:], y[40:], groups=x["patient"][40:])
    np.testing.assert_allclose(whole.predict(x), part.predict(x), atol=1e-5)


def test_groups_are_routed_through_a_search():
    x, y = table()
    with softbins_routing():
        model = HistogramRegressor(**QUICK).set_fit_request(groups=True)
        search = GridSearchCV(model, {"hidden": [(4,), (8,)]}, cv=GroupKFold(2))
        search.fit(x[["a"]], y, groups=x["patient"])
    assert search.best_estimator_.provenance_.folds == "groups: patient"


def softbins_routing():
    from sklearn import config_context

    return config_context(enable_metadata_routing=True)


BAD = {
    "one group": (lambda x: {"groups": np.zeros(120)}, "groups: all rows are in one group"),
    "one time": (lambda x: {"time": np.zeros(120)}, "time: all rows have about the same"),
    "both": (lambda x: {"groups": "patient", "time": "day"}, "groups, time: give one"),
    "too few": (lambda x: {"groups": np.arange(5)}, r"groups: need one for each of 120 rows"),
    "gap in time": (lambda x: {"time": [np.nan, *range(119)]}, "time: row 0 has none"),
    "no date": (lambda x: {"time": ["soon"] * 120}, "time: 'soon' is no date"),
    "no column": (lambda x: {"groups": "patent"}, "no column 'patent' .did you mean 'patient'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_orders_are_named_and_change_nothing(case):
    x, y = table()
    model = HistogramRegressor(**QUICK).fit(x, y)
    before = model.predict(x)
    given, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        model.fit(x, y, **given(x))
    assert model.predict(x).tolist() == before.tolist()


BAD_FOLDS = {
    "a word": ("random", "folds: need a splitter or pairs"),
    "no pairs": ([], "folds: need at least one pair"),
    "beyond the table": ([([0], [500])], "folds: need pairs of indices"),
    "both sides": ([([0, 1], [1, 2])], "folds: pair 0 has rows on both"),
    "an empty side": ([([], [1, 2])], "folds: pair 0 has no rows"),
}


@pytest.mark.parametrize("case", BAD_FOLDS)
def test_bad_folds_are_named(case):
    x, y = table()
    folds, message = BAD_FOLDS[case]
    with pytest.raises(ValueError, match=message):
        HistogramRegressor(**QUICK, folds=folds).fit(x, y)


def test_an_order_needs_rows_that_are_held_out():
    x, y = table()
    with pytest.raises(ValueError, match="time: no rows are held out without early_stopping"):
        HistogramRegressor(**QUICK, early_stopping=False).fit(x, y, time="day")


# Recent rows


def drifted(rows, factor, seed=1):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 2))
    return x, x[:, 0] + factor * 0.3 * random.normal(size=rows)


@pytest.fixture(scope="module")
def fitted():
    return HistogramRegressor(**QUICK | {"max_epochs": 40}).fit(*drifted(400, 1.0, seed=0))


def covered(model, x, y):
    low, high = model.predict_interval(x, 0.9).T
    return ((low <= y) & (y <= high)).mean()


@pytest.mark.parametrize("factor", [0.4, 3.0])
def test_intervals_keep_up_with_noise_that_changes(fitted, factor, tmp_path):
    fitted.save(tmp_path / "a.model")
    model = softbins.load(tmp_path / "a.model")
    x, y = drifted(1500, factor)
    means = model.predict(x)
    for start in range(0, 1000, 100):
        model.recalibrate(x[start : start + 100], y[start : start + 100], half_life=150)
    assert abs(covered(model, x[1000:], y[1000:]) - 0.9) < 0.05
    assert abs(covered(fitted, x[1000:], y[1000:]) - 0.9) > 0.06
    assert model.predict(x).tolist() == means.tolist()
    model.save(tmp_path / "b.model")
    again = softbins.load(tmp_path / "b.model")
    assert again.predict_interval(x).tolist() == model.predict_interval(x).tolist()


def test_rows_like_those_of_the_fit_change_little(fitted, tmp_path):
    fitted.save(tmp_path / "a.model")
    model = softbins.load(tmp_path / "a.model")
    x, y = drifted(800, 1.0)
    before = covered(model, x, y)
    model.recalibrate(x[:400], y[:400])
    assert abs(covered(model, x, y) - before) < 0.05
    assert model.aggregator_.rows == fitted.aggregator_.rows + 400


BAD_RECENT = {
    "lengths": (lambda x, y: (x, y[:-1]), {}, "y: need a target for each of 100 rows"),
    "nan": (lambda x, y: (x, np.where(y > y[0], np.nan, y)), {}, "y: .* NaN"),
    "half-life": (lambda x, y: (x, y), {"half_life": 0.0}, "half_life"),
    "columns": (lambda x, y: (x[:, :1], y), {}, "features"),
}


@pytest.mark.parametrize("case", BAD_RECENT)
def test_bad_recent_rows_change_nothing(fitted, case):
    make, options, message = BAD_RECENT[case]
    before = fitted.aggregator_
    with pytest.raises(ValueError, match=message):
        fitted.recalibrate(*make(*drifted(100, 1.0)), **options)
    assert fitted.aggregator_ is before


def test_a_model_without_calibration_cannot_be_calibrated_anew():
    x, y = drifted(50, 1.0)
    model = HistogramRegressor(**QUICK, early_stopping=False).fit(x, y)
    with pytest.raises(ValueError, match="recalibrate: the model was fitted without rows"):
        model.recalibrate(x, y)
