"""The Histogram Loss (Equation 2), and the bound on its gradient (Proposition 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._loss_table import histogram_loss, table_for
from softbins._tensor_checks import require
from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.targets import Gaussian, Target

Reduction = Literal["mean", "sum", "none"]
PAPER_TARGET = Gaussian.of_bins(1.0)
LOW_PRECISION = (torch.bfloat16, torch.float16)


class HistogramLoss(nn.Module):
    """HL(p, q) = -sum_i p_i log f_i between the target's weights p and the softmax f of logits.

    `loss(logits, y)` for logits of shape (..., k) and targets of shape (...);
    `loss.distribution(logits)` is the prediction. The gradient with respect to the logits is
    f - p (Appendix A). Low precision logits are computed in float32. `state_dict` carries the
    bins, because a network's outputs mean nothing without them.
    """

    edges: Tensor

    def __init__(
        self, bins: Bins, target: Target = PAPER_TARGET, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        if not isinstance(bins, Bins):
            raise TypeError(f"bins: expected Bins, got {type(bins).__name__}")
        if not isinstance(target, Target):
            raise TypeError(f"target: expected a target such as Gaussian(0.1), got {target!r}")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
        self.target, self.reduction = target, reduction
        self.register_buffer("edges", None)
        self._adopt(bins)

    def forward(
        self,
        logits: Tensor,
        y: Tensor,
        weight: Tensor | None = None,
        *,
        sigma: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of `logits` (..., k) for targets `y` (...).

        `weight` (...) weighs the rows: "mean" is then the weighted mean. `sigma` replaces that
        of a Gaussian target for this call; a tensor broadcasts against `y`.
        """
        self._check(logits, y)
        target = self.target if sigma is None else self._with_sigma(sigma)
        if weight is not None or self.reduction == "none" or y.numel() == 0:
            return self._reduced(self._loss(logits, y, target, None), weight)
        return self._loss(logits, y, target, y.numel() if self.reduction == "mean" else 1)

    def sum_of_means(self, logits: Tensor, y: Tensor) -> Tensor:
        """The sum over members (V) of the mean over their rows, for targets (V, rows)."""
        self._check(logits, y)
        return self._loss(logits, y, self.target, y.shape[-1])

    def _loss(self, logits: Tensor, y: Tensor, target: Target, over: int | None) -> Tensor:
        """The sum over all rows divided by `over`, or the rows if that is None."""
        if logits.dtype in LOW_PRECISION:
            logits = logits.float()
        table = table_for(target, self.bins, logits, y)
        if table is not None:
            return histogram_loss(logits, y, target, self.bins, table, over)
        weights = target.weights(y, self.bins).to(logits.dtype)
        rows = -(weights * F.log_softmax(logits, -1)).sum(-1)
        return rows if over is None else rows.sum() / over

    def distribution(self, logits: Tensor) -> Histogram:
        """The predicted distribution; its `mean` is the paper's prediction."""
        return Histogram(self.bins, logits=logits)

    def extra_repr(self) -> str:
        """The parts, for `print`."""
        return f"{self.bins}, {self.target}, reduction={self.reduction!r}"

    def _with_sigma(self, sigma: float | Tensor) -> Target:
        if not isinstance(self.target, Gaussian):
            raise ValueError(f"sigma: {type(self.target).__name__} has none, only Gaussian does")
        return self.target.with_sigma(sigma)

    def _check(self, logits: Tensor, y: Tensor) -> None:
        if logits.shape != (*y.shape, self.bins.count):
            raise ValueError(_shape_complaint(logits, y, self.bins))
        device = self.bins.edges.device
        all_on_cpu = logits.is_cpu and y.is_cpu and self.bins.edges.is_cpu
        if not all_on_cpu and not (logits.device == y.device == device):
            raise ValueError(
                f"logits are on {logits.device}, y on {y.device}, the bins on {device}; "
                "move them to one device with .to()"
            )

    def _reduced(self, rows: Tensor, weight: Tensor | None) -> Tensor:
        if self.reduction == "mean" and rows.numel() == 0:
            raise ValueError("y: the mean over no targets is undefined; use reduction='sum'")
        if weight is None:
            return _reduce(rows, self.reduction)
        weight = _checked_weight(weight, rows)
        weighted = rows * weight
        if self.reduction != "mean":
            return _reduce(weighted, self.reduction)
        total = require("weight", weight.sum(), low=_TINY, hint="give some row a weight above 0")
        return weighted.sum() / total

    # The edges stay in float64 whatever `.half()` or `.to(dtype)` does to the network, and
    # `bins` follows the buffer through moves and checkpoints.

    def _adopt(self, bins: Bins) -> None:
        self.bins = bins
        # A copy: loading a checkpoint writes into the buffer, and `Bins` never change.
        self.edges = bins.edges.clone()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HistogramLoss:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._adopt(self.bins.to(self.edges.device))
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        given = state_dict.get(f"{prefix}edges", self.edges)
        if given.shape == self.edges.shape:  # otherwise torch says so itself
            self._adopt(Bins(given).to(self.edges.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


_TINY = torch.finfo(torch.float32).tiny


def _reduce(rows: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return rows
    return rows.mean() if reduction == "mean" else rows.sum()


def _shape_complaint(logits: Tensor, y: Tensor, bins: Bins) -> str:
    shape = tuple(logits.shape)
    if not shape or shape[-1] != bins.count:
        return f"logits: last dimension must be the number of bins, {bins.count}, got shape {shape}"
    wanted = f"need {shape[:-1]}"
    return f"y: shape {tuple(y.shape)} does not match logits of shape {shape}; {wanted}"


def _checked_weight(weight: Tensor, rows: Tensor) -> Tensor:
    if weight.shape != rows.shape:
        raise ValueError(
            f"weight: shape {tuple(weight.shape)} does not match y of shape {tuple(rows.shape)}"
        )
    return require("weight", weight.to(rows), low=0.0, hint="weights must not be negative")


class GradientBound(NamedTuple):
    """Proposition 1 for each row of a batch: `norm` is at most `bound`."""

    bound: Tensor
    norm: Tensor


def gradient_bound(
    body: nn.Module, head: nn.Linear, loss: HistogramLoss, x: Tensor, y: Tensor
) -> GradientBound:
    """Proposition 1: the norm of the gradient of HL at most (l + ||phi||) sum_i |p_i - f_i|.

    The network is `head(body(x))`, with phi = body(x) and, for each row, the smallest valid
    l = max_i ||grad_theta w_i' phi||. A bias of the head counts as a weight on a constant
    feature 1 of phi. Returns the bound and the actual norm, over all parameters, of each row.
    """
    rows = [_row_bound(body, head, loss, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    return GradientBound(*(torch.stack(parts) for parts in zip(*rows, strict=True)))


def _row_bound(
    body: nn.Module, head: nn.Linear, loss: HistogramLoss, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    theta, last = list(body.parameters()), list(head.parameters())
    phi = body(x)
    logits = head(phi)
    gradient = torch.autograd.grad(loss(logits, y), [*theta, *last], retain_graph=True)
    slopes = [torch.autograd.grad(z, theta, retain_graph=True) for z in logits[0]] if theta else []
    lipschitz = max((_norm(slope) for slope in slopes), default=torch.zeros(()))
    features = torch.cat([phi[0], phi.new_ones(1)]) if head.bias is not None else phi[0]
    error = (loss.target.weights(y, loss.bins) - torch.softmax(logits, -1)).abs().sum()
    return ((lipschitz + features.norm()) * error).detach(), _norm(gradient)


def _norm(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.flatten() for part in parts]).square().sum().sqrt()
