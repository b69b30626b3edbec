"""The base class of the target distributions in `targets`, and what several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from softbins._core.checks import SMALLEST_POSITIVE
from softbins._core.tensor_checks import LARGEST, require
from softbins.bins import Bins

Outside = Literal["clamp", "error", "tail"]


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """Base class: a distribution over the bins for each target value, p in Section 2.2.

    Parameters
    ----------
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins' range [a, b]. "clamp", the default, treats them
        as the nearest end, "error" refuses them, and "tail" keeps them where they are and
        truncates their distribution to the range, however little of it is left there.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, OneBin, Target
    >>> isinstance(OneBin(), Target)
    True
    >>> OneBin().weights(torch.tensor([0.5, 99.0]), Bins([0.0, 1.0, 2.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    _: KW_ONLY
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        if self.outside not in ("clamp", "error", "tail"):
            raise ValueError(f"outside: expected 'clamp', 'error' or 'tail', got {self.outside!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Target) or type(self) is not type(other):
            return False
        mine, theirs = vars(self), vars(other)
        return mine.keys() == theirs.keys() and all(_same(mine[n], theirs[n]) for n in mine)

    def __hash__(self) -> int:
        return hash((type(self), self.outside))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and checkpoints go through the checks of a new target."""
        for name in state:
            if callable(getattr(type(self), name, None)):
                raise ValueError(f"{name}: a checkpoint must not replace a method")
        self.__dict__.update(state)
        self.__post_init__()

    def weights(self, y: Tensor, bins: Bins) -> Tensor:
        """The weights p_1 .. p_k >= 0 of the bins, which sum to one, for each target.

        A target at an atom has all of its weight there.

        Parameters
        ----------
        y : Tensor
            Finite targets of any shape.
        bins : Bins
            The k bins, on the device of `y`.

        Returns
        -------
        Tensor
            The shape of `y` with k weights for each target, in the precision of `y` and at least
            in float32.

        Raises
        ------
        ValueError
            If a target is NaN or infinite, or outside the bins where `outside` is "error".
        """
        dtype = torch.promote_types(y.dtype, torch.float32)
        placed = self.placed(y, bins)
        masses = self._masses(placed, bins)
        if bins.atoms is not None:
            own = bins.locate(placed)
            masses = torch.where(bins.atoms[own].unsqueeze(-1), one_hot(own, bins), masses)
        return masses.to(dtype)

    def placed(self, y: Tensor, bins: Bins) -> Tensor:
        """The targets in float64, checked, and moved to where `outside` wants them.

        Parameters
        ----------
        y : Tensor
            Targets of any shape.
        bins : Bins
            The bins, on the device of `y`.

        Returns
        -------
        Tensor
            The targets, in the shape of `y`.
        """
        if y.device != bins.edges.device:
            raise ValueError(f"y: is on {y.device}, but the bins are on {bins.edges.device}")
        if self.outside == "error":
            # The ends themselves may have been rounded outwards to the targets' precision.
            eps = torch.finfo(y.dtype).eps if y.is_floating_point() else 0.0
            low, high = bins.low - eps * abs(bins.low), bins.high + eps * abs(bins.high)
            hint = "widen the bins (Bins.covering), or choose outside='clamp' or 'tail'"
            y = require("y", y, low, high, hint).double()
        else:
            y = require("y", y, hint="drop or impute those rows").double()
        return y if self.outside == "tail" else y.clamp(bins.low, bins.high)

    @abstractmethod
    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        """The weights of targets that `placed` has prepared, in float64."""

    def _counted_in(self, width: Tensor) -> Target:
        """The same distribution of targets that are counted in widths of bins, or `ValueError`."""
        raise ValueError(
            f"target: {type(self).__name__} is made for one unit of the targets, not for outputs "
            "with a range each; give each output a loss of its own"
        )


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters are equal; a tensor equals only a tensor."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and torch.equal(a, b.to(a))
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b)


def within(name: str, value: float | Tensor, low: float, high: float, hint: str) -> float | Tensor:
    """A parameter, a number or a tensor of them, that lies in [low, high]."""
    if isinstance(value, Tensor):
        return require(name, value, low, high, hint)
    if not low <= value <= high:
        raise ValueError(f"{name}: got {value}; {hint}")
    return value


def positive(name: str, value: float | Tensor) -> float | Tensor:
    """A parameter, a number or a tensor of them, that is positive and finite."""
    return within(name, value, SMALLEST_POSITIVE, LARGEST, f"{name} must be positive and finite")


def per_bin(value: float | Tensor, y: Tensor) -> float | Tensor:
    """A parameter that broadcasts against `y`, made to broadcast against weights (*y.shape, k)."""
    return value.to(y).unsqueeze(-1) if isinstance(value, Tensor) else value


def one_hot(index: Tensor, bins: Bins) -> Tensor:
    """Weights (*index.shape, k) with all the weight in one bin."""
    return (index.unsqueeze(-1) == torch.arange(bins.count, device=index.device)).double()
