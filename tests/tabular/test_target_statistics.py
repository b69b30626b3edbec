"""What targets say of categories: shrinkage, whose targets a row may know, whole fits."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, ShuffleSplit

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.nn.stopping import Stop
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.folds import Folds
from softbins.tabular.row_order import RowOrder
from softbins.tabular.shrinkage import shrunken_means, shrunken_slopes
from softbins.tabular.target_statistics import add_target_statistics, cross_fitting
from tests.tabular.quick import encoded_data

STATISTICS = DEFAULTS.statistics


def many(codes):
    return [f"shop {code:03}" for code in codes]


# Shrinkage


def test_means_are_shrunken_as_the_analysis_of_variance_says():
    """Three categories of 2, 3 and 4 rows, with the variances worked out by hand."""
    codes = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    y = np.array([1.0, 3.0, 4.0, 5.0, 9.0, 0.0, 2.0, 1.0, 2.0])
    means, rows, overall = np.array([2.0, 6.0, 1.25]), np.array([2, 3, 4]), 3.0
    inside = (2.0 + 14.0 + 2.75) / (9 - 3)
    between = ((rows * (means - overall) ** 2).sum() - 2 * inside) / (9 - (4 + 9 + 16) / 9)
    expected = (means - overall) * rows * between / (rows * between + inside)
    np.testing.assert_allclose(shrunken_means(codes, y, np.ones(9), 3), expected)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_they_follow_the_unit_of_targets(shift, scale, seed):
    generator = np.random.default_rng(seed)
    codes, y = generator.integers(0, 5, 40), generator.normal(size=40)
    before = shrunken_means(codes, y, np.ones(40), 5)
    after = shrunken_means(codes, shift + scale * y, np.ones(40), 5)
    np.testing.assert_allclose(after, scale * before, atol=1e-5 * scale + 1e-8 * abs(shift))


def test_categories_that_differ_by_chance_alone_have_none():
    y = np.tile([-1.0, 1.0], 50)
    assert not shrunken_means(np.repeat(np.arange(50), 2), y, np.ones(100), 50).any()


def test_of_many_rows_little_is_taken_away_and_of_no_row_all():
    codes, y = np.repeat([0, 1], 5000), np.repeat([-1.0, 1.0], 5000)
    y = y + np.tile([-0.5, 0.5], 5000)
    found = shrunken_means(codes, y, np.ones(10_000), 3)
    np.testing.assert_allclose(found, [-1, 1, 0], atol=1e-3)


def test_rows_of_no_category_and_rows_that_hardly_count_change_nothing():
    codes, y = np.arange(60) % 6, np.random.default_rng(0).normal(size=60) + np.arange(60) % 6
    alone = shrunken_means(codes, y, np.ones(60), 6)
    with_none = shrunken_means(np.r_[codes, -1], np.r_[y, 1e6], np.ones(61), 6)
    np.testing.assert_array_equal(with_none, alone)
    light = shrunken_means(np.r_[codes, 0], np.r_[y, 1e3], np.r_[np.ones(60), 1e-15], 6)
    np.testing.assert_allclose(light, alone, rtol=0.05)


def test_slopes_are_shrunken_as_the_analysis_of_variance_says():
    """Three categories of three rows, with least squares worked out by hand."""
    codes, x = np.repeat([0, 1, 2], 3), np.array([-1.0, 0, 1, 1, 2, 3, 0, 2, 4])
    y = np.array([-2.0, 0.3, 2, 5, 5, 5, 1, 0, -3])
    slopes, information = np.array([2.0, 0.0, -1.0]), np.array([2.0, 2.0, 8.0])
    y_mean, x_mean = (np.repeat([v[codes == c].mean() for c in range(3)], 3) for v in (y, x))
    inside = np.square(y - y_mean - slopes[codes] * (x - x_mean)).sum() / (9 - 3 - 3)
    apart = slopes - (information * slopes).sum() / 12
    excess = (information * apart**2).sum() - 2 * inside
    between = excess / (12 - (4 + 4 + 64) / 12)
    expected = apart * information * between / (information * between + inside)
    found = shrunken_slopes(codes, x, y, np.ones(9), 3)
    np.testing.assert_allclose(found.values, expected)
    np.testing.assert_allclose(found.evidence, excess / (2 * inside))
    share = (information * expected**2).sum() / np.square(y - y_mean).sum()
    np.testing.assert_allclose(found.share, share)


def test_slopes_need_two_different_rows_of_a_category():
    generator = np.random.default_rng(0)
    codes, x = np.r_[np.repeat([0, 1], 20), 2, 3, 3], np.r_[generator.normal(size=40), 1, 2, 2]
    y = np.r_[np.repeat([-3.0, 3.0], 20) * x[:40], 5, 6, 7] + generator.normal(size=43) / 10
    found = shrunken_slopes(codes, x, y, np.ones(43), 5)
    np.testing.assert_allclose(found.values[1] - found.values[0], 6, atol=0.2)
    assert not found.values[2:].any()
    assert not shrunken_slopes(codes[40:], x[40:], y[40:], np.ones(3), 4).values.any()


# Whose targets a row may know


def folds_of(order, members=4, n_rows=200):
    target = np.arange(float(n_rows))
    data = replace(encoded_data(target[:, None], target), order=order)
    defaults = replace(DEFAULTS.folds, max_unpaired_rows=100)
    return Folds.draw(data, members, seed=1, defaults=defaults)


GROUPS = np.arange(200) // 5
TIME = np.arange(200.0)
ORDERS = {
    "random": RowOrder(),
    "groups": RowOrder(groups=GROUPS),
    "time": RowOrder(time=TIME),
    "all given": RowOrder(splits=list(KFold(4).split(GROUPS))),
    "some given": RowOrder(splits=list(ShuffleSplit(1, random_state=0).split(GROUPS))),
}


@pytest.mark.parametrize("name", ORDERS)
def test_each_row_knows_targets_of_others_alone(name):
    order = ORDERS[name]
    folds = folds_of(order)
    parts = cross_fitting(folds, order, 8, seed=0)
    every = np.concatenate([rows for rows, _ in parts])
    np.testing.assert_array_equal(np.sort(every), np.arange(200))
    for rows, learnt in parts:
        assert len(learnt) > 0
        assert not set(rows) & set(learnt)
        if order.groups is not None:
            assert not set(order.groups[rows]) & set(order.groups[learnt])
    for fold, (rows, learnt) in zip(folds.parts, parts, strict=False):
        assert set(fold.tolist()) == set(rows.tolist())
        if order.time is not None:
            assert order.time[learnt].max() < order.time[rows].min()


@pytest.mark.parametrize("name", ["time", "some given"])
def test_rows_outside_of_such_folds_do_not_learn_from_those_inside(name):
    folds = folds_of(ORDERS[name])
    held_out = set(torch.cat(folds.parts).tolist())
    for _, learnt in cross_fitting(folds, ORDERS[name], 8, seed=0)[len(folds.parts) :]:
        assert not held_out & set(learnt.tolist())


def table(y, x=None, **columns):
    """Encoded training data."""
    frame = pd.DataFrame({name: many(codes) for name, codes in columns.items()})
    if x is not None:
        frame["x"] = x
    data = encoded_data(frame, np.asarray(y, float), scaling="standard")
    return replace(data, codes=data.columns.rare_codes(frame))


def learnt(data, **changes):
    folds = Folds.random(data.n_rows, 4, 0, DEFAULTS.folds)
    how = replace(STATISTICS, **changes)
    return add_target_statistics(data, folds, seed=0, defaults=how, scaling="standard"), folds


def statistics_of(data):
    """Means and effects by column (n, 2), from features that are scaled in the standard way."""
    contents = [(f.column, f.content) for f in data.columns.encoded_features]
    columns = {column for column, content in contents if content == "category_mean"}
    pick = [[(c, f"category_{name}") for name in ("mean", "effect")] for c in sorted(columns)]
    features = data.features * data.scaling.scale + data.scaling.center
    return [features[:, [contents.index(each) for each in pair]] for pair in pick]


def test_features_do_not_depend_on_targets_of_the_own_fold():
    generator = np.random.default_rng(0)
    codes, y = generator.integers(0, 60, 600), generator.normal(size=600)
    before, folds = learnt(table(y + codes, shop=codes))
    own = folds.parts[0].numpy()
    changed = y + codes
    changed[own] = generator.normal(size=len(own)) * 100
    after, _ = learnt(table(changed, shop=codes))
    (first,), (second,) = statistics_of(before), statistics_of(after)
    np.testing.assert_allclose(first[own], second[own], atol=1e-4)
    assert np.abs(first - second).max() > 1


def test_effects_are_what_other_columns_do_not_say():
    """Shops lie in places whose x goes with them; towns have effects of their own."""
    generator = np.random.default_rng(0)
    shop, town = generator.integers(0, 50, 4000), generator.integers(0, 45, 4000)
    of_shop, of_town = generator.normal(size=50), generator.normal(size=45)
    x = 2 * generator.normal(size=50)[shop] + generator.normal(size=4000)
    y = 3 * x + of_shop[shop] + of_town[town] + 0.3 * generator.normal(size=4000)
    data, _ = learnt(table(y, x, shop=shop, town=town))
    for found, true in zip(statistics_of(data), (of_shop[shop], of_town[town]), strict=True):
        effect = np.corrcoef(found[:, 1], true)[0, 1]
        assert effect > 0.9
        assert effect > np.corrcoef(found[:, 0], true)[0, 1] + 0.02


def test_slopes_are_there_along_columns_that_have_them():
    """Targets grow with x as each shop has it, and the same everywhere with another column."""
    generator = np.random.default_rng(0)
    shop, x = generator.integers(0, 50, 3000), generator.normal(size=(3000, 2))
    of_shop = generator.normal(size=50)
    y = of_shop[shop] * x[:, 0] + 2 * x[:, 1] + 0.3 * generator.normal(size=3000)
    frame = pd.DataFrame({"shop": many(shop), "own": x[:, 0], "same": x[:, 1]})
    data = encoded_data(frame, y, scaling="standard")
    data, _ = learnt(replace(data, codes=data.columns.rare_codes(frame)))
    features = data.columns.encoded_features
    along = {feature.along: i for i, feature in enumerate(features) if feature.along is not None}
    assert along.keys() == {1}
    assert np.corrcoef(data.features[:, along[1]], of_shop[shop])[0, 1] > 0.95
    encoder = data.columns.encoders[0]
    assert (
        np.corrcoef(encoder.slopes[0], [of_shop[int(s[-3:])] for s in encoder.labels])[0, 1] > 0.98
    )


def test_no_time_means_no_trees():
    """Effects are those of the targets themselves then."""
    generator = np.random.default_rng(0)
    shop, x = generator.integers(0, 50, 1000), generator.normal(size=1000)
    data = table(x + shop, x, shop=shop)
    folds = Folds.random(1000, 4, 0, DEFAULTS.folds)
    how = {"defaults": STATISTICS, "scaling": "standard", "stop": Stop(1e-6)}
    quick = add_target_statistics(data, folds, seed=0, **how)
    (found,) = statistics_of(quick)
    np.testing.assert_allclose(found[:, 0], found[:, 1])


@pytest.mark.parametrize(
    ("codes", "changes"), [(np.arange(300) % 40, {}), (np.arange(300) % 41, {"is_used": False})]
)
def test_few_categories_are_left_alone(codes, changes):
    data = table(np.arange(300.0), shop=codes)
    assert learnt(data, **changes)[0] is data


# Whole fits


@pytest.fixture(scope="module")
def shops():
    generator = np.random.default_rng(3)
    shop, x = generator.integers(0, 60, 900), generator.normal(size=900)
    of_shop = 3 * generator.normal(size=60)
    frame = pd.DataFrame({"shop": many(shop), "x": x})
    return frame, 10 + of_shop[shop] + x + 0.3 * generator.normal(size=900)


def quick(**parameters):
    return HistogramRegressor(members=2, max_epochs=20, trees=False, random_state=0, **parameters)


@pytest.fixture(scope="module")
def model(shops):
    return quick().fit(*shops)


def test_a_fit_knows_its_categories(model, shops):
    frame, y = shops
    assert np.sqrt(np.mean((model.predict(frame) - y) ** 2)) < 1.0
    contents = [f.content for f in model.columns_.encoded_features if f.column == 0]
    assert contents == ["category_frequency", "category_mean", "category_effect"]
    assert model.provenance_.columns[0].remark == "as frequency, mean target and effect"
    assert model.provenance_.columns[0].distinct == 60


def test_a_new_category_is_an_average_one(model, shops):
    """So is a missing one: the prediction is that of a middling shop, in an interval as wide."""
    _, y = shops
    new = pd.DataFrame({"shop": ["elsewhere", None], "x": [0.0, 0.0]})
    features = model.columns_.transform(new)
    assert not features[:, :3].any()
    low, high = np.quantile(y, (0.2, 0.8))
    assert ((low < model.predict(new)) & (model.predict(new) < high)).all()


def test_files_hold_the_statistics_and_stay_small(model, shops, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(shops[0]), model.predict(shops[0]))
    assert again.columns_ == model.columns_
    assert again.provenance_ == model.provenance_
    assert len(json.dumps(model.columns_.to_json())) < 60 * 60


def test_any_number_of_jobs_gives_the_same_bits(model, shops):
    other = quick(n_jobs=2).fit(*shops)
    np.testing.assert_array_equal(other.predict(shops[0]), model.predict(shops[0]))


@pytest.mark.parametrize(
    "forged",
    [
        {"means": [0.0] * 60},
        {"means": [0.0], "effects": [0.0]},
        {"effects": [0.0] * 60},
        {"slopes": [[0.0] * 60] * 3, "slope_columns": [1]},
        {"means": [0.0] * 60, "effects": [0.0] * 60, "slopes": [], "slope_columns": [1]},
    ],
)
def test_forged_statistics_are_refused(model, forged):
    value = model.columns_.to_json()
    value["parts"][0] = {
        k: v for k, v in value["parts"][0].items() if k not in ("means", "effects")
    }
    value["parts"][0] |= forged
    with pytest.raises(ValueError, match="means and effects"):
        Columns.from_json(value)


def test_nothing_is_learnt_from_targets_where_no_rows_are_left_out(shops):
    plain = quick(early_stopping=False).fit(*shops)
    paper = NeuralRegressor("l2", hidden=(4,), max_epochs=1).fit(*shops)
    for fitted in (plain, paper):
        contents = {feature.content for feature in fitted.columns_.encoded_features}
        assert "category_mean" not in contents


def test_a_constant_target_says_nothing(shops):
    fitted = quick().fit(shops[0], np.ones(900))
    assert (fitted.predict(shops[0]) == 1).all()
