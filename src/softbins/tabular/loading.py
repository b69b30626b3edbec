"""`softbins.load`: a model file back to the estimator that wrote it, of any kind."""

from __future__ import annotations

import os

from softbins.tabular.histogram_regressor import HistogramRegressor
from softbins.tabular.neural_regressor import NeuralRegressor
from softbins.tabular.persistence import read_model


def load(path: str | os.PathLike[str]) -> NeuralRegressor | HistogramRegressor:
    """Read an estimator that its `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    NeuralRegressor or HistogramRegressor
        The fitted estimator, which predicts as it did when it was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, or holds no model.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import softbins
    >>> X, y = np.arange(20.0).reshape(-1, 1), np.arange(20.0)
    >>> model = softbins.NeuralRegressor("l2", (8,), max_epochs=2).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "small.model"))
    ...     again = softbins.load(os.path.join(folder, "small.model"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    regressor: NeuralRegressor | HistogramRegressor
    regressor = read_model(path, (NeuralRegressor, HistogramRegressor))
    return regressor
