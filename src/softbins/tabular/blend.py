"""Shares of several learners in one mean, from their errors on held-out rows.

Shares are not negative and add up to 1. With the matrix G of the mean products of errors, a mean
with shares a has the squared error a'Ga, so that few numbers are learnt from many rows. There are
so few learners that every choice of them is tried, which finds the least error exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.defaults import BlendDefaults

Array = NDArray[np.float64]

# Of all squared errors, added to their squares so that equal learners can be solved for.
ROUNDING = 1e-12


def learn_shares(
    errors: Array, weight: Array | None, rows_per_fold: float, defaults: BlendDefaults
) -> Array:
    """The shares (k,) of k learners with errors (n, k) on held-out rows of weights (n,).

    The networks are the first. They were stopped where they err least on the rows of their fold,
    which flatters the more the fewer rows that are: their squared error counts as more than it is.
    Each of the others has to save its part of the error to get a share.
    """
    weights = robust_weights(errors, defaults) * (1.0 if weight is None else weight)
    products = (errors * weights[:, None]).T @ errors / weights.sum()
    products[0, 0] *= 1 + defaults.flattering_rows / rows_per_fold
    return least_error_shares(products, defaults.min_gain)


def robust_weights(errors: Array, defaults: BlendDefaults) -> Array:
    """Weights (n,) by which rows with errors (n, k) count as in Huber's loss.

    A row that all learners predict badly may outweigh all others by its squared error. Where one
    does, errors beyond a limit count as often as they would among absolute errors. It is the
    largest limit with which no row has more than `max_row_share` of all, but no less than
    `max_error` times the median error.
    """
    size = np.sqrt(np.square(errors / max(np.abs(errors).max(), ROUNDING)).mean(1))
    middle = np.median(size)
    if middle == 0:
        return np.ones(len(errors))
    limit = max(_limit_of_errors(size, defaults.max_row_share), defaults.max_error * middle)
    weights: Array = 1 / np.maximum(1.0, size / limit)
    return weights


def _limit_of_errors(size: Array, max_share: float) -> float:
    """The largest of the sizes (n,) of errors that is low enough as a limit, or 0 if none is.

    Up to the limit a row counts size^2, and beyond it limit * size. Low enough is a limit with
    which no row counts more than `max_share` of all.
    """
    limit = np.sort(size)
    beyond = limit.sum() - limit.cumsum()
    total = np.square(limit).cumsum() + limit * beyond
    is_shared = limit * limit[-1] <= max_share * total
    return float(limit[is_shared].max(initial=0.0))


def least_error_shares(products: Array, min_gain: float) -> Array:
    """Shares (k,) with the least error, by the mean products (k, k) of the learners' errors.

    Each learner but the first makes the error count by the share `min_gain` more, so that one that
    hardly helps gets nothing. If no error differs from 0, the first gets all.
    """
    count, total = len(products), np.trace(products)
    best: Array = np.eye(count)[0]
    if total < np.finfo(np.float64).tiny:
        return best
    products = products / total
    least = products[0, 0]
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            shares = _unconstrained(products, chosen)
            partners = size - (0 in chosen)
            error = (1 + min_gain * partners) * (shares @ products @ shares)
            if (shares >= 0).all() and error < least:
                best, least = shares, error
    return best


def _unconstrained(products: Array, chosen: Sequence[int]) -> Array:
    """Shares of some learners that add up to 1 and have the least error, of whatever sign."""
    part = products[np.ix_(chosen, chosen)]
    solved = np.linalg.solve(part + ROUNDING * np.eye(len(part)), np.ones(len(part)))
    shares = np.zeros(len(products))
    shares[list(chosen)] = solved / solved.sum()
    return shares
