"""What a model has to beat: a constant, and a linear regression.

A fitted model does not keep the rows that it was trained on, so both are taken from the rows that
judge it. The constant is the mean of their targets, which is the best constant there is for them.
The linear regression is cross-validated: each fifth of the rows is predicted from the others. It
knows the kind of rows that it is judged by, but usually has fewer of them than the model had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

Array = NDArray[np.float64]

FOLDS = 5
MIN_ROWS_FOR_LINEAR = 30
# More rows change a linear regression little, and take long where there are many columns.
MAX_ROWS_TO_FIT_LINEAR = 5_000
PENALTIES = tuple(10.0**power for power in range(-3, 7))


def linear_regression() -> Pipeline:
    """A linear regression with a penalty that it chooses, so that many columns do no harm."""
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))


def constant_prediction(y: Array) -> Array:
    """The mean of the targets, for every row."""
    return np.full(len(y), y.mean())


def linear_prediction(features: Array, y: Array) -> Array | None:
    """Each row of features (n, d) predicted by a linear regression on other rows.

    None if there are too few rows.
    """
    if len(y) < MIN_ROWS_FOR_LINEAR:
        return None
    predicted = np.empty(len(y))
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(features):
        some = np.random.default_rng(0).permutation(train)[:MAX_ROWS_TO_FIT_LINEAR]
        predicted[test] = linear_regression().fit(features[some], y[some]).predict(features[test])
    return predicted
