"""Honest predictions for anybody's network, learnt from rows that it has not been trained on.

`Calibrator` maps whole distributions, so that means, quantiles, intervals and scores belong
together. `Conformal` makes intervals alone, which a proof says hold what they promise, whatever the
forecast is worth: a bad one only makes them wide, also beyond the bins.

The promise (Vovk, Gammerman and Shafer, 2005): if the held-out rows and a new one are
exchangeable, its interval holds its target with at least the chosen probability, on average over
new rows and over draws of the n held-out ones. With one draw of them the coverage of intervals for
c is random, Beta(k, n + 1 - k) with k = ceil((n + 1) c), a deviation of about sqrt(c (1 - c) / n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.calibrator import Calibrator
from softbins._core.checks import checked_level, json_entry, numeric_column
from softbins._core.forecast_checks import check_histogram, checked_labels, checked_targets
from softbins._core.nested_intervals import SLACK, NestedIntervals
from softbins._core.nested_intervals import Kind as Kind
from softbins.histogram import Histogram

__all__ = ["Calibrator", "Conformal"]


@dataclass(frozen=True)
class Conformal:
    """Intervals that hold new targets as often as they say; made by `fit`, once for every coverage.

    The depth of a target in its histogram is the probability that is left outside the smallest
    interval of the family `kind` that reaches it: 1 in the middle, 0 at the ends of the bins. A
    target outside the bins has minus its distance from them, in the unit of y, so that intervals
    grow beyond the bins, for all rows alike, if the held-out rows ask for it.

    Parameters
    ----------
    kind : {"shortest", "central"}
        The family of intervals; see `fit`.
    depths : tuple of float
        The sorted depths of the targets of all held-out rows.
    groups : dict of str to tuple of float
        The sorted depths of the held-out rows of each group.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram
    >>> from softbins.calibration import Conformal
    >>> flat = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.full((9, 2), 0.5))
    >>> held_out = [0.8, 0.9, 0.9, 1.0, 1.0, 1.0, 1.1, 1.1, 1.2]
    >>> low, high = Conformal.fit(flat, held_out, kind="central").interval(flat, 0.9)
    >>> round(low[0].item(), 3), round(high[0].item(), 3)
    (0.8, 1.2)
    """

    kind: Kind
    depths: tuple[float, ...]
    groups: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected 'shortest' or 'central', got {self.kind!r}")
        _check_depths("depths", self.depths)
        for label, depths in self.groups.items():
            _check_depths(f"groups[{label!r}]", depths)

    @classmethod
    def fit(
        cls, distribution: Histogram, y: Any, kind: Kind = "shortest", groups: Any = None
    ) -> Conformal:
        """Learn from held-out rows how deep targets lie in their predicted distributions.

        "central" intervals leave the same probability on either side. "shortest" ones are those
        of `Histogram.interval` for a density with one peak. With several peaks the shortest
        intervals of different levels need not contain each other, as they must here; instead
        they are the hulls of what lies above a falling threshold of the density.

        Parameters
        ----------
        distribution : Histogram
            The predictions for n rows that the network was not trained on.
        y : array of shape (n,)
            Their targets.
        kind : {"shortest", "central"}
            The family of intervals.
        groups : array of shape (n,), optional
            A label, text or a whole number, for each row: the promise then holds within each
            group.

        Returns
        -------
        Conformal
            Calibrated intervals for new rows.
        """
        depth = _depths(distribution, y, kind)
        if groups is None:
            return cls(kind, _ascending(depth))
        labels = checked_labels(groups, tuple(depth.shape))
        parts = {label: _ascending(depth[labels == label]) for label in np.unique(labels)}
        return cls(kind, _ascending(depth), {str(label): part for label, part in parts.items()})

    @classmethod
    def fit_folds(
        cls, distributions: Sequence[Histogram], ys: Sequence[Any], kind: Kind = "shortest"
    ) -> Conformal:
        """Learn from cross-validation: each network's predictions for the rows it has not seen.

        All rows serve for training and for calibration. For new rows take `interval` of each
        network, and the means of their ends. Nothing is proven for these: CV+, which combines the
        ends in another way, holds about 1 - 2 alpha at least if made for 1 - alpha, and in
        practice about 1 - alpha (Barber, Candes, Ramdas and Tibshirani, 2021), as the means do.
        The interval of the networks' mixture also holds enough, but is wider than need be,
        because a mixture is wider than its members. Only `fit`, with rows that no network has
        seen, makes a promise.

        Parameters
        ----------
        distributions : sequence of Histogram
            For each fold the predictions for its rows, by a network trained on the other folds.
        ys : sequence of arrays
            For each fold the targets of its rows.
        kind : {"shortest", "central"}
            The family of intervals; see `fit`.

        Returns
        -------
        Conformal
            Calibrated intervals for new rows.
        """
        if len(distributions) == 0 or len(distributions) != len(ys):
            raise ValueError(
                "distributions, ys: need one of each for every fold, got "
                f"{len(distributions)} distributions and {len(ys)} arrays of targets"
            )
        folds = [_depths(fold, y, kind) for fold, y in zip(distributions, ys, strict=True)]
        return cls(kind, _ascending(torch.cat(folds)))

    def interval(
        self, distribution: Histogram, coverage: float, groups: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Intervals that hold the targets of new rows with probability `coverage`.

        A group that was not there when fitting, or with too few rows for this coverage, gets the
        intervals of all rows together, whose promise holds on average over the groups.

        Parameters
        ----------
        distribution : Histogram
            The predictions for new rows, of any batch shape.
        coverage : float
            The probability, strictly between 0 and 1.
        groups : array, optional
            A label for each row, in the batch shape, if `fit` had labels.

        Returns
        -------
        low : Tensor
            The low ends, in the batch shape and in float64.
        high : Tensor
            The high ends, in the batch shape and in float64.

        Raises
        ------
        ValueError
            If the held-out rows were too few for this coverage.
        """
        check_histogram(distribution)
        pooled = _calibrated(self.depths, coverage)
        shape = tuple(distribution.batch_shape)
        depth = torch.full(shape, pooled, dtype=torch.float64, device=distribution.probs.device)
        if groups is not None:
            depth = depth.new_tensor(
                self._depth_of(checked_labels(groups, shape), coverage, pooled)
            )
        return NestedIntervals.of(distribution, self.kind).interval(depth)

    def _depth_of(self, labels: NDArray[Any], coverage: float, pooled: float) -> NDArray[Any]:
        if not self.groups:
            raise ValueError("groups: given, but Conformal.fit had none; give them to it as well")
        known = {
            label: _calibrated(depths, coverage)
            for label, depths in self.groups.items()
            if len(depths) >= _rows_needed(coverage)
        }
        flat = [known.get(str(label), pooled) for label in labels.reshape(-1)]
        return np.array(flat).reshape(labels.shape)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, from which `from_json` makes an equal object.

        Returns
        -------
        dict
            Names and plain values.
        """
        groups = {label: list(depths) for label, depths in self.groups.items()}
        return {"kind": self.kind, "depths": list(self.depths), "groups": groups}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Conformal:
        """The object from which `to_json` has made the data.

        Parameters
        ----------
        data : dict
            What `to_json` has given, also after a way through JSON.

        Returns
        -------
        Conformal
            An equal object.

        Raises
        ------
        ValueError
            If something is missing or wrong in the data.
        """
        kind, depths, groups = (json_entry(data, name) for name in ("kind", "depths", "groups"))
        try:
            parts = {str(label): tuple(part) for label, part in groups.items()}
            return cls(kind, tuple(depths), parts)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"data: not as to_json gives it ({error})") from error


def _calibrated(depths: Sequence[float], coverage: float) -> float:
    """The depth that all but the allowed share of rows, a new one counted among them, reach."""
    needed, n_rows = _rows_needed(coverage), len(depths)
    if n_rows < needed:
        raise ValueError(
            f"coverage: {coverage} needs at least {needed} held-out rows, got {n_rows}; "
            f"hold out more, ask for at most {math.floor(1e4 * n_rows / (n_rows + 1)) / 1e4:g}, "
            "or take intervals that are not calibrated"
        )
    return depths[n_rows - _rank(n_rows, coverage)]


def _rank(n_rows: int, coverage: float) -> int:
    # 0.55 * 100 is a little more than 55 in floating point.
    return max(math.ceil((n_rows + 1) * coverage - SLACK), 1)


def _rows_needed(coverage: float) -> int:
    """The least n with ceil((n + 1) * coverage) <= n."""
    level = checked_level("coverage", coverage)
    return max(math.ceil(level / (1 - level) - SLACK), 1)


def _depths(distribution: Histogram, y: Any, kind: Kind) -> Tensor:
    target = checked_targets(distribution, y).to(distribution.probs.device)
    return NestedIntervals.of(distribution, kind).depth(target).cpu()


def _ascending(depth: Tensor) -> tuple[float, ...]:
    return tuple(sorted(depth.tolist()))


# Checks


def _check_depths(name: str, depths: tuple[float, ...]) -> None:
    values = numeric_column(name, depths, hint="use Conformal.fit")
    if (values > 1).any() or (np.diff(values) < 0).any():
        raise ValueError(f"{name}: need sorted numbers of at most 1; use Conformal.fit")
