"""What the networks of a table learn: Gaussian histograms, on equal and on unequal bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import HistogramLoss
from softbins.nn.objectives import HistogramObjective, Objective
from softbins.targets import Gaussian

KNOTS_PER_BIN = 16  # in the table that inverts the mean of a Gaussian on unequal bins


def histogram_objective(bins: Bins, sigma: float) -> PrecomputedObjective:
    """HL-Gaussian on those bins, with sigma in bin widths."""
    if bins.atoms is not None:
        wide = histogram_objective(Bins(torch.unique_consecutive(bins.edges)), sigma)
        return AtomsObjective(bins.low, bins.high, bins, wide.target, wide)
    kind = PrecomputedObjective if bins.step is not None else UnequalBinsObjective
    return kind(bins.low, bins.high, bins, Gaussian.of_bins(sigma))


@dataclass(frozen=True, eq=False)
class PrecomputedObjective(HistogramObjective):
    """HL-Gaussian for a table: targets become histograms once, for all epochs."""

    def precompute_targets(self, y: Tensor) -> Tensor:
        """The weights p of the targets' histograms."""
        return self.weights(y.double()).float()

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the histogram, as `Histogram` has it but with one softmax instead of two."""
        middle = (self.bins.low + self.bins.high) / 2
        places = (self.bins.centers - middle).to(outputs)
        return torch.softmax(outputs, -1) @ places + middle

    def gradient(self, outputs: Tensor, precomputed: Tensor, weight: Tensor | None) -> Tensor:
        """The gradient f - p (Appendix A), times the weights of the rows."""
        gradient = outputs.softmax(-1).sub_(precomputed)
        if weight is None:
            return gradient.div_(outputs.shape[-2])
        return gradient.mul_(weight.unsqueeze(-1))


@dataclass(frozen=True, eq=False)
class UnequalBinsObjective(PrecomputedObjective):
    """HL-Gaussian on unequal bins: Gaussian where each bin counts as one, and with the mean y.

    On bins that grow to the right, a Gaussian about the place of y would have a mean above y.
    It stands a little to the left instead, so that the mean in the target's own unit is exact.
    """

    @cached_property
    def even(self) -> Bins:
        """As many bins, each of which counts as one."""
        count = self.bins.count
        return Bins.uniform(0.0, count, count).to(self.bins.edges.device)

    @cached_property
    def knots(self) -> tuple[Tensor, Tensor]:
        """Means of Gaussians, and the places where those stand.

        Only a training needs them, and for thousands of bins they are gigabytes.
        """
        count, where = self.even.count, self.bins.edges.device
        steps = KNOTS_PER_BIN * count + 1
        places = torch.linspace(0, count, steps, dtype=torch.float64, device=where)
        means = self.target.weights(places, self.even) @ self.bins.centers
        # Far out, rounding may leave neighbours the same mean.
        first = torch.ones(1, dtype=torch.bool, device=where)
        rising = torch.cat([first, means.diff() > 0])
        return means[rising].contiguous(), places[rising]

    def place(self, y: Tensor) -> Tensor:
        """Where the Gaussian of each target stands, counted in bins from the left."""
        means, places = (part.to(y.device) for part in self.knots)
        value = y.double().contiguous()
        right = torch.searchsorted(means, value).clamp(1, len(means) - 1)
        start, end = means[right - 1], means[right]
        share = ((value - start) / (end - start)).clamp(0, 1)
        return torch.lerp(places[right - 1], places[right], share).to(y.dtype)

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss -sum_i p_i log f_i of every row."""
        return super().losses(outputs, self.place(y))

    def batch_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The same for all rows at once."""
        return super().batch_loss(outputs, self.place(y), weight)

    def weights(self, y: Tensor) -> Tensor:
        """The target's distribution over the bins."""
        return self.target.weights(self.place(y.double()), self.even)

    def _loss(self, reduction: str) -> HistogramLoss:
        return self._loss_on(self.even, reduction)


@dataclass(frozen=True, eq=False)
class AtomsObjective(PrecomputedObjective):
    """HL-Gaussian on bins with atoms: a target at an atom has all its weight there.

    The weights of other targets are those that `wide` gives the bins that are no atoms.
    """

    wide: PrecomputedObjective

    def weights(self, y: Tensor) -> Tensor:
        """The target's distribution over the bins and atoms."""
        atoms = self.bins.atoms
        assert atoms is not None
        weights = y.new_zeros(*y.shape, self.bins.count, dtype=torch.float64)
        # Atoms in the precision of the targets, which training rounds.
        at_atom = y.unsqueeze(-1) == self.bins.centers[atoms].to(y)
        none = ~at_atom.any(-1, keepdim=True)
        weights[..., atoms] = at_atom.double()
        weights[..., ~atoms] = self.wide.weights(y.double()).double() * none
        return weights

    def precompute_targets(self, y: Tensor) -> Tensor:
        """The weights p of the targets' histograms."""
        return self.weights(y).float()

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The cross entropy of every row."""
        return -(self.weights(y).to(outputs) * torch.log_softmax(outputs, -1)).sum(-1)

    def batch_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The same for all rows at once."""
        return Objective.batch_loss(self, outputs, y, weight)


@dataclass(frozen=True, eq=False)
class TwoHeadObjective(Objective):
    """Two histograms: one of blurred targets, whose mean is the prediction, and a sharp one.

    The wider a target's Gaussian, the better the mean that a network learns, up to a few times
    the noise, and the less of the noise's own shape its histogram shows. The hidden layers learn
    from the blurred one alone, and the sharp one is fitted to their units (softbins.nn.head).
    """

    blurred: PrecomputedObjective
    sharp: PrecomputedObjective

    @property
    def outputs(self) -> int:
        """The outputs of the blurred histogram, and behind them those of the sharp one."""
        return self.blurred.outputs + self.sharp.outputs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The sum of both losses for every row."""
        blurred, sharp = self._parts(outputs)
        return self.blurred.losses(blurred, y) + self.sharp.losses(sharp, y)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the blurred histogram, no farther than the sharp one reaches."""
        blurred = outputs[..., : self.blurred.outputs].contiguous()
        return self.blurred.decode(blurred).clamp(self.low, self.high)

    @property
    def mean_outputs(self) -> int:
        """The outputs of the blurred histogram are enough for a mean."""
        return self.blurred.outputs

    @property
    def has_distribution(self) -> bool:
        """Whether `distribution` gives one: it does."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The sharp histogram of every row."""
        return self.sharp.distribution(self._parts(outputs)[1])

    def outputs_for(self, y: Tensor) -> Tensor:
        """Both histograms of a target, as outputs."""
        return torch.cat([self.blurred.outputs_for(y), self.sharp.outputs_for(y)], -1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        first, second = outputs.split([self.blurred.outputs, self.sharp.outputs], -1)
        return first.contiguous(), second.contiguous()


def distribution_part(objective: Objective) -> HistogramObjective:
    """The objective of the histogram that is the predicted distribution."""
    sharp = objective.sharp if isinstance(objective, TwoHeadObjective) else objective
    assert isinstance(sharp, HistogramObjective)
    return sharp


def learnt_part(objective: Objective) -> Objective:
    """The objective that the hidden layers learn from."""
    return objective.blurred if isinstance(objective, TwoHeadObjective) else objective
