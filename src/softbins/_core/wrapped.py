"""The estimator inside of scikit-learn's pipelines, searches and transformed targets.

These have `predict`, and no other method that predicts: what they do to the rows before the
estimator, and to its predictions after it, is repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softbins._core.checks import Array


@dataclass(frozen=True)
class Unwrapped:
    """The estimator inside, the rows as it knows them, and what turns its targets into ours.

    `inverses` are for arrays (n, 1), the first to be applied first.
    """

    estimator: Any
    X: Any
    inverses: tuple[Callable[[Array], Array], ...] = ()


def unwrap(estimator: Any, X: Any) -> Unwrapped:
    """What is inside of a fitted pipeline, search or transformed target, nested in any order."""
    # These take a while to import, and few ask for them.
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline

    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if isinstance(estimator, Pipeline):
        return unwrap(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X)
    if isinstance(estimator, TransformedTargetRegressor):
        if not hasattr(estimator, "regressor_"):
            raise ValueError("estimator: TransformedTargetRegressor is not fitted; call fit first")
        inside = unwrap(estimator.regressor_, X)
        inverses = (*inside.inverses, estimator.transformer_.inverse_transform)
        return Unwrapped(inside.estimator, inside.X, inverses)
    return Unwrapped(estimator, X)
