"""The page of an evaluation: scores, figures of the predictions, and how the model was trained."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from softbins import plots
from softbins._core.figures import Picture
from softbins.report.page import Draw, Page, picture_of
from softbins.tabular.description import description
from softbins.tabular.summary import training_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from softbins.report.evaluation import Evaluation

# More intervals could not be told apart in a figure of this width.
MAX_INTERVALS_DRAWN = 200
TITLES_AND_MEANINGS = {
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
}
# There may be hundreds of columns.
FACTS_TOO_LONG_FOR_A_PAGE = ("names", "kinds")


def evaluation_page(evaluation: Evaluation, model_name: str, data_name: str) -> str:
    """The HTML page of an evaluation of the model on the data of these names."""
    rows = len(evaluation.y)
    pictures, problems = _pictures(evaluation)
    page = Page(
        title=f"{model_name} on {data_name}",
        lead=f"How well the model predicts {rows} rows.",
        head=["Score", "Value", "Meaning"],
        table=_score_table(evaluation),
        remarks=[*evaluation.remarks(), *problems],
        pictures=pictures,
        facts={"model": model_name, "data": data_name, "rows": rows} | _facts(evaluation.model),
    )
    return page.html()


def _score_table(evaluation: Evaluation) -> list[list[Any]]:
    """Title, value and meaning of every score that is known."""
    values, percent = evaluation.scores(), 100 * evaluation.coverage
    return [
        [title, values[name], meaning.format(percent)]
        for name, (title, meaning) in TITLES_AND_MEANINGS.items()
        if values[name] is not None
    ]


def _facts(model: Any) -> dict[str, Any]:
    """What the model is and how its training went, without what it does not have."""
    facts = description(model) | training_summary(model)
    known = {name: value for name, value in facts.items() if value is not None}
    return {name: known[name] for name in known if name not in FACTS_TOO_LONG_FOR_A_PAGE}


def _pictures(evaluation: Evaluation) -> tuple[list[Picture], list[str]]:
    """The figures, and for a figure that is missing the reason in words."""
    rows = len(evaluation.y)
    values = {"coverage": 100 * evaluation.coverage, "rows": rows}
    values["drawn"] = min(MAX_INTERVALS_DRAWN, rows)
    pictures = [
        picture_of(draw, name, CAPTIONS[name].format(**values))
        for name, draw in distribution_figures(evaluation).items()
    ]
    draw_training = partial(plots.training, evaluation.model)
    try:
        return [*pictures, picture_of(draw_training, "training", CAPTIONS["training"])], []
    except ValueError as error:  # raised for a history without a finite number in it
        return pictures, [f"No figure of the training: {str(error).partition(': ')[2]}."]


def distribution_figures(evaluation: Evaluation) -> dict[str, Draw]:
    """What draws each figure of the predicted distributions; none if there are only numbers."""
    predicted, y = evaluation.distribution, evaluation.y
    if predicted is None:
        return {}
    # Targets such as counts, for which the distribution function has steps.
    integer = bool((y == y.round()).all())
    return {
        "densities": partial(plots.densities, predicted, y, None),
        "intervals": partial(_draw_intervals, evaluation),
        "reliability": partial(plots.reliability, predicted, y, integer=integer),
        "pit": partial(plots.pit, predicted, y, integer=integer),
    }


def _draw_intervals(evaluation: Evaluation, ax: Axes) -> None:
    """Draw the intervals of some rows, evenly chosen in the order of their predicted means."""
    assert evaluation.interval is not None
    order = np.argsort(evaluation.mean, kind="stable")
    count = min(MAX_INTERVALS_DRAWN, len(order))
    places = np.linspace(0, len(order) - 1, count).round().astype(int)
    chosen = order[places]
    y, interval, mean = (
        values[chosen] for values in (evaluation.y, evaluation.interval, evaluation.mean)
    )
    plots.interval_band(places + 1, y, interval, mean=mean, ax=ax)
    ax.set_xlabel("row, in the order of predicted means")
