"""What the last layer means: how many outputs, their loss, and the prediction they stand for.

"All the approaches use the same neural network, with differences only in the output layer"
(Section 4): the differences are this file. Outputs have shape (..., rows, outputs), where leading
dimensions are members trained side by side, and targets (..., rows) are in their own unit. A
parameter of an objective is a number, or a tensor of shape (members, 1) with one for each member.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import HistogramLoss
from softbins.targets import Gaussian, OneBin, Target, TwoHot, UniformMix

METHODS = (
    "l2",
    "l1",
    "l2-noise",
    "l2-clipping",
    "l2-softmax",
    "hl-onebin",
    "hl-uniform",
    "hl-gaussian",
    "mdn",
    "l2-many",
)
Parameter = float | Tensor


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """What the outputs of a network mean for a target with the range [low, high]."""

    low: float
    high: float

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many outputs the network needs."""

    @abstractmethod
    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every row."""

    @abstractmethod
    def decode(self, outputs: Tensor) -> Tensor:
        """The prediction of every row, in the target's unit."""

    def total(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The sum over members of the mean over rows, or of the sum weighted with `weight`."""
        rows = self.rows(outputs, y)
        return (rows * weight).sum() if weight is not None else rows.sum() / y.shape[-1]

    def encoded(self, y: Tensor) -> Tensor | None:
        """All that `gradient` needs of targets, a row for each; None where autograd must do."""
        return None

    def gradient(self, outputs: Tensor, encoded: Tensor, weight: Tensor | None) -> Tensor:
        """The gradient of `total` in the outputs, from encoded targets."""
        raise NotImplementedError(f"{type(self).__name__} leaves its gradient to autograd")

    @property
    def has_distribution(self) -> bool:
        """Whether `distribution` gives one; objectives that predict numbers have none."""
        return False

    def distribution(self, outputs: Tensor) -> Histogram:
        """The predicted distribution of every row."""
        raise ValueError(f"objective: {type(self).__name__} predicts a number, no distribution")

    @abstractmethod
    def constant(self, y: Tensor) -> Tensor:
        """Outputs that predict `y` (...) as well as this objective can."""

    @property
    def target_noise(self) -> Parameter:
        """Standard deviation of the noise that training adds to the targets, in their unit."""
        return 0.0

    @property
    def clipping(self) -> Parameter | None:
        """The norm to which training clips each member's gradient."""
        return None

    def member(self, index: Tensor) -> Self:
        """The same objective for some of its members only."""
        return replace(
            self, **{f.name: _chosen(getattr(self, f.name), index) for f in fields(self)}
        )

    def _scaled(self, y: Tensor) -> Tensor:
        return (y - self.low) / (self.high - self.low)

    def _unscaled(self, value: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * value


def _log(weights: Tensor) -> Tensor:
    """Logits of the weights, with something finite for a weight of 0."""
    return weights.clamp_min(1e-30).log()


def _chosen(value: Any, index: Tensor) -> Any:
    """A parameter for some members: those that differ between members are tensors."""
    if isinstance(value, Tensor) and value.ndim:
        return value[index]
    if isinstance(value, (Gaussian, UniformMix)):
        names = (f.name for f in fields(value))
        return replace(value, **{name: _chosen(getattr(value, name), index) for name in names})
    return value


@dataclass(frozen=True, eq=False)
class L2(Objective):
    """Squared error on targets scaled to [0, 1]."""

    @property
    def outputs(self) -> int:
        """One number."""
        return 1

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(f - y)^2."""
        return (outputs.squeeze(-1) - self._scaled(y)).square()

    def decode(self, outputs: Tensor) -> Tensor:
        """The output, scaled back."""
        return self._unscaled(outputs.squeeze(-1))

    def constant(self, y: Tensor) -> Tensor:
        """The scaled target in every output."""
        return self._scaled(y).unsqueeze(-1).expand(*y.shape, self.outputs)


@dataclass(frozen=True, eq=False)
class L1(L2):
    """Absolute error on targets scaled to [0, 1]."""

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """|f - y|."""
        return (outputs.squeeze(-1) - self._scaled(y)).abs()


@dataclass(frozen=True, eq=False)
class L2Noise(L2):
    """l2 with fresh Gaussian noise on the scaled targets at every training step."""

    noise: Parameter = 1e-2

    @property
    def target_noise(self) -> Parameter:
        """The noise in the target's unit."""
        return self.noise * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class L2Clipping(L2):
    """l2 with the gradient's norm clipped at every training step."""

    clip: Parameter = 1.0

    @property
    def clipping(self) -> Parameter | None:
        """The threshold."""
        return self.clip


@dataclass(frozen=True, eq=False)
class L2Many(L2):
    """l2 with many outputs that each predict the target (the footnote of Section 4)."""

    count: int = 100

    @property
    def outputs(self) -> int:
        """That many numbers."""
        return self.count

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean squared error of the outputs."""
        return (outputs - self._scaled(y).unsqueeze(-1)).square().mean(-1)

    def decode(self, outputs: Tensor) -> Tensor:
        """The outputs' mean; `decode_each` keeps them apart."""
        return self.decode_each(outputs).mean(-1)

    def decode_each(self, outputs: Tensor) -> Tensor:
        """The prediction of every single output."""
        return self._unscaled(outputs)


@dataclass(frozen=True, eq=False)
class L2Softmax(L2):
    """Squared error of the mean of a softmax over bins: (sum_i f_i c_i - y)^2."""

    count: int = 100

    @property
    def outputs(self) -> int:
        """One for each bin."""
        return self.count

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The error of the mean, on targets scaled to [0, 1]."""
        return (self._mean(outputs) - self._scaled(y)).square()

    def decode(self, outputs: Tensor) -> Tensor:
        """The mean, scaled back."""
        return self._unscaled(self._mean(outputs))

    def constant(self, y: Tensor) -> Tensor:
        """The two bins whose centres enclose the target."""
        return _log(TwoHot().weights(y, Bins.uniform(self.low, self.high, self.count)))

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
        """One for each bin."""
        return self.bins.count

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """-sum_i p_i log f_i."""
        rows: Tensor = self._loss("none")(outputs, y)
        return rows

    def total(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The same for all rows at once, where the loss knows its gradient beforehand."""
        if weight is None:
            return self._loss("sum").sum_of_means(outputs, y)
        total: Tensor = self._loss("sum")(outputs, y, weight)
        return total

    def decode(self, outputs: Tensor) -> Tensor:
        """The histogram's mean."""
        return Histogram(self.bins, logits=outputs, validate_args=False).mean

    @property
    def has_distribution(self) -> bool:
        """Whether `distribution` gives one: it does."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The histogram itself."""
        return Histogram(self.bins, logits=outputs)

    def constant(self, y: Tensor) -> Tensor:
        """The target's own weights."""
        return _log(self.weights(y)).to(y.dtype)

    def weights(self, y: Tensor) -> Tensor:
        """The target's distribution over the bins."""
        return self.target.weights(y, self.bins)

    def _loss(self, reduction: Any) -> HistogramLoss:
        return self._loss_on(self.bins, reduction)

    def _loss_on(self, bins: Bins, reduction: Any) -> HistogramLoss:
        key = f"_{reduction}"
        if key not in self.__dict__:
            object.__setattr__(self, key, HistogramLoss(bins, self.target, reduction))
        loss: HistogramLoss = self.__dict__[key]
        return loss


@dataclass(frozen=True, eq=False)
class MixtureDensity(Objective):
    """A mixture density network (Bishop, 1994) on targets scaled to [0, 1].

    Standard deviations are softplus + 1e-2: no component can shrink onto a repeated target, so
    that the likelihood stays bounded.
    """

    components: int = 8
    smallest: float = 1e-2

    @property
    def outputs(self) -> int:
        """A weight, a mean and a width for each component."""
        return 3 * self.components

    def rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Negative log likelihood of the scaled target."""
        logits, means, widths = self._parts(outputs)
        z = (self._scaled(y).unsqueeze(-1) - means) / widths
        log_density = -z.square() / 2 - widths.log() - math.log(2 * math.pi) / 2
        return -torch.logsumexp(torch.log_softmax(logits, -1) + log_density, -1)

    def decode(self, outputs: Tensor) -> Tensor:
        """The mixture's mean, scaled back."""
        logits, means, _ = self._parts(outputs)
        return self._unscaled((torch.softmax(logits, -1) * means).sum(-1))

    @property
    def has_distribution(self) -> bool:
        """Whether `distribution` gives one: it does."""
        return True

    def distribution(self, outputs: Tensor) -> Histogram:
        """The mixture on fine bins that reach half a range beyond [low, high]."""
        logits, means, widths = self._parts(outputs)
        mixture = MixtureSameFamily(Categorical(logits=logits), Normal(means, widths))
        edges = torch.linspace(-0.5, 1.5, 2001, device=outputs.device)
        shape = (-1, *(1,) * (outputs.ndim - 1))
        probs = mixture.cdf(edges.view(shape)).diff(dim=0).movedim(0, -1).clamp_min(0)
        return Histogram(Bins(self._unscaled(edges.double())), probs=probs + 1e-12)

    def constant(self, y: Tensor) -> Tensor:
        """All components on the target, as narrow as they may be."""
        means = self._scaled(y).unsqueeze(-1).expand(*y.shape, self.components)
        return torch.cat([torch.zeros_like(means), means, torch.full_like(means, -20.0)], -1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, means, raw = outputs.chunk(3, -1)
        return logits, means, F.softplus(raw) + self.smallest


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
    """The paper's method of that name for a target with the range [low, high].

    `sigma` counts in bin widths. Each method takes the parameters that it has and leaves the rest.
    """
    if method.startswith("hl-"):
        target = _target(method, sigma, epsilon)
        chosen = bins if isinstance(bins, Bins) else Bins.uniform(low, high, bins)
        return HistogramObjective(low, high, chosen, target)
    count = bins.count if isinstance(bins, Bins) else bins
    if not low < high:
        raise ValueError(f"low, high: need low < high, got low={low}, high={high}")
    match method:
        case "l2":
            return L2(low, high)
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
    raise ValueError(f"objective: expected one of {', '.join(METHODS)}, got {method!r}")


def _target(method: str, sigma: Parameter, epsilon: Parameter) -> Target:
    match method:
        case "hl-onebin":
            return OneBin()
        case "hl-uniform":
            return UniformMix(epsilon)
        case "hl-gaussian":
            return Gaussian.of_bins(sigma)
    raise ValueError(f"objective: expected one of {', '.join(METHODS)}, got {method!r}")
