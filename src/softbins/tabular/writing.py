"""What a fitted estimator can be written to: a model file, an ONNX graph, a page about it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sklearn.utils.validation import check_is_fitted

from softbins._core.files import write_whole
from softbins.tabular import persistence
from softbins.tabular.card import model_card


class WritesFiles:
    """A mixin for estimators."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file without pickle; `softbins.load` reads it.

        Parameters
        ----------
        path : str or path-like
            The file. It is written whole, or left as it was.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        quantiles: float | Sequence[float] | None = (0.1, 0.5, 0.9),
        coverage: float | None = 0.9,
    ) -> None:
        """Write the fitted estimator as an ONNX graph, to be run without Python.

        The graph takes the raw columns, each as an input of shape (n, 1) with the column's name,
        or "column_0" and so on. Text categories are tensor(string), and all other columns
        tensor(double) with NaN for a gap. Outputs are "mean" (n,), "quantiles" (n, levels) and
        "interval" (n, 2), all tensor(double); a name that a column has gets an underscore.
        Needs the extra `softbins[onnx]`.

        Parameters
        ----------
        path : str or path-like
            The file. It is written whole, or left as it was.
        quantiles : float, sequence of float or None, default=(0.1, 0.5, 0.9)
            Levels between 0 and 1, or None for no quantiles.
        coverage : float or None, default=0.9
            Probability that the target lies in the interval, between 0 and 1, or None for no
            interval. It is that of `predict_interval`: calibrated where that is.

        Raises
        ------
        ValueError
            If two columns have one name, or a category is a text of more than 80 bytes.

        Warns
        -----
        UserWarning
            If the objective has no distribution. Only the mean is written then.
        """
        check_is_fitted(self)
        from softbins.tabular.onnx_export.program import write_onnx

        write_onnx(self, path, quantiles, coverage)

    def card(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write a page about the fitted estimator, in Markdown.

        It has what `provenance_` has: what the model learnt from, with the kinds and ranges of
        all columns, and scores on held-out rows; and what the model is made of, its parameters,
        and known limits.

        Parameters
        ----------
        path : str or path-like, optional
            The file to write it to as well, whole or not at all.

        Returns
        -------
        str
            The page.
        """
        check_is_fitted(self)
        text = model_card(persistence.contents_of(self))
        if path is not None:
            write_whole(path, text.encode())
        return text
