"""The last layer of a network that predicts histograms: a linear layer, its bins and its loss."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._core.checks import require_whole_number
from softbins._core.loss_reduction import Reduction
from softbins._core.moving_loss import compiled_loss, known_as
from softbins._core.moving_support import MovingSupport, checked_spare, movable
from softbins._core.tensor_checks import require_tensor
from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import PAPER_TARGET, HistogramLoss
from softbins.stacked import StackedBins, StackedHistogram
from softbins.targets import Target


class HistogramHead(nn.Module):
    """The last layer of a network: `head(x)` is a histogram, `head.loss(x, y)` the loss.

    Parameters
    ----------
    in_features : int
        The size of the last dimension of `x`, the features that the rest of the network gives.
    bins : Bins or StackedBins
        The bins. Stacked ones are those of as many outputs, each with a range of its own.
    target : Target
        The distribution that a target becomes, as for `HistogramLoss`.
    outputs : int, optional
        Predict so many targets for each row of features, on the same bins: one value for each
        action, for example. Without it, and with one `Bins`, there is one, and no dimension for it.
    zero_init : bool
        Whether weights and biases start at 0. All bins then have the same probability at first,
        whatever the features, and on equal or symlog bins the first mean is the middle of the
        range.
    spare : int
        How many bins the support may have beyond those given, to move with the targets: see
        `observe`. With 0 it stays where it is.
    auto_observe : bool
        Whether `loss` observes its targets first while the head is in training mode.
    reduction : {"mean", "sum", "none"}
        Whether the losses become their mean, over rows and outputs, their sum, or stay as they are.

    Attributes
    ----------
    linear : nn.Linear
        The layer, with an output for each bin that there is or may be.
    histogram_loss : HistogramLoss
        The loss, with the bins as they are now.

    Raises
    ------
    ValueError
        If `outputs` is below one, or not the number of stacked bins, or if a support is to move
        that has stacked bins, or bins that are not equal in some space.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Gaussian, HistogramHead
    >>> head = HistogramHead(8, Bins.symlog(20.0, 255), Gaussian.of_bins(0.75), zero_init=True)
    >>> features = torch.randn(5, 8)
    >>> bool(head(features).mean.abs().max() < 1e-6)  # the middle
    True
    >>> head.loss(features, torch.tensor([0.0, 1.0, -3.0, 1e3, 1e6])).backward()
    """

    def __init__(
        self,
        in_features: int,
        bins: Bins | StackedBins,
        target: Target = PAPER_TARGET,
        *,
        outputs: int | None = None,
        zero_init: bool = False,
        spare: int = 0,
        auto_observe: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.histogram_loss = HistogramLoss(bins, target, reduction)  # which checks its arguments
        self._shape = _checked_outputs(outputs, bins)
        self.spare, self.auto_observe = checked_spare(spare, bins), auto_observe
        self.support: MovingSupport | None = None
        if spare and isinstance(bins, Bins):
            self.histogram_loss = HistogramLoss(movable(bins), target, reduction)
            self.support = MovingSupport(bins, spare)
        self._copies = math.prod(self._shape)
        self.linear = nn.Linear(in_features, self._copies * (bins.count + spare))
        self._key = known_as(self)
        if zero_init:
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)

    @property
    def bins(self) -> Bins | StackedBins:
        """The bins, as they are now."""
        return self.histogram_loss.bins

    def forward(self, x: Tensor) -> Histogram | StackedHistogram:
        """The predicted distributions.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            The features.

        Returns
        -------
        Histogram or StackedHistogram
            In the batch shape (...), or (..., outputs) if `outputs` was given or bins are stacked.
        """
        return self.histogram_loss.distribution(self._logits(x))

    def loss(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            The features.
        y : Tensor
            The targets, finite: of shape (...), or (..., outputs) for a head of several outputs.
        weight : Tensor in the shape of `y`, optional
            Weights of the targets, as for `HistogramLoss`.

        Returns
        -------
        Tensor
            A number, or the losses in the shape of `y` if the reduction is "none".
        """
        self._check_features(x)
        self._check_targets(x, y)
        if self.support is not None and self.training:
            if torch.compiler.is_compiling():
                return self._compiled_loss(x, y, weight)
            self._follow(y, self.linear.weight, self.linear.bias)
        found: Tensor = self.histogram_loss(self._logits(x), y, weight)
        return found

    def _compiled_loss(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        loss, size = self.histogram_loss, (*self._shape, -1)
        return compiled_loss(self._key, self.linear, x, y, weight, size, loss.reduction)

    @torch.no_grad()
    def observe(self, y: Tensor) -> bool:
        """Let the support follow targets, if the head was made with `spare` bins.

        Targets beyond the outermost centers get bins there. Bins in which targets lie are cut in
        two while they are wide beside the range of recent targets. What was predicted is
        predicted on, to 1e-3 of the range, whatever the features. Where processes train together
        (`torch.distributed`), each has to call this as often as the others, and all supports move
        alike.

        Parameters
        ----------
        y : Tensor
            Targets of any shape.

        Returns
        -------
        bool
            Whether the support has changed.

        Raises
        ------
        ValueError
            If a target is NaN or infinite, or the support would have to reach beyond float32.
            Nothing has changed then.
        """
        require_tensor("y", y)
        return self._observe(y, self.linear.weight, self.linear.bias)

    def _observe(self, y: Tensor, weight: Tensor, bias: Tensor) -> bool:
        before = self.histogram_loss.bins
        if self.support is None or not isinstance(before, Bins):
            raise ValueError("spare: the support of this head does not move; give it spare bins")
        bins = self.support.follow(y, before, self._by_row(weight), self._by_row(bias))
        if bins is not before:
            self.histogram_loss._adopt(bins)
        return bins is not before

    @torch.no_grad()
    def _follow(self, y: Tensor, weight: Tensor, bias: Tensor) -> None:
        """What comes before each loss in training mode; changes weight and bias in place."""
        assert self.support is not None
        if self.auto_observe:
            self._observe(y, weight, bias)
        self.support.release(self._by_row(bias))

    def _weights(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of targets by row of the layer, and which rows have a bin."""
        assert self.support is not None
        loss, rows = self.histogram_loss, self.support.rows
        assert isinstance(loss.bins, Bins)
        used = rows[: loss.bins.count]
        found = loss.target.weights(y, loss.bins).float()
        weights = found.new_zeros(*y.shape, rows.numel()).index_copy_(-1, used, found)
        return weights, torch.zeros_like(rows, dtype=torch.bool).index_fill_(0, used, True)

    def _by_row(self, values: Tensor) -> Tensor:
        """The layer's weight or bias as (copies, rows, ...)."""
        return values.view(self._copies, -1, *values.shape[1:])

    def extra_repr(self) -> str:
        """The shape of the outputs, as `print` shows it.

        Returns
        -------
        str
            One line.
        """
        return f"outputs={self._shape[0]}" if self._shape else ""

    def _logits(self, x: Tensor) -> Tensor:
        self._check_features(x)
        count = self.histogram_loss.bins.count
        if self.support is None:
            logits = self.linear(x)
        else:
            rows = self.support.rows[:count]
            both = (self._by_row(part)[:, rows].flatten(0, 1) for part in self.linear.parameters())
            logits = F.linear(x, *both)
        found: Tensor = logits.unflatten(-1, (*self._shape, count))
        return found

    def _check_features(self, x: Tensor) -> None:
        require_tensor("x", x)
        if x.ndim == 0 or x.shape[-1] != self.linear.in_features:
            raise ValueError(
                f"x: last dimension must be the number of features, {self.linear.in_features}, "
                f"got shape {tuple(x.shape)}"
            )

    def _check_targets(self, x: Tensor, y: Tensor) -> None:
        require_tensor("y", y)
        if y.shape != (*x.shape[:-1], *self._shape):
            raise ValueError(
                f"y: need shape {(*x.shape[:-1], *self._shape)} for features of shape "
                f"{tuple(x.shape)}, got {tuple(y.shape)}"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._key = known_as(self)  # a copy is another head

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        edges = state_dict.get(f"{prefix}histogram_loss.edges")
        if self.support is not None and isinstance(edges, Tensor):
            most, loss = self.support.rows.numel(), self.histogram_loss
            if 2 <= edges.numel() - 1 <= most and isinstance(loss.bins, Bins):
                # As many bins as the checkpoint has; their edges and all else follow.
                places = torch.arange(edges.numel(), device=loss.edges.device)
                loss._adopt(Bins(places, loss.bins.transformed_step))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _checked_outputs(outputs: int | None, bins: Bins | StackedBins) -> tuple[int, ...]:
    """The dimension of the outputs, if there is one."""
    if isinstance(bins, Bins):
        return () if outputs is None else (require_whole_number("outputs", outputs, 1),)
    if outputs not in (None, len(bins)):
        raise ValueError(f"outputs: {outputs} outputs do not fit {bins}; leave it out")
    return (len(bins),)
