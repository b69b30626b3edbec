"""Bins for the targets of a table: equal, stretched towards heavy tails, or as errors ask for.

And what they cost.
"""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._checks import require_number
from softbins.bins import Bias, Bins
from softbins.histogram import Histogram
from softbins.losses import HistogramLoss
from softbins.nn.objectives import HistogramObjective, Objective
from softbins.targets import Gaussian

Array = NDArray[np.float64]

ROOM = 3.0  # sigmas between the outermost targets and the ends of the bins
HEAVY = 0.05  # where the middle of the targets takes up less of their range, tails are heavy
PLACES = 20  # where errors are looked at, at most
AT_A_PLACE = 50  # forecasts, at least
CELLS = 8  # into which a bin is cut, to put edges between them
FINEST = 16  # bins that an error may ask for, for each that there was
MOST = 16  # the same, as a multiple of what is asked for on average
ALIKE = 1.25  # how much denser bins would have to become for it to be worth while
KNOTS = 16  # for each bin, in the table of a stretched target's mean
JUDGED = 10_000  # targets whose bias is looked at, at most
WORTH_SAYING = 0.01  # of the targets' standard deviation


def equal_bins(y: Array, count: int, sigma: float) -> Bins:
    """Equal bins that cover the targets with room for their Gaussians."""
    _check(count, sigma)
    return Bins.covering(y, count, sigma, ROOM)


def automatic_bins(y: Array, count: int, sigma: float) -> Bins:
    """Equal bins that cover the targets, or stretched ones if their tails are heavy.

    Stretched edges are equally spaced in asinh((y - median) / spread): almost equal about the
    median, and wider in proportion to the distance from it in the tails.
    """
    _check(count, sigma)
    low, first, median, third, high = np.quantile(y, (0, 0.25, 0.5, 0.75, 1))
    tenth, ninetieth = np.quantile(y, (0.1, 0.9))
    middle = max(third - first, (ninetieth - tenth) / 3)
    if middle == 0 or middle >= HEAVY * (high - low) or not math.isfinite(high / middle):
        return equal_bins(y, count, sigma)
    spread = third - first if third > first else middle
    ends = np.arcsinh((np.array([low, high]) - median) / spread)
    return Bins(median + spread * np.sinh(Bins.covering(ends, count, sigma, ROOM).edges.numpy()))


def bins_for_noise(bins: Bins, predicted: Array, y: Array) -> Bins:
    """As many bins on the same range, narrower where forecasts of `y` err less than elsewhere.

    Small counts, say, have small errors, which bins for the large ones would blur. Half of the
    bins stay where they were, so that none is more than twice as wide; half go where the errors
    ask for them. If those are much alike, or too few to tell, nothing changes.
    """
    groups = min(PLACES, len(y) // AT_A_PLACE)
    if groups < 2:
        return bins
    old = bins.edges.numpy()
    cells = np.interp(np.arange(CELLS * bins.count + 1) / CELLS, np.arange(len(old)), old)
    error = _errors_at((cells[:-1] + cells[1:]) / 2, predicted, y, groups)
    density = _density(error / np.repeat(bins.widths.numpy(), CELLS))
    if density.max() < ALIKE * density.min():
        return bins
    number = np.concatenate([[0], np.cumsum(density)])
    places = np.linspace(0, number[-1], bins.count + 1)
    edges = np.interp(places, number, cells)
    return Bins(edges) if (np.diff(edges) > 0).all() else bins


def _density(error: Array) -> Array:
    """How many bins there are to be for each that there was, by the error counted in its width."""
    asked = 1 / np.maximum(error, 1 / FINEST)
    asked = np.minimum(asked / asked.mean(), MOST)
    density: Array = (1 + asked / asked.mean()) / 2
    return density


def _errors_at(places: Array, predicted: Array, y: Array, groups: int) -> Array:
    """The mean absolute error of forecasts about each place, from groups of equal size."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    middles = [predicted[part].mean() for part in parts]
    means = [np.abs(y[part] - predicted[part]).mean() for part in parts]
    found: Array = np.interp(places, middles, means)
    return found


def _check(count: int, sigma: float) -> None:
    require_number("sigma", sigma)
    room = max(2 * ROOM * sigma, 1)
    if not isinstance(count, numbers.Integral) or count <= room:
        raise ValueError(
            f"bins: need a whole number of more than {room:g}, the room for sigma={sigma:g} at "
            f"both ends, got {count!r}"
        )


def histogram_objective(bins: Bins, sigma: float) -> TableObjective:
    """HL-Gaussian on those bins, with sigma in bin widths."""
    kind = TableObjective if bins.step is not None else StretchedObjective
    return kind(bins.low, bins.high, bins, Gaussian.of_bins(sigma))


@dataclass(frozen=True, eq=False)
class TableObjective(HistogramObjective):
    """HL-Gaussian for a table, whose targets become histograms once for all epochs."""

    def precompute_targets(self, y: Tensor) -> Tensor:
        """The weights p."""
        return self.weights(y.double()).float()

    def gradient(self, outputs: Tensor, precomputed: Tensor, weight: Tensor | None) -> Tensor:
        """That is f - p (Appendix A), times the weights of the rows."""
        gradient = outputs.softmax(-1).sub_(precomputed)
        if weight is None:
            return gradient.div_(outputs.shape[-2])
        return gradient.mul_(weight.unsqueeze(-1))


@dataclass(frozen=True, eq=False)
class StretchedObjective(TableObjective):
    """HL-Gaussian on unequal bins: Gaussian where each bin counts as one, and with the mean y.

    On bins that grow to the right, a Gaussian about the place of y would have a mean above y.
    It stands a little to the left instead, so that the mean in the target's own unit is exact.
    """

    def __post_init__(self) -> None:
        even = Bins.uniform(0.0, self.bins.count, self.bins.count)
        places = torch.linspace(0, even.count, KNOTS * even.count + 1, dtype=torch.float64)
        means = self.target.weights(places, even) @ self.bins.centers
        # Far out, rounding may leave neighbours the same mean.
        kept = torch.cat([torch.ones(1, dtype=torch.bool), means.diff() > 0])
        object.__setattr__(self, "even", even)
        object.__setattr__(self, "knots", (means[kept].contiguous(), places[kept]))

    def place(self, y: Tensor) -> Tensor:
        """Where the Gaussian of each target stands, counted in bins from the left."""
        means, places = (part.to(y.device) for part in self.__dict__["knots"])
        value = y.double().contiguous()
        right = torch.searchsorted(means, value).clamp(1, len(means) - 1)
        start, end = means[right - 1], means[right]
        share = ((value - start) / (end - start)).clamp(0, 1)
        return torch.lerp(places[right - 1], places[right], share).to(y.dtype)

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """-sum_i p_i log f_i."""
        return super().losses(outputs, self.place(y))

    def batch_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The same for all rows at once."""
        return super().batch_loss(outputs, self.place(y), weight)

    def weights(self, y: Tensor) -> Tensor:
        """The target's distribution over the bins."""
        even: Bins = self.__dict__["even"]
        return self.target.weights(self.place(y.double()), even)

    def _loss(self, reduction: str) -> HistogramLoss:
        return self._loss_on(self.__dict__["even"], reduction)


@dataclass(frozen=True, eq=False)
class BlurredObjective(Objective):
    """Two histograms: one of blurred targets, whose mean is the prediction, and a sharp one.

    The wider a target's Gaussian, the better the mean that a network learns, up to a few times
    the noise, and the less of the noise's own shape its histogram shows. The hidden layers learn
    from the blurred one alone, and the sharp one is fitted to their units (softbins.heads).
    """

    blurred: TableObjective
    sharp: TableObjective

    @property
    def outputs(self) -> int:
        """Those of both."""
        return self.blurred.outputs + self.sharp.outputs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The sum of both losses."""
        blurred, sharp = self._parts(outputs)
        return self.blurred.losses(blurred, y) + self.sharp.losses(sharp, y)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the blurred histogram, no farther than the sharp one reaches."""
        return self.blurred.decode(self._parts(outputs)[0]).clamp(self.low, self.high)

    @property
    def has_distribution(self) -> bool:
        """Whether `distribution` gives one: it does."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The sharp histogram."""
        return self.sharp.distribution(self._parts(outputs)[1])

    def outputs_for(self, y: Tensor) -> Tensor:
        """Both targets' own weights."""
        return torch.cat([self.blurred.outputs_for(y), self.sharp.outputs_for(y)], -1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        first, second = outputs.split([self.blurred.outputs, self.sharp.outputs], -1)
        return first.contiguous(), second.contiguous()


def blurred_objective(
    y: Array, sharp: TableObjective, share: float, count: int
) -> BlurredObjective:
    """Blurred targets beside sharp ones: Gaussians with a share of the range as deviation."""
    require_number("blur", share)
    sigma = share * count / (1 + 2 * ROOM * share)
    bins = automatic_bins(y, count, sigma)
    return BlurredObjective(sharp.low, sharp.high, histogram_objective(bins, sigma), sharp)


def sharp_part(objective: Objective) -> HistogramObjective:
    """The histogram that is the predicted distribution."""
    sharp = objective.sharp if isinstance(objective, BlurredObjective) else objective
    assert isinstance(sharp, HistogramObjective)
    return sharp


def learnt_part(objective: Objective) -> Objective:
    """What the hidden layers learn from."""
    return objective.blurred if isinstance(objective, BlurredObjective) else objective


def bias(objective: HistogramObjective, y: Array) -> Bias:
    """How far the mean of a target's own histogram is from it, at worst, and why.

    Truncation is what a continuous Gaussian, cut off at the ends of the bins, would already
    miss; discretisation is the rest.
    """
    distinct = np.unique(y)
    # Of very many the ends and some between them, for the weights of all would not fit in memory.
    some = np.linspace(0, len(distinct) - 1, min(len(distinct), JUDGED)).round().astype(np.int64)
    values = torch.from_numpy(distinct[some])
    total = objective.weights(values) @ objective.bins.centers - values
    cut = _truncation(values, objective)
    return Bias((total - cut).abs().max().item(), cut.abs().max().item())


def _truncation(y: Tensor, objective: HistogramObjective) -> Tensor:
    """The mean of a Gaussian about y that is cut off at both ends, minus y."""
    step = objective.bins.step
    if step is None or not isinstance(objective.target, Gaussian):
        return torch.zeros_like(y)  # stretched targets stand where nothing is lost
    sigma = float(objective.target.sigma) * step
    ends = objective.bins.edges[[0, -1]]
    z = (ends - y.unsqueeze(-1)) / sigma
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    inside: Tensor = torch.special.ndtr(z).diff().squeeze(-1)
    return -sigma * density.diff().squeeze(-1) / inside


def warn_of_bias(bias: Bias, y: Array) -> None:
    """Say so if the bins alone cost more than a hundredth of the targets' spread."""
    spread = float(y.std())
    # Rounding leaves a constant target some spread.
    if y.min() < y.max() and sum(bias) > WORTH_SAYING * spread:
        warnings.warn(
            f"bins: predictions may be off by {bias.discretisation:.3g} because bins are wide and "
            f"by {bias.truncation:.3g} because they end near targets, more than "
            f"{WORTH_SAYING:.0%} of the targets' standard deviation {spread:.3g}; "
            "take more bins, a larger sigma, or bins that reach further",
            UserWarning,
            stacklevel=6,  # where the user calls fit
        )
