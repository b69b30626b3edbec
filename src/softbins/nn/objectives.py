"""Objectives: how many outputs a network needs, their loss, and the prediction they stand for.

"All the approaches use the same neural network, with differences only in the output layer"
(Section 4): the differences are in this file. Outputs have the shape (..., rows, outputs), where
leading dimensions are members of a stack, and targets the shape (..., rows), in their own unit. A
parameter of an objective is a number, or a tensor (V, 1) with one number for each member.

    objective = make_objective("hl-gaussian", low=0.0, high=10.0)
    objective.batch_loss(network(x), y).backward()
    prediction = objective.decode(network(x))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Normal

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import HistogramLoss
from softbins.nn.settings import METHODS
from softbins.targets import Gaussian, OneBin, Target, TwoHot, UniformMix

Parameter = float | Tensor

MIN_WEIGHT_FOR_LOG = 1e-30  # stands for a weight of 0, whose logarithm would be infinite
# A mixture density is shown as a histogram, with a margin on both sides of the targets' range.
MIXTURE_HISTOGRAM_BINS = 2000
MIXTURE_HISTOGRAM_MARGIN = 0.5  # as a share of the range
MIN_MIXTURE_BIN_PROBABILITY = 1e-12
NARROWEST_MIXTURE_OUTPUT = -20.0  # softplus of it is about 2e-9


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """What the outputs of a network mean, for targets in the range [low, high]."""

    low: float
    high: float

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of outputs that the network needs."""

    @abstractmethod
    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss (..., rows) of every row."""

    @abstractmethod
    def decode(self, outputs: Tensor) -> Tensor:
        """The prediction (..., rows) of every row, in the unit of the target."""

    @property
    def mean_outputs(self) -> int:
        """How many of the outputs, from the first on, `decode` needs."""
        return self.outputs

    def batch_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """One number to differentiate: each member's mean loss over its rows, summed over members.

        With a `weight` (..., rows), the weighted sum over rows takes the place of the mean.
        """
        losses = self.losses(outputs, y)
        return (losses * weight).sum() if weight is not None else losses.sum() / y.shape[-1]

    def precompute_targets(self, y: Tensor) -> Tensor | None:
        """What `gradient` needs of targets (n,), as (n, outputs); None if autograd is to do it."""
        return None

    def gradient(self, outputs: Tensor, precomputed: Tensor, weight: Tensor | None) -> Tensor:
        """The gradient of `batch_loss` in the outputs, from what `precompute_targets` returned."""
        raise NotImplementedError(f"{type(self).__name__} leaves its gradient to autograd")

    @property
    def has_distribution(self) -> bool:
        """Whether a distribution is predicted, and not only a number."""
        return False

    def distribution(self, outputs: Tensor) -> Histogram:
        """The predicted distribution of every row."""
        raise ValueError(f"objective: {type(self).__name__} predicts a number, no distribution")

    @abstractmethod
    def outputs_for(self, y: Tensor) -> Tensor:
        """Outputs (..., outputs) that predict `y` (...) as well as this objective can."""

    @property
    def target_noise(self) -> Parameter:
        """The standard deviation of noise that training adds to the targets, in their unit."""
        return 0.0

    @property
    def clipping(self) -> Parameter | None:
        """The largest norm of a member's gradient, to which training clips it."""
        return None

    def select_members(self, index: Tensor) -> Self:
        """The same objective for the members with these indices."""
        names = [field.name for field in fields(self)]
        return replace(self, **{name: _of_members(getattr(self, name), index) for name in names})

    def _scaled(self, y: Tensor) -> Tensor:
        return (y - self.low) / (self.high - self.low)

    def _unscaled(self, value: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * value


def _finite_log(weights: Tensor) -> Tensor:
    """Logits of the weights of a histogram, which may be 0."""
    return weights.clamp_min(MIN_WEIGHT_FOR_LOG).log()


def _of_members(value: Any, index: Tensor) -> Any:
    """A parameter for some members; it differs between members if it is, or holds, a tensor."""
    if isinstance(value, Tensor) and value.ndim:
        return value[index]
    if isinstance(value, (Gaussian, UniformMix)):
        names = [field.name for field in fields(value)]
        return replace(value, **{name: _of_members(getattr(value, name), index) for name in names})
    return value


@dataclass(frozen=True, eq=False)
class L2(Objective):
    """Squared error on targets scaled to [0, 1]."""

    @property
    def outputs(self) -> int:
        """The number of outputs: one."""
        return 1

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The squared error (f - y)^2 of every row, in scaled targets."""
        return (outputs.squeeze(-1) - self._scaled(y)).square()

    def decode(self, outputs: Tensor) -> Tensor:
        """The output, in the unit of the target."""
        return self._unscaled(outputs.squeeze(-1))

    def outputs_for(self, y: Tensor) -> Tensor:
        """The scaled target, in every output."""
        return self._scaled(y).unsqueeze(-1).expand(*y.shape, self.outputs)


@dataclass(frozen=True, eq=False)
class L1(L2):
    """Absolute error on targets scaled to [0, 1]."""

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The absolute error |f - y| of every row, in scaled targets."""
        return (outputs.squeeze(-1) - self._scaled(y)).abs()


@dataclass(frozen=True, eq=False)
class L2Noise(L2):
    """l2 with fresh Gaussian noise on the scaled targets at every training step."""

    noise: Parameter = 1e-2

    @property
    def target_noise(self) -> Parameter:
        """The standard deviation of the noise, in the unit of the target."""
        return self.noise * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class L2Clipping(L2):
    """l2 with the gradient's norm clipped at every training step."""

    clip: Parameter = 1.0

    @property
    def clipping(self) -> Parameter | None:
        """The largest norm of a member's gradient."""
        return self.clip


@dataclass(frozen=True, eq=False)
class L2Many(L2):
    """l2 with many outputs that each predict the target (the footnote of Section 4)."""

    count: int = 100

    @property
    def outputs(self) -> int:
        """The number of outputs, `count`."""
        return self.count

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean squared error over the outputs, in scaled targets."""
        return (outputs - self._scaled(y).unsqueeze(-1)).square().mean(-1)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the outputs, in the unit of the target."""
        return self.decode_each(outputs).mean(-1)

    def decode_each(self, outputs: Tensor) -> Tensor:
        """The prediction of every single output, in the unit of the target."""
        return self._unscaled(outputs)


@dataclass(frozen=True, eq=False)
class L2Softmax(L2):
    """Squared error of the mean of a softmax over bins: (sum_i f_i c_i - y)^2."""

    count: int = 100

    @property
    def outputs(self) -> int:
        """The number of outputs: one for each bin."""
        return self.count

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The squared error of the mean, in scaled targets."""
        return (self._mean(outputs) - self._scaled(y)).square()

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean, in the unit of the target."""
        return self._unscaled(self._mean(outputs))

    def outputs_for(self, y: Tensor) -> Tensor:
        """All weight on the two bins whose centers enclose the target."""
        return _finite_log(TwoHot().weights(y, Bins.uniform(self.low, self.high, self.count)))

    def _mean(self, outputs: Tensor) -> Tensor:
        centers = (torch.arange(self.count, device=outputs.device) + 0.5) / self.count
        return (torch.softmax(outputs, -1) * centers).sum(-1)


@dataclass(frozen=True, eq=False)
class HistogramObjective(Objective):
    """The Histogram Loss with any target distribution (Equation 2), in the target's own unit."""

    bins: Bins
    target: Target

    @property
    def outputs(self) -> int:
        """The number of outputs: one for each bin."""
        return self.bins.count

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The cross entropy -sum_i p_i log f_i of every row."""
        return self._loss("none").forward(outputs, y)

    def batch_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """As for every objective, with a gradient that is found together with the loss."""
        if weight is None:
            return self._loss("sum").sum_of_means(outputs, y)
        return self._loss("sum").forward(outputs, y, weight)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the histogram."""
        return Histogram(self.bins, logits=outputs, validate_args=False).mean

    @property
    def has_distribution(self) -> bool:
        """Whether a distribution is predicted: yes."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The predicted histogram of every row."""
        return Histogram(self.bins, logits=outputs)

    def outputs_for(self, y: Tensor) -> Tensor:
        """The logarithms of the target distribution's weights."""
        return _finite_log(self.weights(y)).to(y.dtype)

    def weights(self, y: Tensor) -> Tensor:
        """The target distribution's weights (..., bins) on the bins."""
        return self.target.weights(y, self.bins)

    def _loss(self, reduction: Any) -> HistogramLoss:
        return self._loss_on(self.bins, reduction)

    def _loss_on(self, bins: Bins, reduction: Any) -> HistogramLoss:
        key = f"_{reduction}"
        if key not in self.__dict__:
            # Unchecked: the other members of a stack go on when one of them diverges.
            loss = HistogramLoss(bins, self.target, reduction, check_logits=False)
            object.__setattr__(self, key, loss)
        known: HistogramLoss = self.__dict__[key]
        return known


@dataclass(frozen=True, eq=False)
class MixtureDensity(Objective):
    """A mixture density network (Bishop, 1994) on targets scaled to [0, 1].

    The standard deviation of a component is softplus of an output, plus `min_width`. No component
    can shrink onto a repeated target then, so that the likelihood stays bounded.
    """

    components: int = 8
    min_width: float = 1e-2

    @property
    def outputs(self) -> int:
        """The number of outputs: a weight, a mean and a width for each component."""
        return 3 * self.components

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood of every scaled target."""
        logits, means, widths = self._parts(outputs)
        z = (self._scaled(y).unsqueeze(-1) - means) / widths
        log_density = -z.square() / 2 - widths.log() - math.log(2 * math.pi) / 2
        return -torch.logsumexp(torch.log_softmax(logits, -1) + log_density, -1)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean of the mixture, in the unit of the target."""
        logits, means, _ = self._parts(outputs)
        return self._unscaled((torch.softmax(logits, -1) * means).sum(-1))

    @property
    def has_distribution(self) -> bool:
        """Whether a distribution is predicted: yes."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The mixture on fine bins that reach half a range beyond [low, high]."""
        logits, means, widths = self._parts(outputs)
        edges = self._scaled_edges.to(outputs.device).unsqueeze(-1)
        # Not validated by torch, which cannot do it in an export; a histogram finds NaN itself.
        gaussians = Normal(means.unsqueeze(-2), widths.unsqueeze(-2), validate_args=False)
        cdf = (gaussians.cdf(edges) * logits.softmax(-1).unsqueeze(-2)).sum(-1)
        probs = cdf.diff(dim=-1).clamp_min(0)
        return Histogram(self._bins, probs=probs + MIN_MIXTURE_BIN_PROBABILITY)

    @cached_property
    def _scaled_edges(self) -> Tensor:
        """The edges of the bins that show the mixture, where targets lie in [0, 1]."""
        ends = (-MIXTURE_HISTOGRAM_MARGIN, 1 + MIXTURE_HISTOGRAM_MARGIN)
        return torch.linspace(*ends, MIXTURE_HISTOGRAM_BINS + 1)

    @cached_property
    def _bins(self) -> Bins:
        return Bins(self._unscaled(self._scaled_edges.double()))

    def outputs_for(self, y: Tensor) -> Tensor:
        """All components on the target, as narrow as they may be."""
        means = self._scaled(y).unsqueeze(-1).expand(*y.shape, self.components)
        widths = torch.full_like(means, NARROWEST_MIXTURE_OUTPUT)
        return torch.cat([torch.zeros_like(means), means, widths], -1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, means, raw = outputs.chunk(3, -1)
        return logits, means, F.softplus(raw) + self.min_width


def make_objective(
    method: str,
    low: float,
    high: float,
    *,
    bins: int | Bins = 100,
    sigma: Parameter = 1.0,
    epsilon: Parameter = 1e-3,
    noise: Parameter = 1e-2,
    clip: Parameter = 1.0,
    components: int = 8,
) -> Objective:
    """The paper's method of that name, for targets in the range [low, high].

    `sigma` is in bin widths. Parameters that a method does not have are ignored.
    """
    if method not in METHODS:
        raise ValueError(f"objective: expected one of {', '.join(METHODS)}, got {method!r}")
    if method.startswith("hl-"):
        target = _target(method, sigma, epsilon)
        chosen = bins if isinstance(bins, Bins) else Bins.uniform(low, high, bins)
        return HistogramObjective(low, high, chosen, target)
    if not low < high:
        raise ValueError(f"low, high: need low < high, got low={low}, high={high}")
    count = bins.count if isinstance(bins, Bins) else bins
    match method:
        case "l1":
            return L1(low, high)
        case "l2-noise":
            return L2Noise(low, high, noise)
        case "l2-clipping":
            return L2Clipping(low, high, clip)
        case "l2-softmax":
            return L2Softmax(low, high, count)
        case "l2-many":
            return L2Many(low, high, count)
        case "mdn":
            return MixtureDensity(low, high, components)
    return L2(low, high)


def _target(method: str, sigma: Parameter, epsilon: Parameter) -> Target:
    if method == "hl-onebin":
        return OneBin()
    return UniformMix(epsilon) if method == "hl-uniform" else Gaussian.of_bins(sigma)
