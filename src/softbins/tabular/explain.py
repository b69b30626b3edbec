"""What drives single predictions: Shapley values of a table's columns, by the library shap.

The value of a column is what it adds to a prediction when it becomes known, averaged over the
orders in which columns may become known; a column that is not known has the values of the
background rows in turn. shap draws orders, each taken forward and backward, which is exact where no
more than two columns act together, and calls the model with whole batches of rows.

shap wants numbers. A cell is given to it as the number of the first row that is the same in its
column, and each column is encoded once. Columns stay what they are for the user: text is one
column, not one for each category.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from softbins._core.checks import checked_level
from softbins._core.extras import optional_import
from softbins.tabular.encoded_model import (
    columns_of_features,
    mixed_features,
    model_of_features,
)
from softbins.tabular.explanation import Explanation
from softbins.tabular.frames import as_frame
from softbins.tabular.validation import dense, prediction_data

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

MAX_BACKGROUND_ROWS = 100


class ExplainsPredictions:
    """A mixin for estimators: the method `explain`."""

    def explain(
        self,
        X: Any,
        background: Any = None,
        *,
        coverage: float = 0.9,
        orders: int = 2,
        random_state: Any = 0,
    ) -> Explanation:
        """Explain predictions: what each column adds to the mean and to the interval's width.

        Contributions are Shapley values, by the library shap: ``pip install "softbins[explain]"``.
        They and what is predicted on average over the background add up to the prediction.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The rows to explain, with the columns that `fit` had.
        background : array or data frame of shape (n_rows, n_features), optional
            Rows to compare with, such as those of training, of which 100 are drawn if there are
            more. By default those of X.
        coverage : float, default=0.9
            Probability of the interval whose width is explained.
        orders : int, default=2
            In how many random orders, each forward and backward, columns become known. One is
            exact where no more than two columns act together; time grows with it.
        random_state : int, RandomState instance or None, default=0
            A number gives the same explanation again.

        Returns
        -------
        Explanation
            The contributions, as arrays, as a frame, as text or as a picture.
        """
        check_is_fitted(self)
        return _explanation(self, X, background, coverage, orders, random_state)


def _explanation(
    model: Any, X: Any, background: Any, coverage: float, orders: int, random_state: Any
) -> Explanation:
    """What `ExplainsPredictions.explain` promises, of a fitted model."""
    checked_level("coverage", coverage)
    if not (isinstance(orders, int) and orders >= 1):
        raise ValueError(f"orders: need a whole number of at least 1, got {orders!r}")
    random = check_random_state(random_state)
    encoded = prediction_data(model, X, model.columns_)
    given = encoded if background is None else prediction_data(model, background, model.columns_)
    against = _sample(given, random)
    predict = _mean_and_width if model.objective_.has_distribution else _mean_alone
    answer, seed = (
        partial(predict, model_of_features(model), coverage),
        int(random.randint(2**31 - 1)),
    )
    # Row by row, so that an explanation does not depend on what else is explained; and because
    # shap, of several rows, computes for all but the first what nobody has asked for.
    parts = [
        _shapley_values(model, np.concatenate([row[None], against]), answer, orders, seed)
        for row in encoded
    ]
    mean, *width = np.moveaxis(np.concatenate([values for values, _ in parts]), -1, 0)
    base_mean, *base_width = parts[0][1].tolist()
    return Explanation(
        columns=model.columns_.names or [f"x{i}" for i in range(len(model.columns_.kinds))],
        values=_values(X, model.columns_.kinds),
        coverage=coverage,
        base_mean=base_mean,
        mean=mean,
        base_width=base_width[0] if base_width else None,
        width=width[0] if width else None,
    )


def _values(X: Any, kinds: Sequence[str]) -> NDArray[Any]:
    """The cells (n, d) as the user knows them: true and false may have been read as numbers."""
    frame = as_frame(X)
    if frame is None:
        values = np.array(dense(X), dtype=object)
    else:
        lists = [frame[:, index].to_list() for index in range(len(kinds))]
        values = np.array(lists, dtype=object).T
    for column in [i for i, kind in enumerate(kinds) if kind == "boolean"]:
        words = {0.0: False, 1.0: True}
        values[:, column] = [words.get(value, value) for value in values[:, column]]
    return values


def _sample(background: Array, random: np.random.RandomState) -> Array:
    rows = len(background)
    if rows < 2:
        raise ValueError(
            f"background: need at least 2 rows to compare with, got {rows}; give others, such as "
            "some of those that the model was trained on"
        )
    return background[np.sort(random.permutation(rows)[:MAX_BACKGROUND_ROWS])]


def _mean_alone(model: Any, coverage: float, X: Any) -> Array:
    predicted: Array = model.predict(X)
    return predicted[:, None]


def _mean_and_width(model: Any, coverage: float, X: Any) -> Array:
    mean, low, high = model._mean_and_interval(X, coverage).T
    return np.stack([mean, high - low], axis=1)


def _shapley_values(
    model: Any, encoded: Array, predict: Callable[[Any], Array], orders: int, seed: int
) -> tuple[Array, Array]:
    """Contributions (1, columns, outputs), and what is predicted on average (outputs,).

    `encoded` are the features of the row, and below them those of the background.
    """
    shap, sources = _shap(), columns_of_features(model)
    codes = _codes(encoded, sources, len(model.columns_.kinds))

    def predict_codes(cells: Array) -> Array:
        # Where columns have few values, and where all or none are known, rows come many times.
        different, places = np.unique(cells.astype(np.int64), axis=0, return_inverse=True)
        return predict(mixed_features(encoded, sources, different))[places.reshape(-1)]

    masker = shap.maskers.Independent(codes[1:], max_samples=len(codes))
    with _same_random_numbers_afterwards():
        explainer = shap.explainers.Permutation(predict_codes, masker, seed=seed)
        found = explainer(codes[:1], max_evals=orders * (2 * codes.shape[1] + 1), silent=True)
    # shap leaves out the dimension of the outputs if there is only one.
    return found.values.reshape(*codes[:1].shape, -1), found.base_values.reshape(-1)


def _shap() -> Any:
    """The library, without its remarks on others that it imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optional_import("shap", "explain")


def _codes(encoded: Array, sources: Codes, columns: int) -> Codes:
    """For each cell, the first row that is the same in its column, to the model."""
    codes = np.zeros((len(encoded), columns), np.int64)
    for column in np.unique(sources):
        features = encoded[:, sources == column]
        _, first, place = np.unique(features, axis=0, return_index=True, return_inverse=True)
        codes[:, column] = first[place.reshape(-1)]
    return codes


@contextmanager
def _same_random_numbers_afterwards() -> Iterator[None]:
    """Give NumPy's generator back as it was, which shap seeds for everyone."""
    state = np.random.get_state()
    try:
        yield
    finally:
        np.random.set_state(state)
