"""The page of an evaluation: a verdict, scores, and figures of what is predicted and why."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softbins import plots
from softbins._core.figures import Picture
from softbins._core.text import number_text, percent_text, shortened, shown
from softbins.report.cells import EncodedTable
from softbins.report.dependence import column_dependence
from softbins.report.evaluation_figures import (
    MAX_ROWS_DRAWN,
    draw_densities,
    draw_dependence,
    draw_groups,
    draw_importance,
    draw_predictions,
)
from softbins.report.importance import Importance, column_importance
from softbins.report.page import Download, Draw, Page, Section, Table, picture_of
from softbins.report.predictions_file import predictions_text
from softbins.report.table_values import TableColumn, groups_by_size, table_columns
from softbins.report.verdict import has_spike
from softbins.tabular.description import description
from softbins.tabular.summary import training_summary

if TYPE_CHECKING:
    from softbins.report.evaluation import Evaluation

Array = NDArray[np.float64]

MAX_GROUPS, MIN_ROWS_OF_GROUP = 6, 10
COLUMNS_WITH_ERRORS, COLUMNS_WITH_DEPENDENCE = 3, 5
WORST_ROWS, COLUMNS_OF_WORST_ROWS = 10, 8
BARS = 10
MAX_CHARACTERS_OF_HEAD = 48
MAX_ROWS_IN_FILE = 100_000
TITLES_AND_MEANINGS = {
    "mae": ("MAE", "Mean absolute error of the predicted means."),
    "median_mae": ("MAE of medians", "Mean absolute error of the predicted medians."),
    "rmse": ("RMSE", "Root of the mean squared error of the predicted means."),
    "r2": ("R²", "Share of the targets' variance that the predicted means explain."),
    "crps": ("CRPS", "Continuous ranked probability score, in the unit of the target."),
    "nll": ("NLL", "Negative log-likelihood: minus the mean log density at the targets."),
    "coverage": ("Coverage", "Share of targets in their {}% intervals."),
    "width": ("Width", "Mean width of the {}% intervals."),
}
CAPTIONS = {
    "predictions": "The targets of {drawn} of {rows} rows, evenly chosen by their predicted means, "
    "over these means{with_intervals}.",
    "densities": "Predicted densities of some rows, evenly chosen from low means to high ones and "
    "drawn to the same height, with the true values. {rows} The axis shows where 98% "
    "of what is drawn lies.",
    "reliability": "Share of targets in central intervals of the predicted distributions, against "
    "the probability of these intervals: on the diagonal if calibrated, below if too narrow.",
    "pit": "Predicted probability of less than the target: flat if calibrated, a U if the "
    "distributions are too narrow, a hill if they are too wide.",
    "training": "Error after each epoch of training, a line for each member.",
    "errors-by-target": "Errors, predicted minus true, by the size of the target, with the number "
    "of rows; lines are 95% intervals. A model that is not sure predicts large targets too low and "
    "small ones too high.",
    "errors-by-column": "Errors by {name}, with the number of rows; lines are 95% intervals.",
    "importance-error": "By how much the root mean squared error, {base} on these {rows} rows, "
    "rises when the values of a column are shuffled: mean, least and most of {repeats} times.",
    "importance-width": "By how much the width of a row's {coverage}% interval changes when the "
    "values of a column are shuffled, as a share of the mean width.",
    "dependence": "Prediction if {name} were the same in all of {rows} rows: averages of their "
    "means{with_bands}.",
}
# There may be hundreds of columns.
FACTS_TOO_LONG_FOR_A_PAGE = ("names", "kinds")


def evaluation_page(
    evaluation: Evaluation, model_name: str, data_name: str, quick: bool = False
) -> str:
    """The HTML page of an evaluation of the model on the data of these names."""
    rows = len(evaluation.y)
    inside = None if quick or evaluation.X is None else _Inside(evaluation)
    sections = [
        _scores(evaluation),
        _predictions(evaluation),
        _errors(evaluation, inside),
        *([] if inside is None else [inside.importances(), inside.dependences()]),
        _honesty(evaluation),
        _training(evaluation),
    ]
    page = Page(
        title=f"{model_name} on {data_name}",
        lead=f"How well the model predicts {rows} rows.",
        findings=evaluation.verdict(),
        sections=[each for each in sections if each.tables or each.pictures or each.remarks],
        facts={"model": model_name, "data": data_name, "rows": rows} | _facts(evaluation.model),
        download=_download(evaluation),
    )
    return page.html()


def _facts(model: Any) -> dict[str, Any]:
    """What the model is and how its training went, without what it does not have."""
    facts = description(model) | training_summary(model)
    known = {name: value for name, value in facts.items() if value is not None}
    return {name: known[name] for name in known if name not in FACTS_TOO_LONG_FOR_A_PAGE}


def _download(evaluation: Evaluation) -> Download:
    rows = min(len(evaluation.y), MAX_ROWS_IN_FILE)
    count = f"all {rows}" if rows == len(evaluation.y) else f"the first {rows}"
    text = predictions_text(evaluation, rows)
    return Download("predictions.csv", text, f"Download the predictions of {count} rows as CSV")


# Sections


def _scores(evaluation: Evaluation) -> Section:
    values, percent = evaluation.scores(), percent_text(evaluation.coverage)
    rows = [
        [title, values[name], meaning.format(percent)]
        for name, (title, meaning) in TITLES_AND_MEANINGS.items()
        if values[name] is not None
    ]
    table = Table(["Score", "Value", "Meaning"], rows, sortable=False)
    return Section("scores", "Scores", [table], remarks=evaluation.remarks())


def _predictions(evaluation: Evaluation) -> Section:
    y, interval = evaluation.y, evaluation.interval
    with_intervals = f", and their {percent_text(evaluation.coverage)}% intervals"
    caption = CAPTIONS["predictions"].format(
        drawn=min(MAX_ROWS_DRAWN, len(y)),
        rows=len(y),
        with_intervals="" if interval is None else with_intervals,
    )
    draw: Draw = partial(draw_predictions, y, evaluation.mean, interval)
    pictures = [picture_of(draw, "predictions", caption)]
    if evaluation.distribution is not None:
        draw = partial(draw_densities, evaluation.distribution, y, evaluation.row_numbers)
        caption = CAPTIONS["densities"].format(rows=_how_rows_count(evaluation))
        pictures.append(picture_of(draw, "densities", caption))
    return Section("predicted", "Predicted and true", pictures=pictures)


def _errors(evaluation: Evaluation, inside: _Inside | None) -> Section:
    errors = evaluation.mean - evaluation.y
    count = min(MAX_GROUPS, max(1, len(errors) // MIN_ROWS_OF_GROUP))
    draw = partial(draw_groups, groups_by_size(evaluation.y, count), errors, "target")
    pictures = [picture_of(draw, "errors-by-target", CAPTIONS["errors-by-target"])]
    columns = [] if inside is None else inside.columns
    for number, column in enumerate(columns[:COLUMNS_WITH_ERRORS]):
        draw = partial(draw_groups, column.groups(count), errors, column.name)
        caption = CAPTIONS["errors-by-column"].format(name=column.name)
        pictures.append(picture_of(draw, f"errors-by-column-{number}", caption))
    table = worst_rows(evaluation, columns[:COLUMNS_OF_WORST_ROWS])
    return Section("errors", "Where it errs", [table], pictures=pictures)


def worst_rows(evaluation: Evaluation, columns: Sequence[TableColumn]) -> Table:
    """The rows with the largest errors, and their values in some columns."""
    errors = evaluation.mean - evaluation.y
    worst = np.argsort(-np.abs(errors), kind="stable")[:WORST_ROWS]
    head = ["Row", "True", "Predicted", "Error"]
    numbers = np.array(evaluation.row_numbers)
    parts = [numbers[worst], evaluation.y[worst], evaluation.mean[worst], errors[worst]]
    if evaluation.interval is not None:
        head += ["Low", "High"]
        parts += [*evaluation.interval[worst].T]
    values = [[column.cell(row) for column in columns] for row in worst.tolist()]
    rows = [
        [*own, *more]
        for own, more in zip(
            zip(*(part.tolist() for part in parts), strict=True), values, strict=True
        )
    ]
    head += [shortened(column.name, MAX_CHARACTERS_OF_HEAD) for column in columns]
    caption = f"The {len(rows)} rows with the largest errors. {_how_rows_count(evaluation)}"
    return Table(head, rows, caption)


def _how_rows_count(evaluation: Evaluation) -> str:
    from_zero = list(evaluation.row_numbers) == list(range(len(evaluation.y)))
    return "Rows count from 0." if from_zero else "Rows have their numbers in the table."


def _honesty(evaluation: Evaluation) -> Section:
    figures = honesty_figures(evaluation)
    pictures = [picture_of(draw, name, CAPTIONS[name]) for name, draw in figures.items()]
    lead = _spike_text(evaluation.y) if pictures and has_spike(evaluation.y) else ""
    return Section("honesty", "How honest the distributions are", pictures=pictures, lead=lead)


def _spike_text(y: Array) -> str:
    """What a number that many targets share does to figures of calibration."""
    values, counts = np.unique(y, return_counts=True)
    most = int(counts.argmax())
    share, value = counts[most] / len(y), number_text(float(values[most]))
    return (
        f"{share:.0%} of the targets are {value}. Each of them counts as one point in the middle "
        "of all the probability that is predicted there, so that both figures may leave the grey "
        "areas although that probability is right."
    )


def honesty_figures(evaluation: Evaluation) -> dict[str, Draw]:
    """What draws the figures of calibration; none if only numbers are predicted."""
    predicted, y = evaluation.distribution, evaluation.y
    if predicted is None:
        return {}
    # Targets such as counts, for which the distribution function has steps.
    integer = bool((y == y.round()).all())
    return {
        "reliability": partial(plots.reliability, predicted, y, integer=integer),
        "pit": partial(plots.pit, predicted, y, integer=integer),
    }


def _training(evaluation: Evaluation) -> Section:
    draw = partial(plots.training, evaluation.model)
    title = "How it was trained"
    try:
        picture = picture_of(draw, "training", CAPTIONS["training"])
    except ValueError as error:  # raised for a history without a finite number in it
        reason = f"No figure of the training: {str(error).partition(': ')[2]}."
        return Section("trained", title, remarks=[reason])
    return Section("trained", title, pictures=[picture])


class _Inside:
    """What a model makes of the columns: which of them matter, most important first, and how."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.coverage = evaluation.coverage
        self.table = EncodedTable(evaluation.model, evaluation.X)
        self.found: Importance = column_importance(self.table, evaluation.y, evaluation.coverage)
        columns = table_columns(evaluation.model, evaluation.X)
        self.columns = [columns[index] for index in self.found.columns]

    def importances(self) -> Section:
        """What matters for the error, and what for the width of the intervals."""
        table, width = self._importance_table(), self.found.width
        pictures = [self._bars("error", list(range(len(self.columns))), self.found.error)]
        if width is not None:
            pictures.append(self._bars("width", self.found.by_width(), 100 * width))
        left = self.table.n_columns - len(self.columns)
        lead = (
            "Columns that say the same as others seem to matter little, because those stand in for "
            "them."
        )
        if left:
            lead += f" The {left} columns that mattered least in a quick look are left out."
        return Section("importance", "Which columns matter", [table], pictures=pictures, lead=lead)

    def _importance_table(self) -> Table:
        found, width = self.found, self.found.width
        head = ["Column", "Error rises by", "±"]
        rows: list[list[Any]] = [
            [column.name, float(each.mean()), float(each.std())]
            for column, each in zip(self.columns, found.error, strict=True)
        ]
        if width is not None:
            head += ["Width changes by %", "±"]
            for row, each in zip(rows, 100 * width, strict=True):
                row += [float(each.mean()), float(each.std())]
        caption = f"By shuffling a column {found.error.shape[1]} times among {found.rows} rows."
        return Table(head, rows, caption)

    def _bars(self, name: str, places: list[int], repeats: Any) -> Picture:
        places = places[:BARS]
        label = "rise of the RMSE" if name == "error" else "change of the width in %"
        caption = CAPTIONS[f"importance-{name}"].format(
            base=shown(self.found.base_error),
            rows=self.found.rows,
            repeats=repeats.shape[1],
            coverage=percent_text(self.coverage),
        )
        names = [self.columns[place].name for place in places]
        draw = partial(draw_importance, names, repeats[places], label)
        return picture_of(draw, f"importance-{name}", caption, height=1.0 + 0.28 * len(places))

    def dependences(self) -> Section:
        """How predictions depend on the columns that matter most."""
        pictures = []
        for number, column in enumerate(self.columns[:COLUMNS_WITH_DEPENDENCE]):
            found = column_dependence(self.table, column)
            if found is not None:
                bands = ", and of the ends of their 50% and 90% intervals"
                caption = CAPTIONS["dependence"].format(
                    name=column.name,
                    rows=found.rows,
                    with_bands=bands if found.bands is not None else "",
                )
                draw = partial(draw_dependence, found)
                pictures.append(picture_of(draw, f"dependence-{number}", caption))
        lead = (
            "Partial dependence: all other columns stay as they are, also where such rows do not "
            "exist. The bands are how unsure the model is of a row, on average."
        )
        return Section("dependence", "How predictions depend on them", pictures=pictures, lead=lead)
