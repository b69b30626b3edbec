import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softbins import Bins, HistogramRegressor
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import (
    FOLDS,
    MOST_EMBEDDED,
    PAIRED_ROWS,
    automatic_blur,
    different,
    embedded_inputs,
    held_out,
    kept,
    recipe_for,
    without_copies,
)

ROWS = [*range(2, 40), 63, 64, 65, 100, 255, 256, 257, 512, 599, 600]
BATCHES = [1, 7, 32, 33, 64, 256]


# Folds


@pytest.mark.parametrize("most", [1, 2, 4, 8, 10])
@pytest.mark.parametrize("rows", ROWS)
def test_folds_are_disjoint_and_as_equal_as_can_be(rows, most):
    members = min(most, rows)
    folds = held_out(rows, members, seed=3)
    assert len(folds) == len(different(folds)) == members
    together = torch.cat(folds)
    assert len(together.unique()) == len(together)
    assert together.min() >= 0
    assert together.max() < rows
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    count = min(max(FOLDS, members), rows)
    assert set(sizes) <= {rows // count, math.ceil(rows / count)}


@pytest.mark.parametrize("rows", ROWS)
def test_all_folds_cover_all_rows(rows):
    together = torch.cat(held_out(rows, min(FOLDS, rows), seed=3))
    assert together.sort().values.tolist() == list(range(rows))


@pytest.mark.parametrize("members", [2, 4, 8, 16])
def test_in_large_tables_two_members_leave_out_the_same(members):
    rows = PAIRED_ROWS + 100
    folds = held_out(rows, members, seed=3)
    assert len(folds) == members
    apart = different(folds)
    assert len(apart) == members // 2
    for member, fold in enumerate(folds):
        assert fold is apart[member % len(apart)]
    together = torch.cat(apart)
    assert len(together.unique()) == len(together)
    for part, fold in zip(kept(rows, folds, 256), folds, strict=True):
        assert not torch.isin(part, fold).any()
        assert rows - len(fold) - 1 <= len(part) <= rows - len(fold)


def test_an_odd_number_of_members_has_no_pairs():
    folds = held_out(PAIRED_ROWS + 100, 3, seed=3)
    assert len(folds) == len(different(folds)) == 3


def test_folds_are_random_and_the_seeds_own():
    one, same, other = (torch.cat(held_out(200, 8, seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, one.sort().values)
    # A member's fold does not depend on how many others there are, up to FOLDS.
    for few, many in zip(held_out(200, 2, 1), held_out(200, 8, 1), strict=False):
        assert torch.equal(few, many)


# Copies


def table_with_copies(rows=1200, seed=0):
    """Of the first half of the rows some stand there twice or more."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(rows, 3)), generator.normal(size=rows)
    again = generator.integers(rows // 2, size=rows // 4)
    x[-len(again) :], y[-len(again) :] = x[again], y[again]
    return x, y


@pytest.mark.parametrize("members", [2, 4, 8])
def test_a_row_that_others_repeat_judges_nobody(members):
    x, y = table_with_copies()
    folds = held_out(len(y), members, seed=1)
    reduced = without_copies(folds, x, y)
    rows = [tuple(row) for row in np.column_stack([x, y])]
    for fold, left in zip(folds, reduced, strict=True):
        others = {rows[i] for i in set(range(len(y))) - set(fold.tolist())}
        assert left.tolist() == [i for i in fold.tolist() if rows[i] not in others]
        assert len(left) < len(fold)
    assert [id(fold) for fold in reduced] == [
        id(reduced[v % len(different(folds))]) for v in range(members)
    ]


def test_without_copies_folds_are_themselves():
    generator = np.random.default_rng(0)
    folds = held_out(300, 4, seed=1)
    assert without_copies(folds, generator.normal(size=(300, 2)), np.zeros(300)) is folds


def test_the_same_features_with_another_target_are_no_copy():
    folds = held_out(300, 4, seed=1)
    assert without_copies(folds, np.zeros((300, 2)), np.arange(300.0)) is folds


def test_a_fold_stays_if_next_to_nothing_would_be_left():
    x = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 10, axis=0)
    folds = held_out(300, 4, seed=1)
    for fold, left in zip(folds, without_copies(folds, x, x[:, 0]), strict=True):
        assert left is fold


def test_zero_is_zero_whatever_its_sign():
    x = np.zeros((800, 1))
    x[::2] = -0.0
    x[:400, 0] = np.arange(400)
    folds = held_out(800, 4, seed=1)
    for fold, left in zip(folds, without_copies(folds, x, np.zeros(800)), strict=True):
        assert left.tolist() == [i for i in fold.tolist() if 0 < i < 400]


@pytest.mark.parametrize("members", [4, 8])
@pytest.mark.parametrize("start", range(len(BATCHES)))
def test_kept_rows_are_all_others(start, members):
    # All numbers of rows from 2 to 600, each with two of the sizes of a batch.
    for rows in range(2 + start, 601, len(BATCHES)):
        for batch in (BATCHES[start], BATCHES[start - 1]):
            check_kept(rows, min(members, rows), batch)


def check_kept(rows, members, batch):
    folds = held_out(rows, members, seed=rows)
    parts = kept(rows, folds, batch)
    assert len(parts) == len(folds)
    # What a stack needs: as many batches for all.
    assert len({math.ceil(len(part) / batch) for part in parts}) == 1
    everything = torch.arange(rows)
    for part, fold in zip(parts, folds, strict=True):
        others = everything[~torch.isin(everything, fold)]
        # One row less where the batches would not come out even otherwise.
        assert len(others) - 1 <= len(part) <= len(others)
        assert torch.equal(part, others[: len(part)])
        assert len(part) >= 1


@given(st.integers(2, 600), st.integers(1, 12), st.integers(1, 300))
def test_kept_rows_of_any_table(rows, members, batch):
    check_kept(rows, min(members, rows), batch)


# Choices


def recipe(rows=1000, **parameters):
    return recipe_for(HistogramRegressor(**parameters), rows)


@pytest.mark.parametrize("preset", ["default", "fast"])
@pytest.mark.parametrize("rows", [1, 2, 10, 100, 1000, 20_000, 500_000])
def test_what_is_chosen_can_be_trained(rows, preset):
    found = recipe(rows, preset=preset)
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name == "hidden":
            assert isinstance(value, tuple)
            assert min(value) >= 1
        elif field.name == "learning_rate":
            assert 0 < value < 1
        elif field.name in ("dropout", "last", "last_rate"):
            assert 0 <= value < 1
        elif field.name == "thins":
            assert value is (preset == "fast")
        else:
            assert isinstance(value, int)
            assert value >= 1
    assert found.patience <= found.epochs


@pytest.mark.parametrize("given", [{"members": 4}, {"max_epochs": 56}])
def test_numbers_of_members_and_epochs_that_are_given_stay_as_they_are(given):
    assert recipe(2000, preset="fast").thins
    assert not recipe(2000, preset="fast", **given).thins


def test_fast_is_faster():
    for rows in (100, 1000, 20_000):
        usual, fast = recipe(rows), recipe(rows, preset="fast")
        work = [
            r.members * r.epochs * (1 + r.last) / r.batch_size * r.hidden[0] * r.hidden[1]
            for r in (usual, fast)
        ]
        assert work[1] <= work[0] / 4
        assert fast.ensembles / fast.haste <= usual.ensembles / usual.haste / 4


def test_small_tables_get_small_batches_and_more_epochs():
    recipes = [recipe(rows) for rows in (50, 500, 5000, 6000)]
    sizes, epochs = [r.batch_size for r in recipes], [r.epochs for r in recipes]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] > epochs[-1]


def test_large_tables_get_large_batches():
    sizes = (1, 5000, 5001, 25_000, 25_001, 10**7)
    assert [recipe(rows).batch_size for rows in sizes] == [128, 128, 256, 256, 512, 512]


def test_members_for_tables_of_all_sizes():
    sizes = (3, 1000, 1001, 3000, 3001, 10**7)
    assert [recipe(rows).members for rows in sizes] == [3, 8, 16, 16, 12, 8]
    fast = [recipe(rows, preset="fast").members for rows in sizes]
    assert fast == [3, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("rows", [8, 1000, 1001, 3000])
def test_all_rows_of_small_tables_are_left_out(rows):
    folds = held_out(rows, recipe(rows).members, seed=0)
    assert len(torch.cat(different(folds))) == rows


def test_large_tables_have_more_epochs_than_medium_ones():
    assert recipe(50_000).epochs > recipe(5000).epochs


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("members", 3, "members"),
        ("hidden", (5, 6), "hidden"),
        ("bins", 77, "bins"),
        ("bins", Bins.uniform(0.0, 1.0, 50), "bins"),
        ("batch_size", 13, "batch_size"),
        ("learning_rate", 3e-3, "learning_rate"),
        ("dropout", 0.3, "dropout"),
        ("max_epochs", 17, "epochs"),
        ("patience", 9, "patience"),
    ],
)
@pytest.mark.parametrize("preset", ["default", "fast"])
def test_what_is_given_stays(preset, name, value, field):
    assert getattr(recipe(preset=preset, **{name: value}), field) == value


def test_given_epochs_limit_the_patience_that_is_chosen():
    assert recipe(max_epochs=1000).patience > recipe(max_epochs=50).patience


@pytest.mark.parametrize("preset", ["slow", "", None, "DEFAULT"])
def test_another_preset_is_refused(preset):
    with pytest.raises(ValueError, match=f"^preset: .*got {preset!r}"):
        recipe(preset=preset)


@pytest.mark.parametrize("value", ["most", None, -0.1, 1.0 + 1j, True])
def test_who_gives_no_learning_rate_hears_of_auto(value):
    with pytest.raises(ValueError, match="^learning_rate: need 'auto' or a positive number, got "):
        recipe(learning_rate=value)


# Blur


def test_the_blur_grows_with_the_noise_within_limits():
    shares = [automatic_blur(noise, 2.0) for noise in (0.0, 1e-6, 0.05, 0.08, 0.1, 1.0, 1e9)]
    assert shares == sorted(shares)
    assert 0 < shares[0] == shares[1] < shares[3] < shares[-2] == shares[-1] < 1


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_blur_is_a_share_whatever_the_unit(scale):
    assert automatic_blur(0.1 * scale, 2.0 * scale) == pytest.approx(automatic_blur(0.1, 2.0))


@pytest.mark.parametrize(("noise", "spread"), [(None, 1.0), (0.1, 0.0), (None, 0.0)])
def test_the_blur_where_nothing_is_known(noise, spread):
    assert 0 < automatic_blur(noise, spread) < 1


# Inputs


def test_numbers_are_embedded_and_nothing_else():
    frame = pd.DataFrame(
        {
            "text": ["a", "b", "a", "c"],
            "number": [1.5, 2.5, 3.5, 4.5],
            "truth": [True, False, True, True],
            "gaps": [1.0, None, 3.0, 4.0],
            "empty": [None, None, None, None],
        }
    )
    columns = Columns.fit(frame)
    chosen = [columns.encoded_features[place] for place in embedded_inputs(columns)]
    assert [(feature.column, feature.content) for feature in chosen] == [(1, "value"), (3, "value")]


@pytest.mark.parametrize(("inputs", "embedded"), [(MOST_EMBEDDED, True), (2000, False)])
def test_very_many_numbers_are_not_embedded(inputs, embedded):
    columns = Columns.fit(np.random.default_rng(0).normal(size=(3, inputs)))
    assert len(embedded_inputs(columns)) == (inputs if embedded else 0)
