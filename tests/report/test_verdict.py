"""A verdict: each color comes where it must, and none where chance may explain what is seen."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from softbins.evaluation import Evaluation, evaluate
from softbins.report.sampling_error import Range, share_range
from softbins.report.training_error import KnownError
from softbins.report.verdict import (
    Finding,
    constant_finding,
    constant_level,
    intervals_finding,
    intervals_level,
    linear_finding,
    linear_level,
    overall,
    training_finding,
    training_level,
)
from tests.report.small_models import fitted, table, tabular


def noise(count, size=1.0, seed=0):
    return size * np.random.default_rng(seed).normal(size=count)


# Baselines


@pytest.mark.parametrize(
    ("gain", "level"),
    [
        (Range(0.3, 0.6), "good"),
        (Range(0.01, 0.04), "fair"),
        (Range(-0.02, 0.04), "bad"),
        (Range(-0.6, -0.1), "bad"),
        (Range(-0.2, 0.4), "unknown"),
        (None, "unknown"),
    ],
)
def test_the_level_beside_a_constant(gain, level):
    assert constant_level(gain) == level


@pytest.mark.parametrize(
    ("gain", "level"),
    [
        (Range(0.01, 0.6), "good"),
        (Range(-0.05, 0.04), "fair"),
        (Range(-0.3, -0.05), "fair"),
        (Range(-0.6, -0.2), "bad"),
        (Range(-0.2, 0.4), "unknown"),
        (None, "unknown"),
    ],
)
def test_the_level_beside_a_linear_regression(gain, level):
    assert linear_level(gain) == level


@pytest.mark.parametrize(
    ("rows", "errors", "level"),
    [
        (300, lambda y: noise(len(y), 0.3, 1), "good"),
        (3000, lambda y: y.mean() - y + noise(len(y), 0.1, 1), "bad"),
        (300, lambda y: noise(len(y), 3.0, 1), "bad"),
        (40, lambda y: noise(len(y), 0.95, 1), "unknown"),
        (14, lambda y: noise(len(y), 0.3, 1), "unknown"),
    ],
    ids=["useful", "useless", "worse", "few rows", "very few rows"],
)
def test_a_model_beside_a_constant(rows, errors, level):
    y = noise(rows)
    found = constant_finding(y, errors(y))
    assert found.level == level
    assert f"the mean of these {rows} targets" in found.text


def test_r2_is_that_of_scikit_learn():
    y, errors = noise(100), noise(100, 0.5, 1)
    expected = 1 - np.square(errors).sum() / np.square(y - y.mean()).sum()
    assert f"R² {expected:.3g}" in constant_finding(y, errors).headline


def test_a_constant_target_cannot_be_judged():
    found = constant_finding(np.full(50, 2.0), noise(50))
    assert (found.level, found.headline) == ("unknown", "All targets are the same")


def test_linear_regression_may_win_or_lose():
    y, errors = noise(300), noise(300, 0.3, 1)
    better = linear_finding(y, errors, y + noise(300, 0.6, 2))
    worse = linear_finding(y, errors, y + noise(300, 0.1, 2))
    assert (better.level, worse.level) == ("good", "bad")
    assert better.headline.startswith("Better than a linear regression by 5")
    assert linear_finding(y[:10], errors[:10], None).level == "unknown"


# Intervals


def ends(y, inside):
    """Intervals of which so many hold their target."""
    low = np.where(np.arange(len(y)) < inside, y - 1, y + 1)
    return np.column_stack([low, y + 2])


@pytest.mark.parametrize(
    ("inside", "rows", "level"),
    [
        (90, 100, "good"),
        (68, 100, "bad"),
        (680, 1000, "bad"),
        (870, 1000, "fair"),
        (970, 1000, "fair"),
        (12, 14, "unknown"),
        (3, 14, "bad"),
    ],
)
def test_intervals_are_judged_as_far_as_chance_allows(inside, rows, level):
    y = noise(rows)
    found = intervals_finding(y, ends(y, inside), 0.9, None)
    assert found.level == level
    assert f"{inside} of {rows} targets" in found.text


def test_too_narrow_intervals_come_with_what_that_may_mean():
    y = noise(100)
    found = intervals_finding(y, ends(y, 68), 0.9, None)
    assert found.headline == "The intervals are too narrow: 68% inside instead of 90%"
    assert "does not calibrate its intervals" in found.text
    calibrated = intervals_finding(y, ends(y, 68), 0.9, tabular())
    assert "These rows may differ from those of the training" in calibrated.text
    assert "calibrated on 20 rows only" in calibrated.text


def test_a_number_that_many_targets_share_excuses_wide_intervals():
    y = np.where(np.arange(1000) < 600, 0.0, noise(1000))
    found = intervals_finding(y, ends(y, 990), 0.9, None)
    assert (found.level, found.headline) == ("good", "The intervals are honest")
    assert "Many targets are the same number" in found.text


def test_few_misses_are_judged_by_their_share():
    """Of intervals for 99%, 98% is twice as many misses as there should be."""
    assert intervals_level(0.98, share_range(9800, 10_000), 0.99, spike=False) == "bad"


# Training


@pytest.mark.parametrize(
    ("factor", "level"),
    [
        (Range(0.9, 1.1), "good"),
        (Range(0.4, 0.5), "good"),
        (Range(1.05, 1.3), "fair"),
        (Range(1.3, 1.6), "bad"),
        (Range(0.6, 1.4), "unknown"),
        (Range(-0.1, 1.4), "unknown"),
    ],
)
def test_the_level_beside_training(factor, level):
    assert training_level(factor) == level


def known(mae, held_out=True, rows=math.inf):
    return KnownError(mae, held_out, rows, "against what was")


def test_a_shift_shows_as_a_larger_error():
    errors = noise(400)
    mae = np.abs(errors).mean()
    assert training_finding(errors, known(mae), []).level == "good"
    assert training_finding(2 * errors, known(mae), []).level == "bad"
    assert training_finding(errors[:10], known(mae), []).level == "unknown"
    assert training_finding(errors, known(mae / 5, held_out=False), []).level == "unknown"
    assert training_finding(errors, None, []).level == "unknown"


def test_columns_that_have_moved_are_named():
    found = training_finding(noise(400), known(0.8), ["width (median 1, now 9)"])
    assert "Columns that have changed since: width (median 1, now 9)." in found.text


def test_few_rows_in_training_leave_more_to_chance():
    errors = noise(400)
    mae = np.abs(errors).mean() / 1.1
    assert training_finding(errors, known(mae), []).level == "fair"
    assert training_finding(errors, known(mae, rows=50), []).level == "good"


# All together


def test_the_worst_color_is_that_of_the_verdict():
    def found(*levels):
        return [Finding("q", level, f"It is {level}", "") for level in levels]

    assert overall(found("good", "bad", "fair")) == (
        "bad",
        "Do not rely on this model yet: it is bad.",
    )
    assert overall(found("good", "fair", "unknown"))[0] == "fair"
    assert overall(found("good", "good")) == ("good", "Nothing speaks against this model.")
    assert overall(found("good", "unknown"))[1].endswith("as far as can be told.")
    assert overall(found("unknown"))[0] == "unknown"


def test_a_model_that_may_be_of_no_use_is_not_praised():
    y = noise(40, 10.0, seed=1)
    maybe, sure = constant_finding(y, noise(40, 8.0)), constant_finding(y, noise(40, 0.1))
    assert (maybe.level, sure.level) == ("unknown", "good")
    fine = Finding("intervals", "good", "The intervals are honest", "")
    level, text = overall([maybe, fine])
    assert level == "unknown"
    assert text.startswith("Not clear yet whether this model is of use: maybe better than")
    assert overall([sure, fine])[0] == "good"


def test_every_question_that_can_be_asked_is_answered():
    whole = evaluate(tabular(), *table(60, seed=1)).verdict()
    assert [each.question for each in whole] == [
        *("constant", "linear", "intervals", "training"),
    ]
    numbers = evaluate(fitted("l2"), *table(60, seed=1)).verdict()
    assert [each.question for each in numbers] == ["constant", "linear", "training"]
    y = np.arange(40.0)
    bare = Evaluation(None, y, y, distribution=None, interval=None, coverage=0.9)
    assert [each.question for each in bare.verdict()] == ["constant"]
    untrained = SimpleNamespace(history_=[], early_stopping=False)
    no_rows = Evaluation(untrained, y, y, None, None, 0.9).verdict()
    assert no_rows[-1].headline == "The error in training is not known"
