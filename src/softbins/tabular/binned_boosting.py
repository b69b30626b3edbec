"""scikit-learn's boosted trees, on a table that is in bins already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from softbins.tabular.tree_bins import Codes, TreeBins


class BinnedBoosting(HistGradientBoostingRegressor):
    """Boosted trees that grow on numbers of bins (n, d), one byte each.

    `bins` are the bins of the features, which the trees' thresholds are taken from. Two private
    methods of scikit-learn are replaced; tests/tabular/test_tree_bins.py says if they have changed.
    """

    bins: TreeBins

    def _preprocess_X(self, X: Codes, *, reset: bool) -> Any:  # noqa: N802 - scikit-learn's
        """Take the table as it is."""
        self.is_categorical_ = self._preprocessor = self._is_categorical_remapped = None
        self.n_features_in_ = X.shape[1]
        return X, None

    def _bin_data(self, X: Codes, *arguments: Any, **options: Any) -> Codes:
        self._bin_mapper = self.bins
        return X

    def staged_codes(self, codes: Codes) -> NDArray[np.float64]:
        """Predictions (rounds, n) after each round, for rows (n, d) of numbers of bins."""
        missing = self.bins.missing_values_bin_idx_
        steps = [stage[0].predict_binned(codes, missing, 1) for stage in self._predictors]
        start = float(np.ravel(self._baseline_prediction)[0])
        predicted: NDArray[np.float64] = start + np.cumsum(steps, axis=0)
        return predicted
