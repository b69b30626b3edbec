"""The last layer of a network that predicts histograms: a linear layer, its bins and its loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._core.loss_reduction import Reduction, reduced
from softbins._core.moving_support import (
    MovingSupport,
    checked_spare,
    movable,
    move_rows,
    moved_rows,
)
from softbins._core.tensor_checks import require_tensor
from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import PAPER_TARGET, HistogramLoss
from softbins.targets import Target


class HistogramHead(nn.Module):
    """The last layer of a network: `head(x)` is a histogram, `head.loss(x, y)` the loss.

    Parameters
    ----------
    in_features : int
        The size of the last dimension of `x`, the features that the rest of the network gives.
    bins : Bins or sequence of Bins
        The bins. Several of them are the bins of as many outputs, each with a range of its own.
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
    bins : Bins or list of Bins
        The bins, as they are now.

    Raises
    ------
    ValueError
        If `outputs` is below one, or not the number of several `bins`, or if a support is to move
        that has several `bins`, or bins that are not equal in some space.

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
        bins: Bins | Sequence[Bins],
        target: Target = PAPER_TARGET,
        *,
        outputs: int | None = None,
        zero_init: bool = False,
        spare: int = 0,
        auto_observe: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        several = [bins] if isinstance(bins, Bins) else list(bins)
        self._shape = _checked_outputs(outputs, bins, len(several))
        self._is_several, self.reduction = not isinstance(bins, Bins), reduction
        self.spare, self.auto_observe = checked_spare(spare, bins), auto_observe
        if spare:
            several = [movable(several[0])]
        HistogramLoss(several[0], target, reduction)  # says what is wrong with its arguments
        each = "none" if self._is_several else reduction
        self.losses = nn.ModuleList(HistogramLoss(one, target, each) for one in several)
        self._copies = 1 if self._is_several else math.prod(self._shape)
        rows = self._copies * (sum(one.count for one in several) + spare)
        self.linear = nn.Linear(in_features, rows)
        self.support = MovingSupport(several[0], spare) if spare else None
        if zero_init:
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)

    @property
    def bins(self) -> Bins | list[Bins]:
        """The bins, or those of each output."""
        several = [self._loss_of(output).bins for output in range(len(self.losses))]
        return several if self._is_several else several[0]

    def forward(self, x: Tensor) -> Histogram | list[Histogram]:
        """The predicted distributions.

        Parameters
        ----------
        x : Tensor of shape (..., in_features)
            The features.

        Returns
        -------
        Histogram or list of Histogram
            In the batch shape (...), or (..., outputs) if `outputs` was given. For several `bins`,
            one in the batch shape (...) for each of them.
        """
        parts = self._logits(x)
        found = [self._loss_of(output).distribution(part) for output, part in enumerate(parts)]
        return found if self._is_several else found[0]

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
            total: Tensor = self._moving_loss(x, y, weight)
            return total
        return self._loss(x, y, weight)

    # A graph would be compiled again whenever the support has moved.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _moving_loss(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        if self.auto_observe:
            self.observe(y)
        return self._loss(x, y, weight)

    def _loss(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        parts = self._logits(x)
        if not self._is_several:
            total: Tensor = self._loss_of(0)(parts[0], y, weight)
            return total
        pairs = zip(parts, y.unbind(-1), strict=True)
        losses = [self._loss_of(output)(*pair) for output, pair in enumerate(pairs)]
        return reduced(torch.stack(losses, -1), weight, self.reduction)

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
        if self.support is None:
            raise ValueError("spare: the support of this head does not move; give it spare bins")
        loss = self._loss_of(0)
        cells = self.support.follow(y, loss.bins)
        if cells is None:
            return False
        old, new = self.support.rows, moved_rows(cells, self.support.rows)
        by_row = self._by_row(self.linear.weight), self._by_row(self.linear.bias)
        for values in by_row:
            move_rows(values, cells, old, new)
        offsets = by_row[1].new_tensor([cell.offset for cell in cells])
        by_row[1][:, new[: len(cells)]] += offsets
        self.support.rows.copy_(new)
        edges = [cell.low for cell in cells] + [cells[-1].high]
        step = loss.bins.transformed_step
        loss._adopt(Bins(edges, step).to(loss.edges.device))
        return True

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

    def _loss_of(self, output: int) -> HistogramLoss:
        loss = self.losses[output]
        assert isinstance(loss, HistogramLoss)
        return loss

    def _logits(self, x: Tensor) -> tuple[Tensor, ...]:
        """The logits of each of the bins."""
        self._check_features(x)
        counts = [self._loss_of(output).bins.count for output in range(len(self.losses))]
        if self._is_several:
            return tuple(self.linear(x).split(counts, -1))
        if self.support is None:
            return (self.linear(x).unflatten(-1, (*self._shape, counts[0])),)
        rows = self.support.rows[: counts[0]]
        weight, bias = (self._by_row(p)[:, rows].flatten(0, 1) for p in self.linear.parameters())
        return (F.linear(x, weight, bias).unflatten(-1, (*self._shape, counts[0])),)

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

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        edges = state_dict.get(f"{prefix}losses.0.edges")
        if self.support is not None and isinstance(edges, Tensor):
            most, loss = self.support.rows.numel(), self._loss_of(0)
            if 2 <= edges.numel() - 1 <= most:
                # As many bins as the checkpoint has; their edges and all else follow.
                places = torch.arange(edges.numel(), device=loss.edges.device)
                loss._adopt(Bins(places, loss.bins.transformed_step))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _checked_outputs(outputs: int | None, bins: Any, several: int) -> tuple[int, ...]:
    """The dimension of the outputs, if there is one."""
    if not several:
        raise ValueError("bins: need at least one, got none")
    if outputs is not None and (
        isinstance(outputs, bool) or outputs != int(outputs) or outputs < 1
    ):
        raise ValueError(f"outputs: need a whole number of at least one, got {outputs}")
    if isinstance(bins, Bins):
        return () if outputs is None else (int(outputs),)
    if outputs not in (None, several):
        raise ValueError(f"outputs: {outputs} outputs do not fit {several} bins; give one for each")
    return (several,)
