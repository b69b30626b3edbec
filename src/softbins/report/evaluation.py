"""What a model is worth on rows that it has not seen, as scores and as one HTML page.

Pages need nothing but themselves: styles and figures are inside, and nothing is asked for from
anywhere. The same input gives the same page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

import softbins
from softbins import plots, scores
from softbins._extras import optional_import
from softbins._files import write_whole
from softbins._text import shown
from softbins.histogram import Histogram
from softbins.report import comparison
from softbins.tabular.aggregate import Finish
from softbins.tabular.columns import Columns
from softbins.tabular.validation import training_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Row = Mapping[str, Any]
Draw = Callable[["Axes"], object]

BAND = 200  # rows in the figure of intervals, at most: more would be a blot
TITLES = {
    "mae": ("MAE", "Mean absolute error of the predicted means."),
    "median_mae": ("MAE of medians", "Mean absolute error of the predicted medians."),
    "rmse": ("RMSE", "Root of the mean squared error of the predicted means."),
    "crps": ("CRPS", "Continuous ranked probability score, in the unit of the target."),
    "nll": ("NLL", "Negative log-likelihood: minus the mean log density at the targets."),
    "coverage": ("Coverage", "Share of targets in their {:g}% intervals."),
    "width": ("Width", "Mean width of the {:g}% intervals."),
}
CAPTIONS = {
    "densities": "Predicted densities of some rows, evenly chosen from the lowest mean to the "
    "highest and drawn to the same height, with the true values. Rows count from 0.",
    "intervals": "The {coverage:g}% intervals and the targets of {drawn} of {rows} rows, evenly "
    "chosen, in the order of their predicted means.",
    "reliability": "Share of targets in central intervals of the predicted distributions, against "
    "the probability of these intervals: on the diagonal if calibrated, below if too narrow.",
    "pit": "Predicted probability of less than the target: flat if calibrated, a U if the "
    "distributions are too narrow, a hill if they are too wide.",
    "training": "Error after each epoch of training, a line for each member.",
    "comparison": "Mean absolute error of each method over the folds, with its standard error.",
}


@dataclass(frozen=True)
class Picture:
    """A figure: SVG to stand inside a page, and what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a model predicts for some rows, beside their targets; see `evaluate`.

    `distribution` and `interval` (n, 2) are None for a model that predicts numbers only.
    """

    model: Any
    y: Array
    mean: Array
    distribution: Histogram | None
    interval: Array | None
    coverage: float

    def scores(self) -> dict[str, float | None]:
        """The scores by name; None for those that need a distribution, if there is none."""
        result = dict.fromkeys(TITLES) | {
            "mae": float(mean_absolute_error(self.y, self.mean)),
            "rmse": float(root_mean_squared_error(self.y, self.mean)),
        }
        if self.distribution is None or self.interval is None:
            return result
        median, (low, high) = self.distribution.median.numpy(), self.interval.T
        return result | {
            "median_mae": float(mean_absolute_error(self.y, median)),
            "crps": scores.crps(self.distribution, self.y),
            "nll": scores.nll(self.distribution, self.y),
            "coverage": scores.coverage(self.y, low, high),
            "width": scores.width(low, high),
        }

    def summary(self) -> dict[str, Any]:
        """What was judged, and the scores."""
        interval = None if self.interval is None else self.coverage
        known = {"objective": self.model.objective, "rows": len(self.y), "interval": interval}
        return known | self.scores()

    def remarks(self) -> list[str]:
        """What a reader of the scores should know."""
        if self.distribution is None:
            return [
                f"The model ({self.model.objective}) predicts numbers, no distributions: only MAE "
                "and RMSE are known, and there is no figure of densities, intervals or calibration."
            ]
        bins = self.distribution.bins
        outside = int(((self.y < bins.low) | (self.y > bins.high)).sum())
        where = f"outside the bins, [{bins.low:g}, {bins.high:g}], where the density is zero"
        return [f"{outside} of {len(self.y)} targets lie {where}."] if outside else []

    def page(self, model_name: str = "a model", data_name: str = "a table") -> str:
        """One HTML page with the scores, the figures and how the model was trained."""
        found, percent = self.scores(), 100 * self.coverage
        table = [
            [title, found[name], meaning.format(percent)]
            for name, (title, meaning) in TITLES.items()
            if found[name] is not None
        ]
        pictures, problems = self._pictures()
        facts = {"model": model_name, "data": data_name, "rows": len(self.y)}
        facts |= description(self.model) | training_summary(self.model)
        return _page(
            title=f"{model_name} on {data_name}",
            lead=f"How well the model predicts {len(self.y)} rows.",
            head=["Score", "Value", "Meaning"],
            table=table,
            remarks=[*self.remarks(), *problems],
            pictures=pictures,
            # Without what there may be hundreds of, and without what there is not.
            facts={
                name: value
                for name, value in facts.items()
                if value is not None and name not in ("names", "kinds")
            },
        )

    def _pictures(self) -> tuple[list[Picture], list[str]]:
        """The figures, and in words why one is missing."""
        known = {"coverage": 100 * self.coverage, "rows": len(self.y)}
        known["drawn"] = min(BAND, len(self.y))
        pictures = [
            _picture(name, CAPTIONS[name].format(**known), draw)
            for name, draw in self._figures_of_distributions().items()
        ]
        draw_training = partial(plots.training, self.model)
        try:
            return [*pictures, _picture("training", CAPTIONS["training"], draw_training)], []
        except ValueError as error:  # a history without a number in it
            return pictures, [f"No figure of the training: {str(error).partition(': ')[2]}."]

    def _figures_of_distributions(self) -> dict[str, Draw]:
        predicted, y = self.distribution, self.y
        if predicted is None:
            return {}
        whole = bool((y == y.round()).all())  # such as counts, whose cdf has steps
        return {
            "densities": partial(plots.densities, predicted, y, None),
            "intervals": self._draw_intervals,
            "reliability": partial(plots.reliability, predicted, y, integer=whole),
            "pit": partial(plots.pit, predicted, y, integer=whole),
        }

    def _draw_intervals(self, ax: Axes) -> None:
        assert self.interval is not None
        order = np.argsort(self.mean, kind="stable")
        places = np.linspace(0, len(order) - 1, min(BAND, len(order))).round().astype(int)
        some = order[places]
        plots.interval_band(places + 1, self.y[some], self.interval[some], self.mean[some], ax)
        ax.set_xlabel("row, in the order of predicted means")


def evaluate(model: Any, X: Any, y: Any, coverage: float = 0.9) -> Evaluation:
    """What a fitted estimator predicts for X, to be judged by the targets y.

    `coverage` is the share of targets that the intervals are made for.
    """
    mean = model.predict(X)
    target = plots.checked_column("y", y, len(mean))
    scores.checked_level("coverage", coverage)
    if not np.isfinite(mean).all():
        wrong = f"{int((~np.isfinite(mean)).sum())} of {len(mean)} predictions are not finite"
        raise ValueError(f"model: {wrong}; fit it again with a smaller learning_rate")
    if not model.objective_.has_distribution:
        return Evaluation(model, target, mean, None, None, coverage)
    interval = model.predict_interval(X, coverage)
    return Evaluation(model, target, mean, model.predict_distribution(X), interval, coverage)


def predictions(
    model: Any,
    X: Any,
    output: str = "mean",
    interval: float | None = None,
    raw: bool = False,
    quantiles: Sequence[float] | None = None,
) -> dict[str, Array]:
    """What a fitted estimator predicts for X, as columns with names.

    Intervals are calibrated if the model has learnt how, unless `raw`.
    """
    columns: dict[str, Array] = {"prediction": model.predict(X, output=output)}
    if interval is not None:
        how = {"calibrated": False} if raw and _finish(model) else {}
        low, high = model.predict_interval(X, interval, **how).T
        columns |= {f"low_{interval:g}": low, f"high_{interval:g}": high}
    if quantiles:
        values = model.predict_quantiles(X, quantiles)
        columns |= {f"quantile_{q:g}": values[:, i] for i, q in enumerate(quantiles)}
    return columns


def description(model: Any) -> dict[str, Any]:
    """What a fitted estimator is; None for what it has not."""
    bins, finish = getattr(model, "bins_", None), _finish(model)
    return {
        "objective": model.objective,
        "bins": bins and {"count": bins.count, "low": bins.low, "high": bins.high},
        "bias_of_bins": bins and bins.bias and bins.bias._asdict(),
        "features": model.n_features_in_,
        "names": model.columns_.names or [],
        "kinds": model.columns_.kinds,
        "hidden": list(model.network_.hidden),
        "members": model.network_.members,
        "share_of_trees": finish and finish.share,
        "temperature": finish and finish.temperature.t,
        "calibration_rows": finish and len(finish.intervals["central"].depths),
    }


def _finish(model: Any) -> Finish | None:
    """What held-out rows have taught a HistogramRegressor; others have nothing of the kind."""
    finish: Finish | None = getattr(model, "finish_", None)
    return finish


# Several methods


def compared(
    x: Any, y: Array, methods: Sequence[str], update: Callable[[float, str], object], **how: Any
) -> list[dict[str, Any]]:
    """Every method's cross-validated errors, best first, and last those that diverged.

    `update` hears how many methods are done and which one is running; the rest is for
    `comparison.cross_validate`.
    """
    x, results = Columns.fit(x).transform(x), list[dict[str, Any]]()
    # Linear regression comes last: it takes no time, and would make the time left look short.
    order = sorted(methods, key=lambda method: method == "linear")
    for method in order:

        def show(epoch: int, epochs: int, *_: Any, name: str = method) -> None:
            update(len(results) + epoch / epochs, f"{name} ({len(results) + 1}/{len(order)})")

        folds = comparison.cross_validate(x, y, method, progress=show, **how)
        results.append(summarised(method, folds))
    return sorted(results, key=lambda row: (math.isnan(row["mae"]), row["mae"]))


def summarised(method: str, folds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and standard error of a method's errors over the folds."""
    result: dict[str, Any] = {"method": method}
    for name in ("mae", "rmse"):
        values = [fold[name] for fold in folds]
        # The errors of a method that diverged have no spread.
        spread = statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
        result[name] = statistics.fmean(values)
        result[f"{name}_stderr"] = spread / math.sqrt(len(values))
    return result | {"folds": list(folds)}


def draw_comparison(results: Sequence[Row], path: Path, kind: str) -> None:
    """Write a picture of every method's MAE, whole or not at all."""
    figure = _figure(partial(plots.comparison, results), _height(results), background="white")
    write_whole(path, plots.picture(figure, kind))


def comparison_page(results: Sequence[Row], data_name: str, facts: Row) -> str:
    """One HTML page with the errors of several methods on one table, as `summarised` gives them."""
    names = ("mae", "mae_stderr", "rmse", "rmse_stderr")
    diverged = [row["method"] for row in results if not math.isfinite(row["mae"])]
    draw = partial(plots.comparison, results)
    return _page(
        title=f"Methods on {data_name}",
        lead=f"Errors of {len(results)} methods on rows that they were not trained on: "
        f"mean and standard error over {facts['folds']} folds, best first.",
        head=["Method", "MAE", "±", "RMSE", "±"],
        table=[[row["method"], *(row[name] for name in names)] for row in results],
        remarks=[f"{name} diverged: its errors are not finite." for name in diverged],
        pictures=[_picture("comparison", CAPTIONS["comparison"], draw, _height(results))],
        facts={"data": data_name, **facts},
    )


# Pages


def _page(**content: Any) -> str:
    jinja2 = optional_import("jinja2", "plots")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("softbins.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    template = environment.get_template("evaluation.html")
    text: str = template.render(**content, version=softbins.__version__)
    return text


def _picture(name: str, caption: str, draw: Draw, height: float = plots.SIZE[1]) -> Picture:
    svg = plots.picture(_figure(draw, height, background="none"), "svg").decode()
    return Picture(name, plots.inline(svg, name), caption)


def _figure(draw: Draw, height: float, background: str) -> Figure:
    """A figure that nobody else keeps, unlike pyplot's."""
    with plots.style(**{"axes.facecolor": background, "figure.facecolor": background}):
        size = (plots.SIZE[0], height)
        figure: Figure = optional_import("matplotlib.figure", "plots").Figure(
            size, layout="constrained"
        )
        draw(figure.subplots())
    return figure


def _height(results: Sequence[Row]) -> float:
    """Inches that bars for all the methods need."""
    return 1.0 + 0.35 * len(results)
