"""Everything that a fitted estimator says of rows, computed for a chunk of them at a time.

All of it is read off the outputs of the networks, which `_outputs` yields. Whatever the number of
jobs, rows are in the same chunks, so that predictions are the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins._core.checks import as_floats
from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.nn.stack import StackedMLP
from softbins.tabular import validation
from softbins.tabular.aggregate import Outputs
from softbins.tabular.columns import Columns
from softbins.tabular.device import one_thread
from softbins.tabular.frame_output import frame_like, summary_columns
from softbins.tabular.jobs import run_in_threads, threads_for
from softbins.tabular.scaling import Scaling

Array = NDArray[np.float64]
Output = Literal["mean", "median", "mode"]

# Rows that go through the networks at a time, of which everything stays in the cache.
PREDICTION_CHUNK = 512
# Products of matrices go through rows in blocks, and add up in another order for a part of a block.
# Only with whole ones does a float32 prediction not depend on the rest of its batch.
ROWS_OF_A_BLOCK = 16


Part = TypeVar("Part")
# From rows to what is predicted for them, a chunk of rows at a time.
Parts = Callable[[Any], Iterator[Part]]


@dataclass(frozen=True)
class EncodedRows:
    """Features that are encoded already, in the place of a table."""

    features: Array


class PredictsDistributions:
    """A mixin for estimators: what they predict, once they are fitted."""

    _chunk_size = PREDICTION_CHUNK
    n_jobs: int | None
    objective_: Objective
    network_: StackedMLP
    scaling_: Scaling
    columns_: Columns

    def predict(self, X: Any, output: Output = "mean") -> Array:
        """Predict one number for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        output : {"mean", "median", "mode"}, default="mean"
            Which number of the predicted distribution.

        Returns
        -------
        array of shape (n_samples,)
            The predictions.
        """
        if output == "mean":
            return self._collect(X, self._means)
        if output not in ("median", "mode"):
            raise ValueError(f"output: expected 'mean', 'median' or 'mode', got {output!r}")
        return self._collect(X, self._of_distributions(attrgetter(output)))

    def predict_distribution(self, X: Any, calibrated: bool = True) -> Histogram:
        """Predict a distribution for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        calibrated : bool, default=True
            Whether the distribution is the one that rows left out of training have made honest,
            from which all other predictions come. If not, or where no rows were left out, it is
            what the networks say, moved to the predicted mean.

        Returns
        -------
        Histogram
            With the batch shape (n_samples,). It takes up to 16 kB for each row: for millions of
            rows ask for what you need of it instead (`predict_interval`, `predict_quantiles`,
            `predict_cdf`), or for some rows at a time.
        """
        predict = partial(self._distributions, calibrated=calibrated)
        parts = [part for block in self._in_blocks(X, predict) for part in block]
        with one_thread():
            return Histogram(parts[0].bins, logits=torch.cat([part.logits for part in parts]))

    def predict_quantiles(self, X: Any, q: float | Sequence[float] = (0.1, 0.5, 0.9)) -> Array:
        """Predict quantiles for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        q : float or sequence of floats, default=(0.1, 0.5, 0.9)
            Levels between 0 and 1.

        Returns
        -------
        array of shape (n_samples, n_levels)
            One column for each level.
        """
        levels = np.atleast_1d(as_floats("q", q)).tolist()
        return self._collect(X, self._of_distributions(lambda part: part.quantile(levels)))

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        kind: Literal["central", "shortest"] = "central",
        calibrated: bool = True,
    ) -> Array:
        """Predict an interval for each row, with that probability in the distribution.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        coverage : float, default=0.9
            Probability that the target lies in the interval, between 0 and 1.
        kind : {"central", "shortest"}, default="central"
            "central" leaves as much probability on either side, and ends at two of the
            `predict_quantiles`; "shortest" is narrower where distributions are skewed.
        calibrated : bool, default=True
            Whether the distribution is the calibrated one; see `predict_distribution`.

        Returns
        -------
        array of shape (n_samples, 2)
            Low and high ends.
        """

        def ends(part: Histogram) -> Tensor:
            return torch.stack(part.interval(coverage, kind), -1)

        return self._collect(X, self._of_distributions(ends, calibrated))

    def predict_cdf(self, X: Any, y: ArrayLike) -> Array:
        """Predict the probability of at most each of some values, for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        y : array of shape (n_values,)
            Values of the target.

        Returns
        -------
        array of shape (n_samples, n_values)
            One column for each value.
        """
        values = torch.from_numpy(np.atleast_1d(as_floats("y", y)))
        return self._collect(X, self._of_distributions(lambda p: p.cdf(values.unsqueeze(-1)).T))

    def predict_frame(self, X: Any, coverage: float = 0.9, quantiles: Sequence[float] = ()) -> Any:
        """Predict a table: the mean, the median and an interval for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        coverage : float, default=0.9
            Probability that the target lies in the interval, between 0 and 1.
        quantiles : sequence of floats, default=()
            Levels of further columns, such as `quantile_0.1`.

        Returns
        -------
        DataFrame
            The columns `mean`, `median`, `low`, `high` and those of the quantiles, with the index
            of X, and of the same library; of pandas if X is no frame. A model that predicts
            numbers, such as one with objective "l2", has the mean only.
        """
        check_is_fitted(self)
        return frame_like(X, summary_columns(self, X, coverage, quantiles))

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw random targets from the predicted distribution of each row.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            Features, with the columns that `fit` had.
        n_samples : int, default=1
            How many to draw for each row.
        random_state : int, RandomState instance or None, default=None
            A number gives the same samples again.

        Returns
        -------
        array of shape (n_rows, n_samples)
            One column for each draw.
        """
        predicted = self.predict_distribution(X)
        levels = check_random_state(random_state).uniform(
            np.nextafter(0, 1), 1, (n_samples, *predicted.batch_shape)
        )
        with one_thread():
            return as_numpy(predicted.icdf(torch.from_numpy(levels)).T)

    def _mean_and_interval(self, X: Any, coverage: float) -> Array:
        """What `predict` and `predict_interval` say, in columns: mean, low, high."""
        return np.column_stack([self.predict(X), self.predict_interval(X, coverage)])

    def _means(self, X: Any) -> Iterator[Tensor]:
        """Predicted means, a chunk of rows at a time."""
        for outputs in self._outputs(X):
            yield outputs.mean(self.objective_)

    def _distributions(self, X: Any, calibrated: bool = True) -> Iterator[Histogram]:
        """Predicted distributions, a chunk of rows at a time: all at once may fill the memory."""
        for outputs in self._outputs(X):
            yield outputs.mixture(self.objective_)

    def _outputs(self, X: Any) -> Iterator[Outputs]:
        """What the members say, a chunk of rows at a time."""
        features = self._features(X)
        for rows in self._chunks(features):
            yield Outputs(self._apply(self.network_, features[rows]))

    def _features(self, X: Any) -> Array:
        if isinstance(X, EncodedRows):
            return X.features
        check_is_fitted(self)
        return validation.prediction_data(self, X, self.columns_)

    def _chunks(self, features: Array) -> list[slice]:
        """The rows that go through the networks at a time."""
        starts = range(0, len(features), self._chunk_size)
        return [slice(start, start + self._chunk_size) for start in starts]

    @torch.no_grad()
    def _apply(self, network: Callable[[Tensor], Tensor], features: Array) -> Tensor:
        """What a function of scaled features (members, rows, inputs) gives."""
        x = self.scaling_(features).to(self.scaling_.precision)
        whole = F.pad(x, (0, 0, 0, -len(x) % ROWS_OF_A_BLOCK))
        return network(whole.expand(self.network_.members, -1, -1))[:, : len(x)]

    def _of_distributions(
        self, read: Callable[[Histogram], Tensor], calibrated: bool = True
    ) -> Parts[Tensor]:
        """What is read off predicted distributions, a chunk of rows at a time."""
        return lambda X: map(read, self._distributions(X, calibrated))

    def _collect(self, X: Any, parts: Parts[Tensor]) -> Array:
        """All chunks as one array."""
        found = [part for block in self._in_blocks(X, parts) for part in block]
        with one_thread():
            return as_numpy(torch.cat(found))

    def _in_blocks(self, X: Any, parts: Parts[Part]) -> list[list[Part]]:
        """The chunks of rows in as many blocks as there are jobs, which compute in turn.

        Whatever the number of jobs, rows are in the same chunks.
        """
        with one_thread():
            features = self._features(X)
            jobs = 1 if len(features) <= self._chunk_size else threads_for(self.n_jobs)
            if jobs == 1:
                return [list(parts(EncodedRows(features)))]
            chunks = math.ceil(len(features) / self._chunk_size)
            rows = self._chunk_size * math.ceil(chunks / jobs)
            blocks = [EncodedRows(features[i : i + rows]) for i in range(0, len(features), rows)]
            return run_in_threads(lambda block: list(parts(block)), blocks, jobs)


def as_numpy(values: Tensor) -> Array:
    """Float64, as scikit-learn's users expect."""
    return values.double().numpy()
