"""The Histogram Loss (Equation 2), and the bound on its gradient (Proposition 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softbins._core.checks import shape_complaint
from softbins._core.loss_reduction import Reduction, cross_entropy, holds_nan, reduced
from softbins._core.loss_table import histogram_loss, table_for
from softbins._core.loss_windows import windowed_loss, windows_for
from softbins._core.tensor_checks import is_traced, require_softmax, require_tensor
from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.stacked import StackedBins, StackedHistogram
from softbins.targets import Gaussian, Target

PAPER_TARGET = Gaussian.of_bins(1.0)
LOW_PRECISION = (torch.bfloat16, torch.float16)


class HistogramLoss(nn.Module):
    """HL(p, q) = -sum_i p_i log f_i between the target's weights p and the softmax f of logits.

    `loss(logits, y)` is the loss, `loss.distribution(logits)` the prediction. The gradient with
    respect to the logits is f - p (Appendix A). Logits in low precision are converted to float32
    first. `state_dict` carries the bins, because a network's outputs mean nothing without them.

    Parameters
    ----------
    bins : Bins or StackedBins
        The k bins: the network has k outputs, or (m, k) for the m targets of stacked bins.
    target : Target
        The distribution that a target becomes. By default `Gaussian.of_bins(1.0)`, the paper's
        setting. A target outside the bins counts as the nearest end of their range, unless the
        target distribution was made with `outside="error"` or `outside="tail"`.
    reduction : {"mean", "sum", "none"}
        Whether the losses of the rows become their mean, their sum, or stay as they are.
    check_logits : bool
        Whether a row of logits that has no softmax is an error: one that holds NaN or inf, or
        -inf alone. If not, its loss is NaN, and other rows keep theirs.

    Attributes
    ----------
    bins : Bins or StackedBins
        The bins, on the device of the module.
    edges : Tensor
        The edges of the bins as a buffer of the module, in float64 whatever its precision.
    transformed_step : Tensor or None
        That of the bins, as a buffer.
    target : Target
        The target distribution.
    reduction : str
        The reduction.
    check_logits : bool
        Whether a row of logits without a softmax is an error.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Gaussian, HistogramLoss
    >>> loss = HistogramLoss(Bins.uniform(0.0, 1.0, 4), Gaussian.of_bins(1.0))
    >>> logits = torch.zeros(2, 4, requires_grad=True)
    >>> value = loss(logits, torch.tensor([0.3, 0.9]))
    >>> round(value.item(), 4)  # log 4, whatever the targets
    1.3863
    >>> value.backward()
    >>> loss.distribution(logits).mean.tolist()
    [0.5, 0.5]
    """

    edges: Tensor
    transformed_step: Tensor | None

    def __init__(
        self,
        bins: Bins | StackedBins,
        target: Target = PAPER_TARGET,
        reduction: Reduction = "mean",
        *,
        check_logits: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(bins, Bins | StackedBins):
            raise TypeError(f"bins: expected Bins or StackedBins, got {type(bins).__name__}")
        if not isinstance(target, Target):
            raise TypeError(f"target: expected a target such as Gaussian(0.1), got {target!r}")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
        self.target, self.reduction, self.check_logits = target, reduction, check_logits
        self.register_buffer("edges", None)
        self.register_buffer("transformed_step", None)
        self._adopt(bins)

    def forward(
        self,
        logits: Tensor,
        y: Tensor,
        weight: Tensor | None = None,
        *,
        sigma: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (..., k)
            The network's outputs, floating-point numbers. A bin whose logit is -inf has the
            probability 0: the loss is infinite if the target has weight there.
        y : Tensor of shape (...)
            The targets, finite. What becomes of one outside the bins is the choice of the target
            distribution: by default it counts as the nearest end of their range.
        weight : Tensor of shape (...), optional
            Weights of the rows, not negative. The reduction "mean" is then the weighted mean.
            Rows of weight 0 are checked like the others.
        sigma : float or Tensor, optional
            Replaces the sigma of a Gaussian target for this call. A tensor broadcasts against
            `y`.

        Returns
        -------
        Tensor
            A number, or the losses in the shape of `y` if the reduction is "none".

        Raises
        ------
        TypeError
            If logits, targets or weights are no tensors, or the logits whole numbers.
        ValueError
            If shapes or devices do not match, a row of logits has no softmax (see
            `check_logits`), a target is NaN or infinite, or it is outside the bins and the
            target distribution has `outside="error"`.
        """
        self._check(logits, y)
        target = self.target if sigma is None else self._with_sigma(sigma)
        if weight is not None or self.reduction == "none" or y.numel() == 0:
            return reduced(self._checked_loss(logits, y, target, None), weight, self.reduction)
        over = y.numel() if self.reduction == "mean" else 1
        return self._checked_loss(logits, y, target, over)

    def sum_of_means(self, logits: Tensor, y: Tensor) -> Tensor:
        """The sum over networks of the mean loss of each, for networks that train side by side.

        Parameters
        ----------
        logits : Tensor of shape (V, n, k)
            The outputs of V networks.
        y : Tensor of shape (V, n)
            The targets of each network.

        Returns
        -------
        Tensor
            A number. Its gradient is for each network that of its own mean. It is NaN if one of
            the networks gives NaN, which does not touch the gradients of the others.
        """
        self._check(logits, y)
        return self._loss(logits, y, self.target, y.shape[-1])

    def _checked_loss(self, logits: Tensor, y: Tensor, target: Target, over: int | None) -> Tensor:
        """`_loss`, or `ValueError` if a row of logits has no softmax and that is to be checked."""
        if not self.check_logits:
            return self._loss(logits, y, target, over)
        if is_traced(logits):
            return self._loss(require_softmax(logits), y, target, over)
        result = self._loss(logits, y, target, over)
        # Without a softmax the loss is NaN: the rows are worth a look only then.
        if is_traced(result) or holds_nan(result):
            require_softmax(logits)
        return result

    def _loss(self, logits: Tensor, y: Tensor, target: Target, over: int | None) -> Tensor:
        """The sum of all losses divided by `over`, or the losses themselves if that is None."""
        if logits.dtype in LOW_PRECISION:
            logits = logits.float()
        y, target, bins = self._in_places(y, target)
        table = table_for(target, bins, logits, y)
        if table is not None:
            return histogram_loss(logits, y, target=target, bins=bins, table=table, over=over)
        windows = windows_for(target, bins, logits, y)
        if windows is not None:
            return windowed_loss(logits, y, windows, over)
        weights = target.weights(y, bins).to(logits.dtype)
        losses = cross_entropy(weights, torch.log_softmax(logits, -1))
        return losses if over is None else losses.sum() / over

    def _in_places(self, y: Tensor, target: Target) -> tuple[Tensor, Target, Bins]:
        """Targets, their distribution and bins; those of stacked bins in the unit of a bin."""
        if isinstance(self.bins, Bins):
            return y, target, self.bins
        return self.bins.place(y, target), target._counted_in(self.bins.step), self.bins.places

    def distribution(self, logits: Tensor) -> Histogram | StackedHistogram:
        """The predicted distribution.

        A network with this at its end goes through `torch.export` and `torch.onnx.export`, where
        the values of tensors are not checked.

        Parameters
        ----------
        logits : Tensor of shape (..., k)
            The network's outputs.

        Returns
        -------
        Histogram or StackedHistogram
            One histogram for each leading index; its `mean` is the paper's prediction.
        """
        if isinstance(self.bins, StackedBins):
            return StackedHistogram(self.bins, logits)
        return Histogram(self.bins, logits=logits)

    def extra_repr(self) -> str:
        """The bins, the target and the reduction, as `print` shows them.

        Returns
        -------
        str
            One line.
        """
        return f"{self.bins}, {self.target}, reduction={self.reduction!r}"

    def _with_sigma(self, sigma: float | Tensor) -> Target:
        if not isinstance(self.target, Gaussian):
            raise ValueError(f"sigma: {type(self.target).__name__} has none, only Gaussian does")
        return self.target.with_sigma(sigma)

    def _check(self, logits: Tensor, y: Tensor) -> None:
        require_tensor("logits", logits)
        require_tensor("y", y)
        if not logits.is_floating_point():
            raise TypeError(
                f"logits: need floating-point numbers, got {logits.dtype}; convert with .float()"
            )
        if logits.shape != (*y.shape, self.bins.count):
            raise ValueError(shape_complaint(logits.shape, y.shape, self.bins.count))
        if isinstance(self.bins, StackedBins) and y.shape[-1:] != (len(self.bins),):
            raise ValueError(
                f"y: last dimension must be the number of outputs with a range of their own, "
                f"{len(self.bins)}, got shape {tuple(y.shape)}"
            )
        device = self.bins.edges.device
        all_on_cpu = logits.is_cpu and y.is_cpu and self.bins.edges.is_cpu
        if not all_on_cpu and not (logits.device == y.device == device):
            raise ValueError(
                f"logits are on {logits.device}, y on {y.device}, the bins on {device}; "
                "move them to one device with .to()"
            )

    # The edges stay in float64 whatever `.half()` or `.to(dtype)` does to the network, and
    # `bins` follows the buffer through moves and checkpoints.

    def _adopt(self, bins: Bins | StackedBins) -> None:
        self.bins = bins
        # A copy: loading a checkpoint writes into the buffer, and `Bins` never change.
        self.edges = bins.edges.clone()
        step = bins.transformed_step if isinstance(bins, Bins) else None
        self.transformed_step = None if step is None else self.edges.new_tensor(step)
        if isinstance(bins, StackedBins):
            self.target._counted_in(bins.step)  # says so if it cannot
        elif step is not None and isinstance(self.target, Gaussian):
            self.target.prepare(bins)  # here, because a compiled graph cannot

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HistogramLoss:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._adopt(self.bins.to(self.edges.device))
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        given = state_dict.get(f"{prefix}edges")
        bins = None
        if isinstance(given, Tensor) and given.shape == self.edges.shape:
            # Otherwise torch itself says what is wrong.
            step = state_dict.get(f"{prefix}transformed_step", self.transformed_step)
            bins = _bins_of(given, step if step is None else float(step))
        super()._load_from_state_dict(state_dict, prefix, *rest)
        if bins is not None:
            # After torch, which may have put the given tensor itself, in float32, in its place.
            self._adopt(bins.to(self.edges.device))


def _bins_of(edges: Tensor, step: float | None) -> Bins | StackedBins:
    return Bins(edges, step) if edges.ndim == 1 else StackedBins([Bins(row) for row in edges])


class GradientBound(NamedTuple):
    """Proposition 1 for each row of a batch: `norm` is at most `bound`.

    Attributes
    ----------
    bound : Tensor of shape (n,)
        The bound on the norm of the gradient.
    norm : Tensor of shape (n,)
        The norm of the gradient, over all parameters.

    Examples
    --------
    >>> import torch
    >>> from softbins import GradientBound
    >>> result = GradientBound(bound=torch.tensor([2.0]), norm=torch.tensor([1.5]))
    >>> bool((result.norm <= result.bound).all())
    True
    """

    bound: Tensor
    norm: Tensor


def gradient_bound(
    body: nn.Module, head: nn.Linear, loss: HistogramLoss, x: Tensor, y: Tensor
) -> GradientBound:
    """Proposition 1: the norm of HL's gradient is at most (l + ||phi||) sum_i |p_i - f_i|.

    The network is `head(body(x))`, with phi = body(x) and, for each row, the smallest valid
    l = max_i ||grad_theta w_i' phi||. A bias of the head counts as a weight on a constant
    feature 1 of phi.

    Parameters
    ----------
    body : nn.Module
        The network up to its last layer.
    head : nn.Linear
        The last layer, with one output for each bin.
    loss : HistogramLoss
        The loss.
    x : Tensor of shape (n, ...)
        The inputs of the body.
    y : Tensor of shape (n,)
        The targets.

    Returns
    -------
    GradientBound
        The bound and the actual norm, over all parameters, of each row.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, HistogramLoss, gradient_bound
    >>> body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> head, loss = torch.nn.Linear(3, 8), HistogramLoss(Bins.uniform(0.0, 1.0, 8))
    >>> bound, norm = gradient_bound(body, head, loss, torch.randn(5, 2), torch.rand(5))
    >>> bool((norm <= bound).all())
    True
    """
    if not isinstance(loss.bins, Bins):
        raise ValueError(f"loss: the bound is that of one output, not of {loss.bins}")
    pairs = [_row_bound(body, head, loss, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    return GradientBound(*(torch.stack(parts) for parts in zip(*pairs, strict=True)))


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
    assert isinstance(loss.bins, Bins)
    error = (loss.target.weights(y, loss.bins) - torch.softmax(logits, -1)).abs().sum()
    return ((lipschitz + features.norm()) * error).detach(), _norm(gradient)


def _norm(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.flatten() for part in parts]).square().sum().sqrt()
