"""Intervals and quantiles through scikit-learn's pipelines, searches and transformed targets.

scikit-learn's `Pipeline` and `TransformedTargetRegressor` have `predict` alone. Where a pipeline
only transforms features, `pipe[-1].predict_interval(pipe[:-1].transform(X))` is all it takes. A
transformed target needs more: a quantile goes through a function that increases, the ends of an
interval change places if it decreases, and nothing can be said if it does both. A mean goes through
no function but a straight line; `predict` of scikit-learn sends it through all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softbins._core.checks import Array
from softbins._core.wrapped import Unwrapped, unwrap

__all__ = ["predict_interval", "predict_quantiles"]

# Places between the lowest and the highest prediction at which a function is looked at.
PLACES = 257


def predict_interval(estimator: Any, X: Any, coverage: float = 0.9, **options: Any) -> Array:
    """Predict an interval for each row, whatever is wrapped around the estimator.

    Parameters
    ----------
    estimator : Pipeline, TransformedTargetRegressor, search or regressor
        Fitted, with a `HistogramRegressor` or another estimator with `predict_interval` inside.
    X : array or data frame of shape (n_samples, n_features)
        Features, as `estimator` takes them.
    coverage : float, default=0.9
        Probability that the target lies in the interval, between 0 and 1.
    **options : dict
        Further arguments of the `predict_interval` inside.

    Returns
    -------
    array of shape (n_samples, 2)
        Low and high ends, in the unit of the target that `estimator` was fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from softbins import NeuralRegressor, pipelines
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> inside = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2, random_state=0)
    >>> model = TransformedTargetRegressor(inside, func=np.log, inverse_func=np.exp)
    >>> low, high = pipelines.predict_interval(model.fit(x, np.exp(x[:, 0])), x).T
    >>> bool((0 < low).all() and (low < high).all())
    True
    """
    inside = unwrap(estimator, X)
    ends = _method(inside, "predict_interval")(inside.X, coverage, **options)
    ends = np.asarray(ends, dtype=np.float64)
    mapped = _through(inside, ends)
    return mapped[:, ::-1] if _decreases(inside, ends) else mapped


def predict_quantiles(
    estimator: Any, X: Any, q: float | Sequence[float] = (0.1, 0.5, 0.9)
) -> Array:
    """Predict quantiles for each row, whatever is wrapped around the estimator.

    Parameters
    ----------
    estimator : Pipeline, TransformedTargetRegressor, search or regressor
        Fitted, with a `HistogramRegressor` or another estimator with `predict_quantiles` inside.
    X : array or data frame of shape (n_samples, n_features)
        Features, as `estimator` takes them.
    q : float or sequence of floats, default=(0.1, 0.5, 0.9)
        Levels between 0 and 1.

    Returns
    -------
    array of shape (n_samples, n_levels)
        One column for each level, in the unit of the target that `estimator` was fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from softbins import NeuralRegressor, pipelines
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2, random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), model).fit(x, x[:, 0])
    >>> pipelines.predict_quantiles(pipe, x[:5], [0.25, 0.75]).shape
    (5, 2)
    """
    inside = unwrap(estimator, X)
    predict, levels = _method(inside, "predict_quantiles"), np.atleast_1d(np.asarray(q, float))
    found = np.asarray(predict(inside.X, levels.tolist()), dtype=np.float64)
    if _decreases(inside, found):
        # The share of targets below is the share of transformed targets above.
        found = np.asarray(predict(inside.X, (1 - levels).tolist()), dtype=np.float64)
    return _through(inside, found)


def _method(inside: Unwrapped, name: str) -> Any:
    if not hasattr(inside.estimator, name):
        which = type(inside.estimator).__name__
        raise ValueError(
            f"estimator: {which} inside has no {name}; use HistogramRegressor or NeuralRegressor"
        )
    return getattr(inside.estimator, name)


def _through(inside: Unwrapped, values: Array) -> Array:
    """Predictions of any shape in the unit of the target outside."""
    column = values.reshape(-1, 1)
    for inverse in inside.inverses:
        column = np.asarray(inverse(column), dtype=np.float64).reshape(-1, 1)
    if np.isnan(column).any():
        first = float(values.reshape(-1)[np.isnan(column[:, 0])][0])
        raise ValueError(
            f"estimator: the inverse of the target's transform gives NaN for {first:g}; give "
            "one that is defined wherever predictions may lie, such as by clipping them first"
        )
    return column.reshape(values.shape)


def _decreases(inside: Unwrapped, values: Array) -> bool:
    """Whether the way to the target's unit turns around the order of values like these."""
    if not inside.inverses:
        return False
    places = np.linspace(values.min(), values.max(), PLACES)
    steps = np.diff(_through(inside, places))
    steps = steps[np.isfinite(steps)]
    # Rounding goes either way.
    least = 1e-9 * np.abs(steps).max(initial=0.0)
    if (steps < -least).any() and (steps > least).any():
        raise ValueError(
            "estimator: the inverse of the target's transform both increases and decreases between "
            f"{places[0]:g} and {places[-1]:g}, so that no quantile goes through it; clip what it "
            "takes to where it does not"
        )
    return bool((steps < -least).any())
