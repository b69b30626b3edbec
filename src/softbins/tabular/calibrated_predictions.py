"""What a fitted `HistogramRegressor` predicts: members and their partners, made one and honest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins._core.checks import numeric_column, require_number
from softbins.histogram import Histogram
from softbins.nn.embedded import EmbeddedMLP
from softbins.tabular.aggregate import Aggregator, Outputs
from softbins.tabular.device import one_thread
from softbins.tabular.forest import Forest
from softbins.tabular.gaussian_process import GaussianProcess
from softbins.tabular.predictions import Array, PredictsDistributions


class PredictsCalibrated(PredictsDistributions):
    """A mixin for an estimator of members, perhaps with partners, and what calibrates them."""

    network_: EmbeddedMLP
    aggregator_: Aggregator | None
    forest_: Forest | None
    gaussian_process_: GaussianProcess | None

    def recalibrate(self, X: Any, y: Any, half_life: float | None = None) -> Self:
        """Calibrate the predicted distributions anew by recent rows, without training.

        The rows are those that came after the fit, in their order. Networks, trees and means stay
        as they are. Call it as often as rows come in: every row counts once.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        y : array of shape (n_samples,)
            The true targets.
        half_life : float, optional
            Rows after which an older row counts half as much. None forgets nothing.

        Returns
        -------
        Self
            The same estimator with new calibration. If anything fails, it stays as it was.
        """
        check_is_fitted(self)
        if self.aggregator_ is None:
            raise ValueError("recalibrate: the model was fitted without rows left out to calibrate")
        target = torch.from_numpy(numeric_column("y", y))
        if half_life is not None:
            half_life = require_number("half_life", half_life)
        with one_thread():
            outputs = list(self._small_outputs(X))
            found = sum(part.members.shape[1] for part in outputs)
            if found != len(target):
                raise ValueError(f"y: need a target for each of {found} rows, got {len(target)}")
            self.aggregator_ = self.aggregator_.recalibrated(outputs, target, half_life)
        return self

    def _means(self, X: Any) -> Iterator[Tensor]:
        for outputs in self._outputs(X, for_means=True):
            if self.aggregator_ is None:
                yield outputs.mean(self.objective_)
            else:
                yield self.aggregator_.mean(outputs)

    def _distributions(self, X: Any, calibrated: bool = True) -> Iterator[Histogram]:
        check_is_fitted(self)
        if self.aggregator_ is None:
            return (outputs.mixture(self.objective_) for outputs in self._outputs(X))
        predict = partial(self.aggregator_.distribution, is_calibrated=calibrated)
        return map(predict, self._small_outputs(X))

    def _mean_and_interval(self, X: Any, coverage: float) -> Array:
        check_is_fitted(self)
        if self.aggregator_ is None:
            return super()._mean_and_interval(X, coverage)
        predict = partial(self.aggregator_.mean_and_interval, coverage=coverage)
        return self._collect(X, lambda rows: map(predict, self._small_outputs(rows)))

    def _outputs(self, X: Any, for_means: bool = False) -> Iterator[Outputs]:
        """What members and partners say, in chunks of rows; for means not all of it is needed."""
        features = self._features(X)
        count = self.objective_.mean_outputs if for_means else self.network_.outputs
        trees = None if self.forest_ is None else self.forest_.predict(features)
        for rows in self._chunks(features):
            members = self._apply(partial(self.network_.first_outputs, count=count), features[rows])
            partners: dict[str, Array | Tensor] = {} if trees is None else {"trees": trees[rows]}
            if self.gaussian_process_ is not None:
                scaled = self.scaling_(features[rows])
                partners["gaussian_process"] = self.gaussian_process_(scaled)
            yield Outputs(members, partners)

    def _small_outputs(self, X: Any) -> Iterator[Outputs]:
        """The same in chunks that are small enough for distributions."""
        assert self.aggregator_ is not None
        for outputs in self._outputs(X):
            yield from self.aggregator_.chunks(outputs)
