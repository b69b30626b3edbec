"""Scaling of the features before a network sees them: around zero, without outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.tabular.defaults import DEFAULTS, ScalingKind

Array = NDArray[np.float64]
Features = NDArray[np.floating]

MAX_ROBUST_VALUE = DEFAULTS.columns.max_robust_value
MAX_FLOAT64 = np.finfo(np.float64).max
MAX_FLOAT32 = float(np.finfo(np.float32).max)
# Rows are scaled in chunks, because a second float64 copy of all of them would need much memory.
CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class Scaling:
    """Subtracts `center`, divides by `scale`, and compresses what is left to within `limit`.

    With a = asinh(z), z becomes a / sqrt(1 + (a / limit)^2). Near 0 that is z itself. Farther out
    it is a logarithm, as many features spread over orders of magnitude, and it never exceeds the
    limit. (RealMLP compresses without the logarithm: Holzmueller, Grinsztajn and Steinwart, 2024.)
    An infinite limit compresses nothing.

        scaling = Scaling.fit(features, "robust")
        scaling(features)  # (n, d) in float32, for features (n, d)
    """

    center: Array
    scale: Array
    limit: float = math.inf

    @classmethod
    def fit(cls, features: Features, kind: ScalingKind) -> Scaling:
        """Learn a scaling of that kind from features (n, d)."""
        if kind not in get_args(ScalingKind):
            raise ValueError(f"scaling: expected 'robust' or 'standard', got {kind!r}")
        return cls.robust(features) if kind == "robust" else cls.standard(features)

    @classmethod
    def empty(cls, kind: ScalingKind) -> Scaling:
        """A scaling of that kind for no features."""
        return cls.fit(np.empty((1, 0)), kind)

    @classmethod
    def joined(cls, parts: Sequence[Scaling]) -> Scaling:
        """The scaling of several features, from those of some at a time."""
        centers, scales = zip(*((part.center, part.scale) for part in parts), strict=True)
        return cls(np.concatenate(centers), np.concatenate(scales), parts[0].limit)

    @classmethod
    def standard(cls, features: Features) -> Scaling:
        """Subtract the mean; networks divide by the standard deviation themselves.

        The scale is the power of two above the largest distance from the mean, which float32 holds
        whatever the unit is, and which changes no bit of a standardized feature.
        """
        center = features.mean(axis=0, dtype=np.float64)
        largest = np.maximum(features.max(axis=0) - center, center - features.min(axis=0))
        return cls(center, np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1]), 1.0))

    @classmethod
    def robust(cls, features: Features, limit: float = MAX_ROBUST_VALUE) -> Scaling:
        """Subtract the median, divide by the distance between the quartiles, and compress.

        Where the quartiles are equal, half of the range takes the place of their distance.
        """
        # Values that are there, as of the inverted CDF: the mean of two large ones may overflow.
        n_rows = len(features)
        places = [0, *(math.ceil(n_rows * part / 4) - 1 for part in (1, 2, 3)), n_rows - 1]
        found = [np.partition(column, places)[places] for column in features.T]
        low, first, median, third, high = np.array(found, dtype=np.float64).reshape(-1, 5).T
        with np.errstate(over="ignore"):
            scale = np.where(third > first, third - first, high / 2 - low / 2)
        return cls(median, np.where(scale > 0, scale.clip(max=MAX_FLOAT64), 1.0), limit)

    def __call__(self, features: Array) -> Tensor:
        """Scaled features (n, d) in float32."""
        scaled = np.empty(features.shape, dtype=np.float32)
        with np.errstate(over="ignore", under="ignore"):
            for start in range(0, len(features), CHUNK_ROWS):
                chunk = slice(start, start + CHUNK_ROWS)
                scaled[chunk] = self._compress((features[chunk] - self.center) / self.scale)
        return torch.from_numpy(scaled)

    def _compress(self, z: Array) -> Array:
        if self.limit == math.inf:
            return z.clip(-MAX_FLOAT32, MAX_FLOAT32)
        a: Array = np.arcsinh(z.clip(-MAX_FLOAT64, MAX_FLOAT64))
        compressed: Array = a / np.hypot(1.0, a / self.limit)
        return compressed

    @property
    def precision(self) -> torch.dtype:
        """What networks compute in: float32 is quick, but may overflow where there is no limit."""
        return torch.float32 if math.isfinite(self.limit) else torch.float64

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a model file."""
        arrays = {"center": self.center, "scale": self.scale, "limit": np.array(self.limit)}
        return {f"scaling.{name}": torch.from_numpy(value) for name, value in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Scaling:
        """The scaling that `tensors` wrote, removed from the tensors of a model file."""
        names = ("center", "scale", "limit")
        center, scale, limit = (tensors.pop(f"scaling.{name}").numpy() for name in names)
        return cls(center, scale, float(limit))
