"""The class of scorers for scikit-learn, which `scores` fills with its scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softbins._core.wrapped import unwrap
from softbins.histogram import Histogram


@dataclass(frozen=True, repr=False)
class DistributionScorer:
    """A scorer of what an estimator's `predict_distribution` gives, for scikit-learn.

    Pass one as `scoring` to `GridSearchCV` or `cross_val_score`, also for pipelines and searches
    that end in an estimator with `predict_distribution`. Ready ones are `softbins.scores.neg_crps`
    and `neg_nll`; `neg_pinball` and `neg_interval_score` make others.

    Parameters
    ----------
    name : str
        How the scorer is shown.
    score : callable
        `score(distribution, y, *arguments, sample_weight=None)` returns a float of which smaller
        is better.
    arguments : tuple
        Further arguments of the score.

    Examples
    --------
    >>> from softbins.scores import DistributionScorer, crps
    >>> DistributionScorer("neg_crps", crps)
    neg_crps
    """

    name: str
    score: Callable[..., float]
    arguments: tuple[Any, ...] = ()

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score with its sign turned, so that larger is better."""
        distribution = _predicted(estimator, X)
        return -self.score(distribution, y, *self.arguments, sample_weight=sample_weight)

    def __repr__(self) -> str:
        return self.name + (f"({self.arguments[0]!r})" if self.arguments else "")


def _predicted(estimator: Any, X: Any) -> Histogram:
    """The predicted distributions, also of an estimator inside a pipeline or a search."""
    inside = unwrap(estimator, X)
    if not inside.inverses:
        estimator, X = inside.estimator, inside.X
    if not hasattr(estimator, "predict_distribution") or _predicts_numbers(estimator):
        objective = getattr(estimator, "objective", None)
        which = type(estimator).__name__ + (f"({objective!r})" if objective else "")
        raise ValueError(
            f"estimator: {which} predicts numbers, no distributions; use "
            "HistogramRegressor or NeuralRegressor with objective 'hl-gaussian', 'hl-uniform', "
            "'hl-onebin' or 'mdn', or a scoring of numbers, such as 'neg_mean_absolute_error'"
        )
    distribution: Histogram = estimator.predict_distribution(X)
    return distribution


def _predicts_numbers(estimator: Any) -> bool:
    objective = getattr(estimator, "objective_", None)
    return not getattr(objective, "has_distribution", True)
