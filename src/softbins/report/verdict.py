"""A verdict on a model, in words and in one of four levels.

Only what is beyond chance gets a color: every judgement rests on a 95% interval for what was
measured. Beside baselines errors are squared, because the model predicts means; a constant that is
right for half of the rows may have the smaller absolute error without being of any use.

constant
    The share of the constant's mean squared error that the model takes away: R². "good" if it is
    above 0 beyond chance, "fair" if it is also below 5% beyond chance; "bad" if it is below 0
    beyond chance, or below 5% beyond chance without being above 0; otherwise "unknown".
linear
    The same for a linear regression: "good" above 0 beyond chance, "bad" if it is below -10%
    beyond chance, "fair" if it is below 0 beyond chance or certainly within 10% of 0, otherwise
    "unknown".
intervals
    "good" if the share of targets inside is the promised one but for chance, "unknown" if chance
    leaves more than 20 points open. Too few inside is "bad" where 5 points are missing, or half as
    many rows again as should are outside, else "fair". Too many inside is "fair", or "good" where
    many targets are the same number, which makes it unavoidable.
training
    The mean absolute error, which depends less on single rows, beside that on rows that training
    left out: "good" if it is not larger beyond chance, "bad" if it is larger by a quarter beyond
    chance, else "fair"; "unknown" if chance leaves a factor of two open, or training has left out
    no rows. A model may know that error only for each of its networks alone, which is larger than
    that of all together, so that a small shift stays unseen; the text says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from softbins._core.text import number_text
from softbins.report.baselines import (
    MIN_ROWS_FOR_LINEAR,
    constant_prediction,
    linear_prediction,
)
from softbins.report.moved_columns import moved_columns
from softbins.report.sampling_error import Range, mean_range, share_range
from softbins.report.training_error import KnownError, known_error
from softbins.tabular.description import aggregator_of
from softbins.tabular.validation import prediction_data

if TYPE_CHECKING:
    from softbins.report.evaluation import Evaluation

Array = NDArray[np.float64]
Level = Literal["good", "fair", "bad", "unknown"]

# Differences of fewer squared errors are not near enough to normal for an interval of 95%.
MIN_ROWS_FOR_ERRORS = 30
NEGLIGIBLE_GAIN, ALIKE = 0.05, 0.1
MISSING_POINTS, MISSING_SHARE, OPEN_POINTS = 0.05, 0.5, 0.2
WORSE_ERROR, OPEN_FACTOR = 1.25, 2.0
# The share of rows with the same target from which intervals hold more than they promise.
SPIKE_SHARE, MIN_ROWS_FOR_SPIKE = 0.05, 20
FEW_CALIBRATION_ROWS = 200
WORST_FIRST: tuple[Level, ...] = ("bad", "fair", "good", "unknown")
OVERALL: dict[Level, str] = {
    "good": "Nothing speaks against this model",
    "fair": "Usable with care",
    "bad": "Do not rely on this model yet",
    "unknown": "These rows are too few to judge this model",
}
# Where the rows do not say whether it is better than no model at all, and nothing else is wrong.
USE_NOT_CLEAR = "Not clear yet whether this model is of use"


class Finding(NamedTuple):
    """The answer to one question about a model.

    Attributes
    ----------
    question : {"constant", "linear", "intervals", "training"}
        Is it better than always saying the same? Than a linear regression? Do the intervals hold
        what they promise? Is the error like that in training?
    level : {"good", "fair", "bad", "unknown"}
        The answer in a word. "unknown" is what chance may explain either way.
    headline : str
        The answer in a few words.
    text : str
        The answer with its numbers, and what it may mean.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.evaluation import Evaluation
    >>> y = np.arange(100.0)
    >>> judged = Evaluation(None, y, mean=y + 1, distribution=None, interval=None, coverage=0.9)
    >>> judged.verdict()[0].headline
    'Much better than a constant: R² 0.999'
    """

    question: str
    level: Level
    headline: str
    text: str


def findings(evaluation: Evaluation) -> list[Finding]:
    """The answers to all questions that can be asked of an evaluation."""
    y, errors = evaluation.y, evaluation.mean - evaluation.y
    found = [constant_finding(y, errors)]
    model, X = evaluation.model, evaluation.X
    if X is not None:
        linear = linear_prediction(prediction_data(model, X, model.columns_), y)
        found.append(linear_finding(y, errors, linear))
    if evaluation.interval is not None:
        found.append(intervals_finding(y, evaluation.interval, evaluation.coverage, model))
    if model is not None:
        moved = [] if X is None else moved_columns(model, X)
        found.append(training_finding(errors, known_error(model), moved))
    return found


def overall(found: Sequence[Finding]) -> tuple[Level, str]:
    """The worst level that was found, and the verdict in a sentence."""
    level = next(level for level in WORST_FIRST if any(each.level == level for each in found))
    reasons = [each.headline for each in found if each.level == level]
    if level == "unknown":
        return level, f"{OVERALL[level]}."
    if level == "good":
        open_ = [each for each in found if each.level == "unknown"]
        if any(each.question == "constant" for each in open_):
            return "unknown", f"{USE_NOT_CLEAR}: {'; '.join(_lowered(e.headline) for e in open_)}."
        return level, OVERALL[level] + (", as far as can be told." if open_ else ".")
    return level, f"{OVERALL[level]}: {'; '.join(map(_lowered, reasons))}."


# Baselines


def constant_finding(y: Array, errors: Array) -> Finding:
    """Whether a model with these errors is better than always saying the mean of the targets."""
    baseline = constant_prediction(y) - y
    if len(y) < 2 or not baseline.any():
        return Finding(
            "constant", "unknown", "All targets are the same", "There is nothing to tell apart."
        )
    gain, r2 = _gain(errors, baseline), float(r2_score(y, y + errors))
    text = (
        f"{_compared(errors, baseline)} for always saying the mean of these {len(y)} targets. "
        f"R² is {r2:.3g}{_between(gain)}."
    )
    level = constant_level(gain)
    headline = {
        "good": f"{'Much better' if r2 > 0.5 else 'Better'} than a constant: R² {r2:.3g}",
        "fair": f"Hardly better than a constant: R² {r2:.3g}",
        "bad": f"No better than a constant: R² {r2:.3g}",
        "unknown": f"Maybe better than a constant: R² {r2:.3g}",
    }[level]
    if level == "bad":
        text += " The columns may say nothing about the target, or not the same as in training."
    return Finding("constant", level, headline, text + _if_unknown(level, len(y)))


def constant_level(gain: Range | None) -> Level:
    """The level for an interval of the share of the squared error that is gained."""
    if gain is None:
        return "unknown"
    if gain.low > 0:
        return "good" if gain.high >= NEGLIGIBLE_GAIN else "fair"
    return "bad" if gain.high < NEGLIGIBLE_GAIN else "unknown"


def linear_finding(y: Array, errors: Array, linear: Array | None) -> Finding:
    """Whether a model with these errors is better than a linear regression's predictions."""
    if linear is None:
        need = f"It takes {MIN_ROWS_FOR_LINEAR} rows, and there are {len(y)}."
        return Finding("linear", "unknown", "Too few rows for a linear regression", need)
    baseline = linear - y
    gain = _gain(errors, baseline)
    text = (
        f"{_compared(errors, baseline)} for a linear regression, cross-validated on these rows "
        "with the same columns."
    )
    level = linear_level(gain)
    change = 1 - _rmse(errors) / _rmse(baseline) if baseline.any() else 0.0
    headline = {
        "good": f"Better than a linear regression by {change:.0%}",
        "fair": "No better than a linear regression",
        "bad": f"Worse than a linear regression by {-change:.0%}",
        "unknown": "Maybe no better than a linear regression",
    }[level]
    if level in ("fair", "bad"):
        text += (
            " These rows may differ from those of the training, the model may have had too few "
            "rows or too little time, or the target may simply be linear."
        )
    return Finding("linear", level, headline, text + _if_unknown(level, len(y)))


def linear_level(gain: Range | None) -> Level:
    """The level for an interval of the share of the squared error that is gained."""
    if gain is None:
        return "unknown"
    if gain.holds(0):
        return "fair" if max(-gain.low, gain.high) < ALIKE else "unknown"
    if gain.low > 0:
        return "good"
    return "bad" if gain.high < -ALIKE else "fair"


def _gain(errors: Array, baseline: Array) -> Range | None:
    """An interval for the share of a baseline's squared error that is gained; None if unknown."""
    base = float(np.square(baseline).mean())
    if len(errors) < MIN_ROWS_FOR_ERRORS or base == 0:
        return None
    low, high = mean_range(np.square(baseline) - np.square(errors))
    return Range(low / base, high / base)


def _compared(errors: Array, baseline: Array) -> str:
    return (
        f"The root mean squared error is {_text(_rmse(errors))}, against {_text(_rmse(baseline))}"
    )


def _between(gain: Range | None) -> str:
    return "" if gain is None else f" (95% interval {gain.low:.2g} to {min(gain.high, 1.0):.2g})"


def _if_unknown(level: Level, n_rows: int) -> str:
    return (
        f" Chance may explain it: {n_rows} rows are too few to tell." if level == "unknown" else ""
    )


# Intervals


def intervals_finding(y: Array, interval: Array, coverage: float, model: Any) -> Finding:
    """Whether intervals (n, 2) hold as many targets as they promise."""
    inside = int(((interval[:, 0] <= y) & (y <= interval[:, 1])).sum())
    share, chance = inside / len(y), share_range(inside, len(y))
    level = intervals_level(share, chance, coverage, has_spike(y))
    text = (
        f"{inside} of {len(y)} targets, {share:.0%}, lie in the intervals that were made for "
        f"{coverage:.0%}. With so many rows, chance leaves {chance.low:.0%} to {chance.high:.0%} "
        "possible."
    )
    narrow = share < coverage
    headline = {
        "good": "The intervals are honest",
        "fair": f"The intervals are a little too {'narrow' if narrow else 'wide'}",
        "bad": f"The intervals are too narrow: {share:.0%} inside instead of {coverage:.0%}",
        "unknown": "Too few rows to judge the intervals",
    }[level]
    if not chance.holds(coverage):
        text += _reasons_for_narrow(model) if narrow else _reasons_for_wide(level)
    return Finding("intervals", level, headline, text)


def has_spike(y: Array) -> bool:
    """Whether many targets are the same number, so that intervals hold more than they promise."""
    share = np.unique(y, return_counts=True)[1].max() / len(y)
    return bool(share > SPIKE_SHARE and len(y) > MIN_ROWS_FOR_SPIKE)


def intervals_level(share: float, chance: Range, promised: float, spike: bool) -> Level:
    """The level for a share of targets inside, the interval of it, and the promised share.

    `spike` says that many targets are the same number.
    """
    if chance.holds(promised):
        return "good" if chance.high - chance.low <= OPEN_POINTS else "unknown"
    if share > promised:
        return "good" if spike else "fair"
    tolerated = min(MISSING_POINTS, MISSING_SHARE * (1 - promised))
    return "bad" if promised - share > tolerated else "fair"


def _reasons_for_narrow(model: Any) -> str:
    aggregator = aggregator_of(model)
    if aggregator is None:
        return (
            " This model does not calibrate its intervals on rows that were held out; "
            "HistogramRegressor does by default."
        )
    rows = aggregator.rows
    few = f" They were calibrated on {rows:.0f} rows only." if rows < FEW_CALIBRATION_ROWS else ""
    return (
        " These rows may differ from those of the training, or rows of the training may depend on "
        "each other (the same person, place or day), so that those held out were too easy." + few
    )


def _reasons_for_wide(level: Level) -> str:
    if level == "good":
        return " Many targets are the same number, and an interval holds all of them or none."
    return " They are safe, but say less than they could: these rows may be easier."


# Training


def training_finding(errors: Array, known: KnownError | None, moved: Sequence[str]) -> Finding:
    """Whether a model with these errors errs as it did in training.

    `moved` says which columns have changed, in words.
    """
    changed = f" Columns that have changed since: {'; '.join(moved)}." if moved else ""
    if known is None:
        return Finding("training", "unknown", "The error in training is not known", changed.strip())
    text = f"The mean absolute error is {_text(np.abs(errors).mean())}, {known.text}."
    if len(errors) < MIN_ROWS_FOR_ERRORS or known.mae == 0 or not known.held_out:
        level: Level = "unknown"
    else:
        mean = mean_range(np.abs(errors), known.rows)
        factor = Range(mean.low / known.mae, mean.high / known.mae)
        level = training_level(factor)
        ratio = np.abs(errors).mean() / known.mae
        text += f" That is a factor of {ratio:.2f}"
        text += f" (95% interval {factor.low:.2f} to {factor.high:.2f})."
    headline = {
        "good": "The error is like that in training",
        "fair": "The error is a little larger than in training",
        "bad": "The error is much larger than in training",
        "unknown": "Whether something has shifted cannot be told",
    }[level]
    if level in ("fair", "bad"):
        text += (
            " Something may have shifted since, or the rows of the training were too much alike."
        )
    if level == "unknown":
        text += _why_unknown(len(errors), known)
    return Finding("training", level, headline, text + changed)


def training_level(factor: Range) -> Level:
    """The level for an interval of the error here over that in training."""
    if factor.low > 1:
        return "bad" if factor.low > WORSE_ERROR else "fair"
    open_factor = factor.high / factor.low if factor.low > 0 else math.inf
    return "unknown" if factor.holds(1) and open_factor > OPEN_FACTOR else "good"


def _why_unknown(n_rows: int, known: KnownError) -> str:
    if not known.held_out:
        return " Training has left out no rows, so a larger error says little."
    return f" {n_rows} rows are too few to tell."


def _rmse(errors: Array) -> float:
    return math.sqrt(np.square(errors).mean())


def _text(value: float) -> str:
    return number_text(float(value))


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
