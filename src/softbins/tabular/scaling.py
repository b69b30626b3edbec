"""Features as a network likes them: small numbers about zero, and no outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Kind = Literal["robust", "standard"]

LIMIT = 4.0  # that no robustly scaled feature exceeds
LARGEST = np.finfo(np.float64).max
CHUNK = 65_536  # rows at a time: a second copy of all of them in float64 takes too much memory


@dataclass(frozen=True)
class Scaling:
    """Features minus `center` over `scale`, bent so that nothing exceeds `limit`.

    z becomes a / sqrt(1 + (a / limit)^2) with a = asinh(z): z itself near 0, a logarithm farther
    out, where many features are spread over orders of magnitude, and never more than the limit.
    (RealMLP's clip, without the logarithm: Holzmueller, Grinsztajn and Steinwart, 2024.) Without
    a limit it is z.
    """

    center: Array
    scale: Array
    limit: float = math.inf

    @classmethod
    def of(cls, features: Array, kind: Kind) -> Scaling:
        """The scaling of that kind, learnt from features (n, d)."""
        if kind not in get_args(Kind):
            raise ValueError(f"scaling: expected 'robust' or 'standard', got {kind!r}")
        return cls.robust(features) if kind == "robust" else cls.standard(features)

    @classmethod
    def standard(cls, features: Array) -> Scaling:
        """Features minus their mean; networks divide by the deviation themselves."""
        return cls(features.mean(axis=0), np.ones(features.shape[1]))

    @classmethod
    def robust(cls, features: Array) -> Scaling:
        """Distances from the median in quartile distances, bent.

        Where half of the values or more are the same, half of their range stands in.
        """
        levels = (0.0, 0.25, 0.5, 0.75, 1.0)
        # A method that takes no means, which may overflow.
        found = [np.quantile(column, levels, method="inverted_cdf") for column in features.T]
        low, first, median, third, high = np.stack(found, 1)
        with np.errstate(over="ignore"):
            scale = np.where(third > first, third - first, high / 2 - low / 2)
        return cls(median, np.where(scale > 0, scale.clip(max=LARGEST), 1.0), LIMIT)

    def __call__(self, features: Array) -> Tensor:
        """Scaled features in float32."""
        scaled = np.empty(features.shape, dtype=np.float32)
        with np.errstate(over="ignore"):  # the largest number is as good as infinity
            for start in range(0, len(features), CHUNK):
                part = slice(start, start + CHUNK)
                scaled[part] = self._bent((features[part] - self.center) / self.scale)
        return torch.from_numpy(scaled)

    def _bent(self, z: Array) -> Array:
        if self.limit == math.inf:
            return z
        a: Array = np.arcsinh(z.clip(-LARGEST, LARGEST))
        bent: Array = a / np.hypot(1.0, a / self.limit)
        return bent

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a model file."""
        arrays = {"center": self.center, "scale": self.scale, "limit": np.array(self.limit)}
        return {f"scaling.{name}": torch.from_numpy(value) for name, value in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Scaling:
        """What `tensors` gave, taken out of the tensors of a model file."""
        names = ("center", "scale", "limit")
        center, scale, limit = (tensors.pop(f"scaling.{name}").numpy() for name in names)
        return cls(center, scale, float(limit))
