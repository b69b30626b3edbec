"""Bins for the targets of a table, and what they cost.

Bins are equal, stretched towards heavy tails, or denser where errors are small.
"""

from __future__ import annotations

import math
import numbers

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.checks import require_number
from softbins._core.warnings import warn_user
from softbins.bins import Bias, Bins
from softbins.nn.objectives import HistogramObjective
from softbins.tabular.defaults import BinDefaults
from softbins.tabular.objectives import (
    PrecomputedObjective,
    TwoHeadObjective,
    histogram_objective,
)
from softbins.targets import Gaussian

Array = NDArray[np.float64]

CELLS_PER_BIN = 8  # into which bins are cut to place new edges: finer than edges need to be
MAX_TARGETS_FOR_BIAS = 10_000  # whose weights are held in memory at once
WARN_FAR_TARGET = 1e6  # times the distance between the tenth and the ninetieth percentile
WARN_BIAS_SHARE = 0.01  # of the targets' standard deviation, from which on bins are warned of


def equal_bins(y: Array, count: int, sigma: float, defaults: BinDefaults) -> Bins:
    """Equal bins that cover the targets with room for their Gaussians."""
    _check_count(count, sigma, defaults.margin)
    return Bins.covering(y, count, sigma, defaults.margin)


def covering_bins(y: Array, count: int, sigma: float, defaults: BinDefaults) -> Bins:
    """Equal bins that cover the targets, or stretched ones if their tails are heavy.

    Stretched edges are equally spaced in asinh((y - median) / spread): almost equal about the
    median, and wider in proportion to the distance from it in the tails.
    """
    _check_count(count, sigma, defaults.margin)
    low, first, median, third, high = np.quantile(y, (0, 0.25, 0.5, 0.75, 1))
    tenth, ninetieth = np.quantile(y, (0.1, 0.9))
    middle = max(third - first, (ninetieth - tenth) / 3)
    is_heavy = 0 < middle < defaults.heavy_tail_share * (high - low)
    if not is_heavy or not math.isfinite(high / middle):
        return equal_bins(y, count, sigma, defaults)
    spread = third - first if third > first else middle
    ends = np.arcsinh((np.array([low, high]) - median) / spread)
    even = Bins.covering(ends, count, sigma, defaults.margin).edges.numpy()
    return Bins(median + spread * np.sinh(even))


def bins_for_noise(bins: Bins, predicted: Array, y: Array, defaults: BinDefaults) -> Bins:
    """As many bins on the same range, narrower where forecasts of `y` err less than elsewhere.

    Small counts, say, have small errors, which bins for the large ones would blur. Half of the
    bins stay where they were, so that none is more than twice as wide; half go where the errors
    ask for them. If those are much alike, or too few to tell, nothing changes.
    """
    groups = min(defaults.max_places, len(y) // defaults.min_rows_per_place)
    if groups < 2:
        return bins
    old = bins.edges.numpy()
    places = np.arange(CELLS_PER_BIN * bins.count + 1) / CELLS_PER_BIN
    cells = np.interp(places, np.arange(len(old)), old)
    error = _errors_at((cells[:-1] + cells[1:]) / 2, predicted, y, groups)
    relative = error / np.repeat(bins.widths.numpy(), CELLS_PER_BIN)
    density = _density(relative, defaults.max_density)
    if density.max() < defaults.min_density_ratio * density.min():
        return bins
    number = np.concatenate([[0], np.cumsum(density)])
    edges = np.interp(np.linspace(0, number[-1], bins.count + 1), number, cells)
    return Bins(edges) if (np.diff(edges) > 0).all() else bins


def _density(error: Array, most: float) -> Array:
    """How many bins there are to be for each that there was, by the error counted in its width."""
    asked = 1 / np.maximum(error, 1 / most)
    asked = np.minimum(asked / asked.mean(), most)
    density: Array = (1 + asked / asked.mean()) / 2
    return density


def _errors_at(places: Array, predicted: Array, y: Array, groups: int) -> Array:
    """The mean absolute error of forecasts about each place, from groups of equal size."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    middles = [predicted[part].mean() for part in parts]
    means = [np.abs(y[part] - predicted[part]).mean() for part in parts]
    found: Array = np.interp(places, middles, means)
    return found


def _check_count(count: int, sigma: float, margin: float) -> None:
    require_number("sigma", sigma)
    room = max(2 * margin * sigma, 1)
    if not isinstance(count, numbers.Integral) or count <= room:
        raise ValueError(
            f"bins: need a whole number of more than {room:g}, the room for sigma={sigma:g} at "
            f"both ends, got {count!r}"
        )


def with_blurred_head(
    y: Array, sharp: PrecomputedObjective, blur: float, count: int, defaults: BinDefaults
) -> TwoHeadObjective:
    """A head for blurred targets beside the sharp one.

    Their Gaussians have `blur` times the range of `y` as standard deviation.
    """
    require_number("blur", blur)
    sigma = blurred_sigma(blur, count, defaults)
    blurred = histogram_objective(covering_bins(y, count, sigma, defaults), sigma)
    return TwoHeadObjective(sharp.low, sharp.high, blurred, sharp)


def blurred_sigma(blur: float, count: int, defaults: BinDefaults) -> float:
    """A share of the targets' range in widths of `count` bins, which have a margin beyond it."""
    return blur * count / (1 + 2 * defaults.margin * blur)


def bias_of_bins(objective: HistogramObjective, y: Array) -> Bias:
    """How far the mean of a target's own histogram is from it, at worst, and why.

    Truncation is what a continuous Gaussian, cut off at the ends of the bins, would already
    miss; discretisation is the rest.
    """
    distinct = np.unique(y)
    # Of very many targets both ends and some between them.
    count = min(len(distinct), MAX_TARGETS_FOR_BIAS)
    some = np.linspace(0, len(distinct) - 1, count).round().astype(np.int64)
    values = torch.from_numpy(distinct[some])
    total = objective.weights(values) @ objective.bins.centers - values
    cut = _truncation(values, objective)
    return Bias((total - cut).abs().max().item(), cut.abs().max().item())


def _truncation(y: Tensor, objective: HistogramObjective) -> Tensor:
    """The mean of a Gaussian about y that is cut off at both ends, minus y."""
    step = objective.bins.step
    if step is None or not isinstance(objective.target, Gaussian):
        return torch.zeros_like(y)  # on unequal bins, Gaussians stand where nothing is lost
    sigma = float(objective.target.sigma) * step
    ends = objective.bins.edges[[0, -1]]
    z = (ends - y.unsqueeze(-1)) / sigma
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    inside: Tensor = torch.special.ndtr(z).diff().squeeze(-1)
    return -sigma * density.diff().squeeze(-1) / inside


def warn_of_bias(bias: Bias, y: Array) -> None:
    """Warn if the bins alone cost more than a hundredth of the targets' spread."""
    spread = float(y.std())
    # Rounding leaves a constant target some spread.
    if y.min() < y.max() and sum(bias) > WARN_BIAS_SHARE * spread:
        warn_user(
            f"bins: predictions may be off by {bias.discretisation:.3g} because bins are wide and "
            f"by {bias.truncation:.3g} because they end near targets, more than "
            f"{WARN_BIAS_SHARE:.0%} of the targets' standard deviation {spread:.3g}; "
            "take more bins, a larger sigma, or bins that reach further"
        )


def warn_of_far_target(y: Array) -> None:
    """Warn if a target is so far away that a millionth of its probability moves every mean."""
    tenth, median, ninetieth = np.quantile(y, (0.1, 0.5, 0.9))
    row = int(np.abs(y - median).argmax())
    if ninetieth > tenth and abs(y[row] - median) > WARN_FAR_TARGET * (ninetieth - tenth):
        warn_user(
            f"y: the target {y[row]:.3g} at index {row} is more than a million times as far from "
            "the median as most; bins that reach it leave the means of all rows uncertain, and "
            "medians and quantiles vague; leave the row out, or fit the logarithm"
        )
