"""Means and slopes of categories, shrunken by how much they can be trusted.

What is found of a category has the variance s2 / q by chance, with an information q: its number of
rows for a mean, the sum of squared distances from its mean x for a slope along x. If categories
themselves have the variance t2, the best guess of what is found is q t2 / (q t2 + s2) times it
(empirical Bayes). The sum of q times the squared distances from the weighted mean of k categories
is s2 (k - 1) + t2 (Q - sum of q^2 / Q) on average, with the sum Q of all q: which says what t2 is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Shrunken(NamedTuple):
    """How far categories (count,) lie from their mean, shrunken, and how certain it is.

    `evidence` is how far the sum of squares lies above what chance gives, in standard deviations.
    """

    values: Array
    evidence: float


class Slopes(NamedTuple):
    """The same of slopes; they explain `share` of the variance inside of categories."""

    values: Array
    evidence: float
    share: float


def shrunken_means(codes: Index, y: Array, weight: Array, count: int) -> Array:
    """How far the mean of each category (count,) lies from that of all rows (n,), shrunken.

    A row of category -1 belongs to none.
    """
    known = codes >= 0
    codes, y, weight = codes[known], y[known], weight[known]
    rows = _sums(codes, weight, count)
    freedom = len(y) - int((rows > 0).sum())
    if freedom < 1:
        return np.zeros(count)
    means = _ratio(_sums(codes, weight * y, count), rows)
    inside = (weight * np.square(y - means[codes])).sum() / rows.sum() * len(y) / freedom
    return _shrunken(means, rows, inside).values


def shrunken_slopes(codes: Index, x: Array, y: Array, weight: Array, count: int) -> Slopes:
    """How far the slope of y along x (n,) inside each category lies from that of all, shrunken."""
    known = codes >= 0
    codes, x, y, weight = codes[known], x[known], y[known], weight[known]
    rows = _sums(codes, weight, count)
    x, y = (v - _ratio(_sums(codes, weight * v, count), rows)[codes] for v in (x, y))
    information = _sums(codes, weight * np.square(x), count)
    information[information < ROUNDING * information.max(initial=0.0)] = 0.0
    freedom = len(y) - int((rows > 0).sum()) - int((information > 0).sum())
    if freedom < 1:
        return Slopes(np.zeros(count), 0.0, 0.0)
    slopes = _ratio(_sums(codes, weight * x * y, count), information)
    errors = weight * np.square(y - slopes[codes] * x)
    found = _shrunken(slopes, information, errors.sum() / rows.sum() * len(y) / freedom)
    explained, whole = information @ np.square(found.values), weight @ np.square(y)
    return Slopes(*found, float(explained / whole) if whole > 0 else 0.0)


ROUNDING = 1e-9  # of the largest information, below which there is none


def _shrunken(found: Array, information: Array, inside: float) -> Shrunken:
    """What is found of categories, less its mean and shrunken; `inside` is s2."""
    seen, total = int((information > 0).sum()), information.sum()
    if seen < 2:
        return Shrunken(np.zeros_like(found), 0.0)
    found = np.where(information > 0, found - (information * found).sum() / total, 0.0)
    excess = (information * np.square(found)).sum() - (seen - 1) * inside
    between = max(excess / (total - np.square(information).sum() / total), 0.0)
    certain = information * between
    chance = inside * math.sqrt(2 * (seen - 1))
    evidence = float(excess / chance) if chance > 0 else math.inf * (excess > 0)
    return Shrunken(found * _ratio(certain, certain + inside), evidence)


def _sums(codes: Index, values: Array, count: int) -> Array:
    """The sum of the values of each category (count,)."""
    found: Array = np.bincount(codes, values, count).astype(np.float64)
    return found


def _ratio(a: Array, b: Array) -> Array:
    """Quotients, and 0 where b is."""
    found: Array = a / np.where(b > 0, b, 1.0)
    return np.where(b > 0, found, 0.0)
