"""A fitted model judged by rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from softbins import scores
from softbins._core.checks import checked_level, numeric_column
from softbins._core.text import aligned, level_text, number_text
from softbins.histogram import Histogram
from softbins.report.evaluation_page import evaluation_page
from softbins.report.verdict import Finding, findings
from softbins.tabular.frame_output import quantile_names

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions of a model for some rows beside the targets of these rows.

    `evaluate` makes it. The parameters are its attributes as well.

    Parameters
    ----------
    model : HistogramRegressor or NeuralRegressor
        The fitted estimator that predicted.
    y : ndarray of shape (n,)
        The targets.
    mean : ndarray of shape (n,)
        The predicted means.
    distribution : Histogram or None
        The n predicted distributions; None for a model that predicts numbers only.
    interval : ndarray of shape (n, 2) or None
        The low and high ends of the predicted intervals; None for a model that predicts numbers
        only.
    coverage : float
        The share of targets that the intervals are made for.
    X : array or data frame of shape (n, d), optional
        The rows as the model was given them. Without them, nothing is known about columns.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins import NeuralRegressor
    >>> from softbins.evaluation import evaluate
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, 3 * x[:, 0])
    >>> evaluation = evaluate(model, x, 3 * x[:, 0], coverage=0.8)
    >>> evaluation.mean.shape, evaluation.interval.shape, evaluation.coverage
    ((60,), (60, 2), 0.8)
    >>> print(repr(evaluation).splitlines()[0])
    Evaluation of hl-gaussian on 60 rows
    """

    model: Any
    y: Array
    mean: Array
    distribution: Histogram | None
    interval: Array | None
    coverage: float
    X: Any = None

    @property
    def row_numbers(self) -> list[int]:
        """What the rows are called: their whole numbers in the index of X, or else 0, 1, ...

        Examples
        --------
        >>> import numpy as np
        >>> from softbins.evaluation import Evaluation
        >>> y = np.array([1.0, 2.0])
        >>> Evaluation(None, y, y, distribution=None, interval=None, coverage=0.9).row_numbers
        [0, 1]
        """
        index: Any = getattr(self.X, "index", None)  # of a list it is a method, polars has none
        known = getattr(index, "dtype", None) == np.int64 and index.is_unique
        return list(index.tolist()) if known else list(range(len(self.y)))

    def __repr__(self) -> str:
        of = "" if self.model is None else f" of {self.model.objective}"
        known = {name: value for name, value in self.scores().items() if value is not None}
        rows = [[name.replace("_", " "), number_text(value)] for name, value in known.items()]
        return f"Evaluation{of} on {len(self.y)} rows\n{aligned(rows)}"

    def scores(self) -> dict[str, float | None]:
        """Score the predictions.

        Returns
        -------
        dict
            ``mae``, ``rmse`` and ``r2`` of the means, ``median_mae`` of the medians, ``crps`` and
            ``nll`` of the distributions, and the ``coverage`` and mean ``width`` of the intervals.
            Those of medians, distributions and intervals are None for a model that predicts
            numbers only, and ``r2`` is None where all targets are the same.

        Examples
        --------
        >>> import numpy as np
        >>> from softbins.evaluation import Evaluation
        >>> y, mean = np.array([1.0, 2.0]), np.array([1.0, 4.0])
        >>> numbers = Evaluation(None, y, mean, distribution=None, interval=None, coverage=0.9)
        >>> numbers.scores()["mae"], numbers.scores()["crps"]
        (1.0, None)
        """
        of_numbers: dict[str, float | None] = {
            "mae": float(mean_absolute_error(self.y, self.mean)),
            "median_mae": None,
            "rmse": float(root_mean_squared_error(self.y, self.mean)),
            "r2": float(r2_score(self.y, self.mean)) if np.ptp(self.y) > 0 else None,
            "crps": None,
            "nll": None,
            "coverage": None,
            "width": None,
        }
        if self.distribution is None or self.interval is None:
            return of_numbers
        median, (low, high) = self.distribution.median.numpy(), self.interval.T
        return of_numbers | {
            "median_mae": float(mean_absolute_error(self.y, median)),
            "crps": scores.crps(self.distribution, self.y),
            "nll": scores.nll(self.distribution, self.y),
            "coverage": scores.coverage(self.y, low, high),
            "width": scores.width(low, high),
        }

    def summary(self) -> dict[str, Any]:
        """Say what was judged, and score it.

        Returns
        -------
        dict
            The ``objective`` of the model, the number of ``rows``, the coverage that the
            ``interval`` is made for (None if there is none), and the `scores`.

        Examples
        --------
        >>> import numpy as np
        >>> from softbins import NeuralRegressor
        >>> from softbins.evaluation import evaluate
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> model = NeuralRegressor("l2", hidden=(8,), max_epochs=2).fit(x, 3 * x[:, 0])
        >>> summary = evaluate(model, x, 3 * x[:, 0]).summary()
        >>> summary["objective"], summary["rows"], summary["interval"]
        ('l2', 60, None)
        """
        interval = None if self.interval is None else self.coverage
        judged = {"objective": self.model.objective, "rows": len(self.y), "interval": interval}
        return judged | self.scores()

    def remarks(self) -> list[str]:
        """Say what a reader of the scores should know.

        Returns
        -------
        list of str
            Whole sentences: that the model predicts numbers only, or how many targets lie where
            the likelihood is zero, outside the bins or in them. Empty if there is nothing to say.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from softbins import Bins, Histogram
        >>> from softbins.evaluation import Evaluation
        >>> two = Histogram(Bins.uniform(0, 1, 4), probs=torch.full((2, 4), 0.25))
        >>> y, mean, interval = np.array([0.5, 3.0]), np.full(2, 0.5), np.array([[0.0, 1.0]] * 2)
        >>> Evaluation(None, y, mean, distribution=two, interval=interval, coverage=0.9).remarks()
        ['1 of 2 targets lie outside the bins, [0, 1], where the density is zero.']
        """
        if self.distribution is None:
            return [
                f"The model ({self.model.objective}) predicts numbers, no distributions: only MAE, "
                "RMSE and R² are known, and nothing of densities, intervals or calibration."
            ]
        bins = self.distribution.bins
        outside = (self.y < bins.low) | (self.y > bins.high)
        impossible = np.isneginf(self.distribution.log_prob(torch.from_numpy(self.y)).numpy())
        ends = f"[{bins.low:g}, {bins.high:g}]"
        places = [
            (outside, f"outside the bins, {ends}, where the density is zero"),
            (impossible & ~outside, "in bins to which their distributions give no probability"),
        ]
        counts = [(int(rows.sum()), where) for rows, where in places]
        return [f"{n} of {len(self.y)} targets lie {where}." for n, where in counts if n]

    def verdict(self) -> list[Finding]:
        """Judge the model in words.

        Every answer takes into account what chance alone may do to so many rows. The constant is
        the mean of these targets, the linear regression is cross-validated on these rows.

        Returns
        -------
        list of Finding
            Whether the model is better than a constant and than a linear regression, whether its
            intervals are honest, and whether its error is like that in training, as far as that
            can be asked.

        Examples
        --------
        >>> import numpy as np
        >>> from softbins.evaluation import Evaluation
        >>> y = np.arange(100.0)
        >>> interval = np.column_stack([y - 1, np.where(y < 68, y + 1, y - 0.5)])
        >>> judged = Evaluation(None, y, y, distribution=None, interval=interval, coverage=0.9)
        >>> [(found.question, found.level) for found in judged.verdict()]
        [('constant', 'good'), ('intervals', 'bad')]
        """
        return findings(self)

    def page(
        self, model_name: str = "a model", data_name: str = "a table", quick: bool = False
    ) -> str:
        """Write the verdict, the scores, figures and how the model was trained as one HTML page.

        It shows predictions beside targets, where the errors are, which columns matter and how,
        and how honest the distributions are. The page needs no other file and requests nothing;
        the same evaluation gives the same page. Needs ``pip install "softbins[plots]"``.

        Parameters
        ----------
        model_name, data_name : str
            What the page calls the model and the rows.
        quick : bool, default False
            Leave out which columns matter and how, which may take a minute for hundreds of columns.

        Returns
        -------
        str
            The text of an HTML file.

        Examples
        --------
        >>> import numpy as np
        >>> from softbins import NeuralRegressor
        >>> from softbins.evaluation import evaluate
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> model = NeuralRegressor("l2", hidden=(8,), max_epochs=2).fit(x, 3 * x[:, 0])
        >>> page = evaluate(model, x, 3 * x[:, 0]).page("a line", "60 rows")
        >>> "<title>a line on 60 rows</title>" in page
        True
        """
        return evaluation_page(self, model_name, data_name, quick)


def evaluate(model: Any, X: Any, y: Any, coverage: float = 0.9) -> Evaluation:
    """Predict rows that a model was not trained on, to judge it by their targets.

    Parameters
    ----------
    model : HistogramRegressor or NeuralRegressor
        A fitted estimator.
    X : array-like or DataFrame of shape (n, d)
        The rows to predict.
    y : array-like of shape (n,)
        Their targets.
    coverage : float, default 0.9
        The share of targets that the predicted intervals are made for.

    Returns
    -------
    Evaluation
        The predictions beside the targets, with scores, remarks and a page.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins import NeuralRegressor
    >>> from softbins.evaluation import evaluate
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, 3 * x[:, 0])
    >>> list(evaluate(model, x, 3 * x[:, 0]).scores())
    ['mae', 'median_mae', 'rmse', 'r2', 'crps', 'nll', 'coverage', 'width']
    """
    mean = model.predict(X)
    target = numeric_column("y", y, len(mean))
    checked_level("coverage", coverage)
    if not np.isfinite(mean).all():
        wrong = f"{int((~np.isfinite(mean)).sum())} of {len(mean)} predictions are not finite"
        raise ValueError(f"model: {wrong}; fit it again with a smaller learning_rate")
    distribution = interval = None
    if model.objective_.has_distribution:
        interval = model.predict_interval(X, coverage)
        distribution = model.predict_distribution(X)
    return Evaluation(
        model=model,
        y=target,
        mean=mean,
        distribution=distribution,
        interval=interval,
        coverage=coverage,
        X=X,
    )


def predictions(
    model: Any,
    X: Any,
    output: str = "mean",
    interval: float | None = None,
    raw: bool = False,
    quantiles: Sequence[float] | None = None,
) -> dict[str, Array]:
    """Predict rows as named columns, ready for a data frame.

    Parameters
    ----------
    model : HistogramRegressor or NeuralRegressor
        A fitted estimator.
    X : array-like or DataFrame of shape (n, d)
        The rows to predict.
    output : {"mean", "median", "mode"}, default "mean"
        What the column ``prediction`` holds.
    interval : float, optional
        Adds the ends of intervals that cover this share, such as ``low_0.9`` and ``high_0.9``.
    raw : bool, default False
        Take the intervals of the predicted distributions as they are, also where the model has
        learnt from held-out rows how to calibrate them.
    quantiles : sequence of float, optional
        Adds quantiles at these levels, such as ``quantile_0.5``.

    Returns
    -------
    dict of str to ndarray of shape (n,)
        The columns by name.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins import NeuralRegressor
    >>> from softbins.evaluation import predictions
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2).fit(x, 3 * x[:, 0])
    >>> list(predictions(model, x[:5], interval=0.9, quantiles=[0.5]))
    ['prediction', 'low_0.9', 'high_0.9', 'quantile_0.5']
    """
    columns: dict[str, Array] = {"prediction": model.predict(X, output=output)}
    if interval is not None:
        low, high = model.predict_interval(X, interval, calibrated=not raw).T
        level = level_text(interval)
        columns |= {f"low_{level}": low, f"high_{level}": high}
    if quantiles:
        values = model.predict_quantiles(X, quantiles)
        columns |= dict(zip(quantile_names(quantiles), values.T, strict=True))
    return columns
