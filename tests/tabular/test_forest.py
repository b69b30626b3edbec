import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

from softbins.tabular import tree_growth
from softbins.tabular.defaults import DEFAULTS, TreeGrowth
from softbins.tabular.folds import Folds
from softbins.tabular.forest import ARRAYS, Forest
from softbins.tabular.tree_bins import TreeBins
from softbins.tabular.tree_growth import TreeBudget, grow_trees
from tests.tabular.quick import encoded_data, few_rounds

EVERYTHING = 10**6


def grow(x, y, folds, weight=None, max_judges=EVERYTHING, seed=0, ensembles=1, trees=None):
    """For each fold one ensemble of few trees, unless a test wants more."""
    data = encoded_data(x, y, weight)
    parts = [torch.from_numpy(fold) for fold in folds]
    return grow_trees(
        data,
        Folds(len(y), parts, list(range(len(parts))), max_judges),
        seed=seed,
        budget=TreeBudget(ensembles, speedup=1),
        defaults=few_rounds(5) if trees is None else trees,
    )


def model(rows, columns, number=0, speedup=1, trees=DEFAULTS.trees):
    return tree_growth._model((rows, columns), number, 0, speedup, trees)


def table(name, rows=150, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 4))
    y = x[:, 0] + np.sin(3 * x[:, 1]) + 0.1 * generator.normal(size=rows)
    match name:
        case "ties":
            x = np.round(2 * x)
        case "constant columns":
            x[:, :3] = [1.0, 0.0, -1e9]
        case "all constant":
            x[:] = 1.0
        case "huge and tiny":
            x *= [1e30, 1e-30, 1.0, 1e9]
        case "one column":
            x = x[:, :1].copy()
        case "constant target":
            y[:] = 0.1
        case "large target":
            y = 1e9 + y
    return x, y


TABLES = (
    "plain",
    "ties",
    "constant columns",
    "all constant",
    "huge and tiny",
    "one column",
    "constant target",
    "large target",
)
SHAPES = {
    "usual": {},
    "stumps": {"max_depth": 1},
    "one leaf only": {"min_samples_leaf": 1000},
    "deep": {"max_leaf_nodes": None, "min_samples_leaf": 1},
    "few columns at a split": {"max_features": 0.5},
}


def fitted(x, y, rounds=10, seed=0, **changes):
    options = {"max_iter": rounds, "early_stopping": False, "random_state": seed}
    return HistGradientBoostingRegressor(**options | changes).fit(x, y)


def nodes(forest):
    return [getattr(forest, name) for name in ARRAYS]


# The same numbers as scikit-learn's


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLES)
def test_it_predicts_what_scikit_learn_does(name, shape):
    x, y = table(name)
    model = fitted(x, y, **SHAPES[shape])
    forest = Forest.of([model], 10)
    new, _ = table(name, seed=1)
    for rows in (x, new, 100 * new):
        expected = model.predict(rows)
        np.testing.assert_allclose(forest.predict(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_several_ensembles_are_averaged(name):
    x, y = table(name)
    models = [fitted(x[part::3], y[part::3], seed=part) for part in range(3)]
    expected = np.mean([model.predict(x) for model in models], axis=0)
    predicted = Forest.of(models, 10).predict(x)
    np.testing.assert_allclose(predicted, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 10])
def test_the_first_trees_alone(rounds):
    x, y = table("plain")
    model = fitted(x, y)
    expected = list(model.staged_predict(x))[rounds - 1]
    forest = Forest.of([model], rounds)
    assert len(forest.roots) == rounds
    np.testing.assert_allclose(forest.predict(x), expected, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=20)
def test_any_small_table(seed, rows, columns):
    generator = np.random.default_rng(seed)
    x = generator.integers(-2, 3, (rows, columns)).astype(float)
    y = generator.normal(size=rows)
    model = fitted(x, y, rounds=3, min_samples_leaf=1)
    new = generator.normal(size=(20, columns))
    np.testing.assert_allclose(Forest.of([model], 3).predict(new), model.predict(new), atol=1e-12)


def test_rows_on_a_threshold_go_left():
    x = np.array([[0.0], [1.0]]).repeat(10, 0)
    y = np.array([0.0, 8.0]).repeat(10)
    model = fitted(x, y, rounds=1, min_samples_leaf=1, learning_rate=1.0)
    forest = Forest.of([model], 1)
    (threshold,) = forest.threshold[forest.left != np.arange(len(forest.left))]
    beside = np.array([[threshold], [np.nextafter(threshold, 9)], [np.nextafter(threshold, -9)]])
    np.testing.assert_allclose(forest.predict(beside), [0, 8, 0], atol=1e-6)


def test_no_rows_and_rows_of_any_memory_order():
    x, y = table("plain")
    forest = Forest.of([fitted(x, y)], 10)
    assert forest.predict(x[:0]).shape == (0,)
    expected = forest.predict(x)
    np.testing.assert_array_equal(forest.predict(np.asfortranarray(x)), expected)
    np.testing.assert_array_equal(forest.predict(np.repeat(x, 2, 0)[::2]), expected)


# Files


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_and_back(shape):
    x, y = table("large target")
    forest = Forest.of([fitted(x, y, **SHAPES[shape])], 10)
    tensors = forest.tensors() | {"something else": torch.zeros(1)}
    again = Forest.from_tensors(tensors)
    assert list(tensors) == ["something else"]
    assert (again.base, again.features) == (forest.base, forest.features)
    for ours, theirs in zip(nodes(again), nodes(forest), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(again.predict(x), forest.predict(x))


@pytest.mark.parametrize("name", ["left", "right", "roots", "feature"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_places_outside_are_refused(name, value):
    x, y = table("plain")
    tensors = Forest.of([fitted(x, y)], 10).tensors()
    damaged = tensors[f"forest.{name}"].clone()
    damaged[len(damaged) // 2] = value
    with pytest.raises(ValueError, match=f"^forest.{name}: points outside"):
        Forest.from_tensors(tensors | {f"forest.{name}": damaged})


@pytest.mark.parametrize("name", ["left", "right"])
@pytest.mark.parametrize("move", ["to itself", "back", "into the next tree"])
def test_a_walk_that_does_not_end_in_its_tree_is_refused(name, move):
    # Compiled code would walk in a circle, or out of its memory.
    tensors = Forest.of([fitted(*table("plain"))], 10).tensors()
    places, second = tensors[f"forest.{name}"].clone(), tensors["forest.roots"][1]
    inner = int(torch.nonzero(places != torch.arange(len(places)))[1])
    assert 0 < inner < second
    places[inner] = {"to itself": inner, "back": 0, "into the next tree": second}[move]
    with pytest.raises(ValueError, match="point out of the tree, or back"):
        Forest.from_tensors(tensors | {f"forest.{name}": places})


def test_trees_that_overlap_are_refused():
    forest = Forest.of([fitted(*table("plain"))], 10)
    with pytest.raises(ValueError, match="^forest.roots: need trees one after another"):
        replace(forest, roots=forest.roots[[0, 2, 1, *range(3, 10)]])


def test_a_copy_predicts_the_same_and_leaves_the_compiled_trees_behind():
    x, y = table("plain")
    forest = Forest.of([fitted(x, y)], 10)
    expected = forest.predict(x)
    for again in (copy.deepcopy(forest), pickle.loads(pickle.dumps(forest))):
        assert "_compiled" not in vars(again)
        np.testing.assert_array_equal(again.predict(x), expected)


def test_a_tree_deeper_than_it_has_nodes_is_refused():
    tensors = Forest.of([fitted(*table("plain"))], 10).tensors()
    tensors["forest.depths"] = tensors["forest.depths"] + 10**12
    with pytest.raises(ValueError, match="^forest.depths: "):
        Forest.from_tensors(tensors)


@pytest.mark.parametrize("name", ["feature", "threshold", "left", "right", "value", "depths"])
def test_arrays_of_different_lengths_are_refused(name):
    tensors = Forest.of([fitted(*table("plain"))], 10).tensors()
    tensors[f"forest.{name}"] = tensors[f"forest.{name}"][:-1]
    with pytest.raises(ValueError, match="^forest"):
        Forest.from_tensors(tensors)


@pytest.mark.parametrize("name", [*ARRAYS, "rest"])
def test_a_missing_tensor_is_named(name):
    tensors = Forest.of([fitted(*table("plain"))], 10).tensors()
    del tensors[f"forest.{name}"]
    with pytest.raises(KeyError, match=f"forest.{name}"):
        Forest.from_tensors(tensors)


# Growing


def folds_of(rows, count, used=None):
    order = np.random.default_rng(5).permutation(rows)
    return [part.astype(np.int64) for part in np.array_split(order, count)[:used]]


def test_held_out_rows_are_in_the_order_of_the_folds():
    x, y = table("plain")
    folds = folds_of(len(y), 4)
    grown = grow(x, y, folds)
    assert grown.held_out.shape == (len(y),)
    residual = y[np.concatenate(folds)] - grown.held_out
    assert grown.error == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert grown.error < 0.8 * y.std()


@pytest.mark.parametrize("planted", [0, 77, 149])
def test_a_held_out_row_has_no_part_in_its_own_prediction(planted):
    x, y = table("plain")
    folds = folds_of(len(y), 5)
    changed = y.copy()
    changed[planted] = 1e6
    place = np.flatnonzero(np.concatenate(folds) == planted)[0]
    after = grow(x, changed, folds).held_out
    # Its own prediction is one of a table without outliers; those of other folds are not.
    assert abs(after[place]) < 5
    assert np.abs(after).max() > 100
    # It has a voice in the number of trees, which is common to all: with one there is no choice.
    one = few_rounds(1)
    before, after = (grow(x, t, folds, trees=one).held_out for t in (y, changed))
    assert after[place] == before[place]
    assert (after != before).sum() > len(y) / 2


def test_the_number_of_trees_is_the_best_one():
    x, y = table("plain", rows=60)
    y = y + np.random.default_rng(1).normal(size=60)  # so that few trees are enough
    folds = folds_of(len(y), 3)
    errors = []
    for rounds in range(1, 13):
        growth = TreeGrowth(100, 0.2, rounds=rounds, max_leaf_nodes=31, min_samples_leaf=1)
        grown = grow(x, y, folds, trees=replace(DEFAULTS.trees, growth=(growth,)))
        errors.append(grown.error)
    # What more trees may do is what fewer may, and more.
    assert errors == sorted(errors, reverse=True)
    chosen = len(grown.forest.roots) // len(folds)
    assert 1 < chosen < 12
    assert errors.index(errors[-1]) == chosen - 1


def test_nothing_to_learn_takes_next_to_no_trees():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(200, 3)), generator.normal(size=200)
    grown = grow(x, y, folds_of(200, 4))
    assert len(grown.forest.roots) <= 4 * 3
    assert grown.error == pytest.approx(y.std(), rel=0.05)


@pytest.mark.parametrize("each", [1, 3])
def test_the_forest_is_the_mean_of_the_folds_ensembles(each):
    x, y = table("plain")

    bins = TreeBins.fit(x)
    codes = bins.codes(x).T

    def stages(used, number):
        ensemble = tree_growth._model((len(used), 4), number, number, 1, few_rounds(5))
        ensemble.bins = bins
        return ensemble.fit(np.asfortranarray(codes[used]), y[used]).staged_codes(codes)

    folds = folds_of(len(y), 4, used=2)
    grown = grow(x, y, folds, ensembles=2 * each)
    rounds = len(grown.forest.roots) // (2 * each)
    predicted, held = [], []
    for f, fold in enumerate(folds):
        used = np.setdiff1d(np.arange(len(y)), fold)
        own = [stages(used, f * each + n)[rounds - 1] for n in range(each)]
        predicted += own
        held.append(np.mean(own, axis=0)[fold])
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(grown.forest.predict(x), np.mean(predicted, axis=0), **close)
    np.testing.assert_allclose(grown.held_out, np.concatenate(held), **close)


def test_a_limit_takes_the_first_rows_of_each_fold():
    x, y = table("plain")
    folds = folds_of(len(y), 5)
    grown = grow(x, y, folds, max_judges=7)
    assert grown.held_out.shape == (35,)
    residual = y[np.concatenate([fold[:7] for fold in folds])] - grown.held_out
    assert grown.error == pytest.approx(np.sqrt(np.mean(residual**2)))


def test_weights_count_in_the_trees_and_in_the_error():
    x, y = table("plain")
    folds = folds_of(len(y), 3)
    weight = np.random.default_rng(2).uniform(0.1, 5, len(y))
    grown = grow(x, y, folds, weight)
    rows = np.concatenate(folds)
    mse = np.average((y[rows] - grown.held_out) ** 2, weights=weight[rows])
    assert grown.error == pytest.approx(np.sqrt(mse))
    plain = grow(x, y, folds)
    ones = grow(x, y, folds, np.ones(len(y)))
    np.testing.assert_array_equal(ones.held_out, plain.held_out)
    assert np.abs(grown.held_out - plain.held_out).max() > 1e-3


def test_the_same_seed_grows_the_same_forest():
    x, y = table("plain")
    one, same, other = (grow(x, y, folds_of(len(y), 3), seed=seed).held_out for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("rows", [2, 3, 9])
def test_few_rows(rows):
    x, y = table("plain", rows=rows)
    grown = grow(x, y, folds_of(rows, min(rows, 8)))
    assert np.isfinite(grown.forest.predict(x)).all()
    assert np.isfinite(grown.held_out).all()


@pytest.mark.parametrize(("folds", "asked", "grown"), [(3, 4, 6), (2, 4, 4), (5, 4, 5), (4, 1, 4)])
def test_there_are_at_least_as_many_ensembles_as_asked_for(folds, asked, grown):
    x, y = table("plain")
    found = grow(x, y, folds_of(len(y), folds), ensembles=asked, trees=few_rounds(1))
    assert len(found.forest.roots) == grown


@pytest.mark.parametrize(
    ("rows", "leaves", "fewest"),
    [(500, 12, 1), (501, 16, 1), (1000, 16, 1), (1001, 31, 1), (2001, 31, 2), (20_001, 31, 20)],
)
def test_small_tables_grow_small_trees(rows, leaves, fewest):
    made = model(rows, 2)
    assert (made.max_leaf_nodes, made.min_samples_leaf) == (leaves, fewest)


@pytest.mark.parametrize("rows", [100, 3000, 30_000])
def test_a_speedup_is_faster_learning_from_fewer_trees(rows):
    usual, faster = (model(rows, 2, speedup=speedup) for speedup in (1, 3))
    assert faster.learning_rate == pytest.approx(3 * usual.learning_rate)
    assert faster.max_iter == usual.max_iter // 3


@pytest.mark.parametrize(("histogram", "limit", "begun"), [(0.0, 1e-9, True), (1.0, 9.0, False)])
def test_trees_that_take_too_long_are_left_out(histogram, limit, begun, monkeypatch):
    """Two ensembles with at least three rounds of up to ten nodes: sixty histograms."""
    x, y = np.arange(20.0)[:, None], np.arange(20.0)
    data = encoded_data(x, y)
    folds = Folds(20, [torch.arange(10), torch.arange(10, 20)], [0, 1], EVERYTHING)
    defaults, tried, grow = few_rounds(5), [], tree_growth.grow_ensemble
    how = {"seed": 0, "defaults": replace(defaults, seconds_per_histogram=histogram)}
    monkeypatch.setattr(tree_growth, "grow_ensemble", lambda *a: tried.append(a) or grow(*a))
    with pytest.warns(UserWarning, match=f"^max_seconds: trees need more than {limit:.2g} seconds"):
        assert grow_trees(data, folds, budget=TreeBudget(1, 1, limit), **how) is None
    assert bool(tried) == begun
    assert grow_trees(data, folds, budget=TreeBudget(1, 1, 61 * histogram + 1e6), **how) is not None


def test_every_second_ensemble_sees_half_of_the_columns():
    assert [model(100, 4, number).max_features for number in range(4)] == [1.0, 0.5, 1.0, 0.5]


def test_wide_tables_have_fewer_rounds():
    models = [model(10, columns) for columns in (200, 400, 10**6)]
    assert [model.max_iter for model in models] == [150, 75, 1]
