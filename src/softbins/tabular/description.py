"""A fitted estimator described by plain values, for pages and for the command line."""

from __future__ import annotations

from typing import Any

from softbins.tabular.model_facts import describe
from softbins.tabular.persistence import contents_of


def description(model: Any) -> dict[str, Any]:
    """Describe a fitted estimator: its objective, bins, columns, networks and calibration.

    Parameters
    ----------
    model : HistogramRegressor or NeuralRegressor
        A fitted estimator.

    Returns
    -------
    dict
        The same keys for every model, with None for what a model does not have: ``objective``;
        ``bins`` (count, low and high end) and ``bias_of_bins`` (how far they may move a mean);
        the number of ``features``, their ``names`` and ``kinds``; the sizes of ``hidden`` layers
        and the number of networks, ``members``; and what held-out rows decided, ``share_of_trees``
        and ``share_of_gaussian_process`` in the mean, and the number of ``calibration_rows``.

    Examples
    --------
    >>> from softbins import NeuralRegressor
    >>> from softbins.evaluation import description
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> model = NeuralRegressor("l2", hidden=(8, 4), max_epochs=2).fit(X, y)
    >>> about = description(model)
    >>> about["objective"], about["hidden"], about["members"], about["bins"]
    ('l2', [8, 4], 1, None)
    """
    return describe(contents_of(model))


def aggregator_of(model: Any) -> Any:
    """What a HistogramRegressor learnt from held-out rows; None for a model that held out none."""
    return getattr(model, "aggregator_", None)
