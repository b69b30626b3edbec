"""Fitting a Gaussian process: its length scales and noise, and what it says of held-out rows.

With R the kernel of the training rows and D = noise / weight of each row, bent and standardized
targets y have the covariance s (R + D). The scale s with the largest likelihood is y'(R + D)^-1 y
/ n. Noise, the part of the linear kernel, and length scales are those with the largest likelihood
that is left, times a prior which keeps the length scales of columns near each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from softbins._core.warnings import warn_user
from softbins.nn.stopping import Stop
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import GaussianProcessDefaults
from softbins.tabular.encoded_feature import EncodedFeature
from softbins.tabular.folds import Folds
from softbins.tabular.gaussian_process import SQRT_3, BentTarget, GaussianProcess

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

UNUSED_LENGTH = 1e30  # of a feature that is the same in all rows
NUGGET = 1e-8  # added to the noise, so that rounding leaves the matrix positive
MIN_RELATIVE_WEIGHT = 1e-6  # of a row, below which its noise would overflow
NOISE, LINEAR, FIRST_LENGTH = 0, 1, 2  # places in the vector of logarithms that is searched for
BOUNDS_OF_NOISE, BOUNDS_OF_LINEAR, BOUNDS_OF_LENGTH = (-12, 4), (-8, 4), (-3, 8)


class OutOfTimeError(Exception):
    """The time is up before length scales are found."""


@dataclass(frozen=True)
class FittedGaussianProcess:
    """A process, and what it predicts for rows that are new to it: the judges of all folds."""

    process: GaussianProcess
    held_out: Array


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardized features (n, d), the column (d,) of each, bent targets, relative noise (n,)."""

    z: Array
    column: Indices
    y: Array
    noise: Array

    def __getitem__(self, index: Indices) -> Rows:
        return Rows(self.z[index], self.column, self.y[index], self.noise[index])


def fit_gaussian_process(
    x: Array,
    data: TrainingData,
    folds: Folds,
    defaults: GaussianProcessDefaults,
    stop: Stop,
) -> FittedGaussianProcess | None:
    """A process for scaled features x (n, d), or None, with a warning, if there is no time."""
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            return _fit(x, data, folds, defaults, stop)
    except OutOfTimeError:
        why = "interrupted" if stop.asked else "max_seconds: too few for it"
        warn_user(f"{why}; the Gaussian process was left out")
        return None


def _fit(
    x: Array, data: TrainingData, folds: Folds, defaults: GaussianProcessDefaults, stop: Stop
) -> FittedGaussianProcess:
    center, length, column = standardization(x, data.columns.encoded_features)
    target = bend(data.target, defaults)
    bent = np.arcsinh((data.target - target.center) / target.spread)
    mean, deviation = bent.mean(), max(bent.std(), np.finfo(np.float64).tiny)
    weight = np.ones(len(x)) if data.weight is None else data.weight / data.weight.mean()
    noise = 1 / np.maximum(weight, MIN_RELATIVE_WEIGHT)
    rows = Rows((x - center) / length, column, (bent - mean) / deviation, noise)
    found = search(rows, defaults, stop)
    inverse = solve(rows, found, stop)
    held_out = mean + deviation * _held_out(rows, found, inverse, folds, defaults, stop)
    index = torch.cat(folds.judges).numpy()
    target = with_errors(target, bent[index] - held_out, weight[index], defaults)
    scale = np.exp(found[FIRST_LENGTH:])[column]
    weights = deviation * (inverse @ rows.y)
    process = GaussianProcess(
        center=torch.from_numpy(center),
        length=torch.from_numpy(length * scale),
        rows=torch.from_numpy(rows.z / scale),
        weights=torch.from_numpy(weights),
        slope=torch.from_numpy(np.exp(found[LINEAR]) * (weights @ (rows.z / scale))),
        offset=float(mean),
        target=target,
    )
    return FittedGaussianProcess(process, target.mean(torch.from_numpy(held_out)).numpy())


# Features and targets


def standardization(x: Array, features: Sequence[EncodedFeature]) -> tuple[Array, Array, Indices]:
    """Centers and lengths (d,) of features, and a number for the column that each comes from.

    The features of one category share a length, so that all categories are as far from each other.
    A gap is as far from a value as two halves of a table, however few gaps there are.
    """
    deviation = x.std(0)
    _, column = np.unique([feature.column for feature in features], return_inverse=True)
    content = np.array([feature.content for feature in features])
    is_category = np.isin(content, ("is_category", "is_rare_category"))
    total = np.bincount(column, np.where(is_category, np.square(deviation), 0.0))
    length = np.where(is_category, np.sqrt(total)[column], deviation)
    length = np.where(content == "is_missing", np.ptp(x, axis=0) / 2, length)
    is_used = deviation > 1e-9 * np.abs(x).max(0)
    return x.mean(0), np.where(is_used, length, UNUSED_LENGTH), column.astype(np.int64)


def bend(y: Array, defaults: GaussianProcessDefaults) -> BentTarget:
    """About the median, straight within a part of the quartiles' distance and bent beyond."""
    first, median, third = np.quantile(y, (0.25, 0.5, 0.75))
    spread = defaults.straight_part * (third - first if third > first else y.std())
    low, high = np.arcsinh((np.array([y.min(), y.max()]) - median) / spread)
    margin = defaults.margin * (high - low)
    return BentTarget(median, spread, low - margin, high + margin)


def with_errors(
    target: BentTarget, error: Array, weight: Array, defaults: GaussianProcessDefaults
) -> BentTarget:
    """The same with the means of exp(r) and exp(-r) over errors r, of which the largest are cut."""
    share = defaults.cut_errors
    r = error.clip(*np.quantile(error, (share, 1 - share)))
    rising, falling = (np.average(np.exp(sign * r), weights=weight) / 2 for sign in (1, -1))
    return replace(target, rising=float(rising), falling=float(falling))


# Likelihood


def search(rows: Rows, defaults: GaussianProcessDefaults, stop: Stop) -> Array:
    """Logarithms of the noise, of the linear part, and of each column's length scale."""
    columns = int(rows.column.max()) + 1
    order = np.random.default_rng(0).permutation(len(rows.y))
    some = rows[np.sort(order[: defaults.max_likelihood_rows])]
    lengths = np.full(columns, np.log(columns) / 2)
    start = np.concatenate([[defaults.log_noise, defaults.log_linear], lengths])
    found = minimize(
        lambda place: negative_log_posterior(place, some, defaults, stop),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[BOUNDS_OF_NOISE, BOUNDS_OF_LINEAR, *[BOUNDS_OF_LENGTH] * columns],
        options={"maxiter": defaults.max_steps},
    )
    result: Array = found.x
    return result


def negative_log_posterior(
    place: Array, rows: Rows, defaults: GaussianProcessDefaults, stop: Stop
) -> tuple[float, Array]:
    """Minus the logarithm of likelihood and prior, up to a constant, and its gradient."""
    if stop.reached:
        raise OutOfTimeError
    value, gradient = _prior(place, defaults)
    z = rows.z / np.exp(place[FIRST_LENGTH:])[rows.column]
    linear, noise = np.exp(place[LINEAR]) * (z @ z.T), np.exp(place[NOISE]) * rows.noise
    smooth, slope = _matern_and_slope(z, z)
    factor = dpotrf(_with_diagonal(smooth + linear, noise + NUGGET), lower=1)[0]
    inverse = _inverse_of(factor)
    solved = inverse @ rows.y
    scale = rows.y @ solved / len(z)
    value += len(z) / 2 * np.log(scale) + np.log(np.diag(factor)).sum()
    inner = inverse - np.outer(solved, solved) / scale  # twice the derivative by the matrix
    gradient[NOISE] += np.diag(inner) @ noise / 2
    gradient[LINEAR] += (inner * linear).sum() / 2
    by_feature = 1.5 * _weighted_squares(inner * slope, z)
    by_feature -= np.exp(place[LINEAR]) * (z * (inner @ z)).sum(0)
    gradient[FIRST_LENGTH:] += np.bincount(rows.column, by_feature)
    return value, gradient


def _prior(place: Array, defaults: GaussianProcessDefaults) -> tuple[float, Array]:
    """Half of the squared distances, in standard deviations, from what is usual."""
    lengths = place[FIRST_LENGTH:]
    apart = (lengths - lengths.mean()) / defaults.length_deviation
    middle = (lengths.mean() - np.log(len(lengths)) / 2) / defaults.mean_length_deviation
    usual = np.array([defaults.log_noise, defaults.log_linear])
    others = (place[:FIRST_LENGTH] - usual) / defaults.noise_deviation
    gradient = np.concatenate(
        [
            others / defaults.noise_deviation,
            apart / defaults.length_deviation
            + middle / defaults.mean_length_deviation / len(lengths),
        ]
    )
    return (np.square(apart).sum() + middle**2 + np.square(others).sum()) / 2, gradient


def _matern_and_slope(a: Array, b: Array) -> tuple[Array, Array]:
    """The kernel, and exp(-sqrt(3) r), of which its derivatives are multiples."""
    squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
    r = SQRT_3 * np.sqrt(np.maximum(squares, 0.0))
    slope = np.exp(-r)
    return (1 + r) * slope, slope


def _weighted_squares(weights: Array, z: Array) -> Array:
    """For each feature the sum over pairs of rows of weights times squared differences."""
    found: Array = 2 * np.square(z).T @ weights.sum(1) - 2 * (z * (weights @ z)).sum(0)
    return found


# Predictions


def kernel(place: Array, column: Indices, a: Array, b: Array) -> Array:
    """The whole kernel between standardized features a (n, d) and b (m, d)."""
    scale = np.exp(place[FIRST_LENGTH:])[column]
    a, b = a / scale, b / scale
    found: Array = _matern_and_slope(a, b)[0] + np.exp(place[LINEAR]) * (a @ b.T)
    return found


def solve(rows: Rows, place: Array, stop: Stop) -> Array:
    """The inverse (n, n) of the covariance of all rows."""
    if stop.reached:
        raise OutOfTimeError
    noise = np.exp(place[NOISE]) * rows.noise + NUGGET
    covariance = _with_diagonal(kernel(place, rows.column, rows.z, rows.z), noise)
    return _inverse_of(dpotrf(covariance, lower=1, overwrite_a=1)[0])


def _held_out(
    rows: Rows,
    place: Array,
    inverse: Array,
    folds: Folds,
    defaults: GaussianProcessDefaults,
    stop: Stop,
) -> Array:
    """Standardized predictions for the judges of each fold, from the rows of the others.

    Length scales of a few rows would know the fold's rows as well, and are searched for anew.
    """
    if folds.training is None and len(rows.y) > defaults.max_rows_to_search_again:
        solved = inverse @ rows.y
        parts = [_left_out(rows.y, inverse, solved, part.numpy()) for part in folds.parts]
        return np.concatenate([part[: folds.max_judges] for part in parts])
    found = []
    for fold, judges in enumerate(folds.judges):
        learnt, new = rows[folds.rows_for(fold).numpy()], rows.z[judges.numpy()]
        own = search(learnt, defaults, stop)
        weights = solve(learnt, own, stop) @ learnt.y
        found.append(kernel(own, rows.column, new, learnt.z) @ weights)
    return np.concatenate(found)


def _left_out(y: Array, inverse: Array, solved: Array, part: Indices) -> Array:
    """What all other rows predict for some: y - (inverse of their block)^-1 (inverse y)."""
    found: Array = y[part] - np.linalg.solve(inverse[np.ix_(part, part)], solved[part])
    return found


def _with_diagonal(matrix: Array, diagonal: Array) -> Array:
    matrix[np.diag_indices(len(matrix))] += diagonal
    return matrix


def _inverse_of(factor: Array) -> Array:
    """The inverse of a matrix, by its lower Cholesky factor."""
    lower = np.tril(dpotri(factor, lower=1)[0])
    found: Array = lower + np.tril(lower, -1).T
    return found
