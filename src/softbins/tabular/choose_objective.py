"""The histograms that the networks of a table learn: their bins, and how far targets are blurred.

Trees have made forecasts of held-out rows before, whose errors say how much noise there is.
"""

from __future__ import annotations

from softbins.bins import Bins
from softbins.nn.objectives import Objective
from softbins.tabular.auto_bins import (
    bias_of_bins,
    bins_for_noise,
    covering_bins,
    equal_bins,
    warn_of_bias,
    warn_of_far_target,
    with_blurred_head,
)
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import TargetDefaults
from softbins.tabular.hyperparameters import Hyperparameters
from softbins.tabular.objectives import histogram_objective
from softbins.tabular.targets import check_range
from softbins.tabular.tree_growth import GrownTrees


def choose_objective(
    data: TrainingData, chosen: Hyperparameters, trees: GrownTrees | None
) -> Objective:
    """A sharp histogram and, unless `blur` is None, one of blurred targets beside it."""
    y, bins, sigma = data.target, chosen.bins, chosen.sigma
    if not isinstance(bins, Bins):
        bins, sigma = choose_bins(data, chosen, trees, bins, sigma)
    check_range(y, bins.low, bins.high)
    warn_of_far_target(y)
    bias = bias_of_bins(histogram_objective(bins, sigma), y)
    if chosen.warns_of_bias and bins.atoms is None:
        warn_of_bias(bias, y)
    sharp = histogram_objective(bins.with_bias(bias), sigma)
    if chosen.blur is None:
        return sharp
    blur = choose_blur(data, chosen, trees)
    count = chosen.defaults.targets.blurred_bins
    return with_blurred_head(y, sharp, blur, count, chosen.defaults.bins)


def choose_bins(
    data: TrainingData,
    chosen: Hyperparameters,
    trees: GrownTrees | None,
    count: int,
    sigma: float,
) -> tuple[Bins, float]:
    """So many bins, or where they may adapt those that targets and noise ask for, and a sigma."""
    defaults, support = chosen.defaults.bins, chosen.support(data.target)
    if support.step is not None:
        bins = support.lattice(data.target, chosen.defaults.support.margin)
        return bins, sigma * min(bins.count / count, 1.0)
    if not chosen.adaptive_bins:
        return support.restrict(equal_bins(data.target, count, sigma, defaults)), sigma
    bins = covering_bins(data.target, count, sigma, defaults)
    if trees is not None:
        bins = bins_for_noise(bins, trees.held_out, trees.targets, defaults)
    return support.restrict(bins), sigma


def choose_blur(data: TrainingData, chosen: Hyperparameters, trees: GrownTrees | None) -> float:
    """The standard deviation of blurred targets as a share of their range: as given, or auto."""
    if chosen.blur is not None and chosen.blur != "auto":
        return chosen.blur
    spread = float(data.target.max() - data.target.min())
    return automatic_blur(None if trees is None else trees.error, spread, chosen.defaults.targets)


def automatic_blur(noise: float | None, spread: float, defaults: TargetDefaults) -> float:
    """A blur above the noise, which is the error that the trees are left with."""
    if noise is None or spread == 0:
        return defaults.blur_without_noise_estimate
    blur = defaults.blur_per_noise * noise / spread
    return min(max(blur, defaults.min_blur), defaults.max_blur)
