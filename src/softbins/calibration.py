"""Honest predictions for anybody's network, learnt from rows that it has not been trained on.

`Temperature` makes all histograms less sure of themselves, or more, for a better score.
`Conformal` makes intervals that hold what they promise, whatever the forecast is worth: a bad one
only makes them wide. They need no temperature first. Where there is one, the promise strictly
takes rows other than those it was fitted on, though a single number learns little from them.

The promise (Vovk, Gammerman and Shafer, 2005): if the held-out rows and a new one are
exchangeable, its interval holds its target with at least the chosen probability, on average over
new rows and over draws of the n held-out ones. With one draw of them the coverage of intervals for
c is random, Beta(k, n + 1 - k) with k = ceil((n + 1) c), a deviation of about sqrt(c (1 - c) / n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins import scores
from softbins.histogram import Histogram

Kind = Literal["shortest", "central"]

# Steps from a temperature, in log t. From 1 they reach 1/400 and 400.
FAR = (0, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6)
NEAR = (0, -3, -2, -1, 1)
CLOSE = 1e-2  # in log t, where the search ends
PARABOLAS = 6  # at most

# A target lies at the very end of the interval that its own depth asks for; where targets are
# tied, as whole numbers are, rounding must not leave it just outside.
SLACK = 1e-9
EPSILON = torch.finfo(torch.float64).eps


# Temperature


@dataclass(frozen=True)
class Temperature:
    """A number t > 0 that divides the logits: probabilities become proportional to f^(1/t).

    Above 1 the forecast was too sure of itself, below 1 not sure enough.
    """

    t: float = 1.0

    def __post_init__(self) -> None:
        if not (_is_number(self.t) and 0 < self.t < math.inf):
            raise ValueError(f"t: need a positive, finite number, got {self.t!r}")

    @classmethod
    def fit(
        cls,
        distribution: Histogram,
        y: Any,
        sample_weight: Any = None,
        near: Temperature | None = None,
    ) -> Temperature:
        """The temperature with the least CRPS on held-out rows, 1 unless another is better.

        Not the likelihood, which is infinite at every temperature once a target lies outside the
        bins or where nothing was predicted. If it is known to be `near` a temperature, or somewhat
        lower, the search starts there and takes half the time.
        """

        def loss(log_t: float) -> float:
            return scores.crps(cls(math.exp(log_t)).apply(distribution), y, sample_weight)

        start, steps = (0.0, FAR) if near is None else (math.log(near.t), NEAR)
        return cls(math.exp(_least(loss, [start + step for step in steps])))

    def apply(self, distribution: Histogram) -> Histogram:
        """The histograms at this temperature."""
        scores.check_histogram(distribution)
        logits = distribution.logits / self.t
        return Histogram(distribution.bins, logits=logits, validate_args=False)

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` makes an equal one."""
        return {"t": self.t}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Temperature:
        """What `to_json` has given."""
        return cls(_entry(data, "t"))


def _least(loss: Callable[[float], float], starts: Sequence[float]) -> float:
    """Where a function of log t is least: the best of the starts, refined by parabolas.

    There are several starts because the CRPS may have more than one valley. Of equals the first is
    taken.
    """
    tried = {log_t: loss(log_t) for log_t in starts}
    for _ in range(PARABOLAS):
        lowest = _lowest(tried)
        if lowest is None or min(abs(lowest - log_t) for log_t in tried) < CLOSE:
            break
        tried[lowest] = loss(lowest)
    return min(tried, key=tried.__getitem__)


def _lowest(tried: dict[float, float]) -> float | None:
    """Where the parabola through the best point and its two neighbours is lowest, if it is."""
    places = sorted(tried)
    best = places.index(min(tried, key=tried.__getitem__))
    if best in (0, len(places) - 1):
        return None
    left, middle, right = places[best - 1 : best + 2]
    rise, fall = (tried[end] - tried[middle] for end in (right, left))
    ahead, behind = right - middle, middle - left
    bend = rise * behind + fall * ahead
    return middle - (rise * behind**2 - fall * ahead**2) / (2 * bend) if bend > 0 else None


# Conformal intervals


@dataclass(frozen=True)
class Conformal:
    """Intervals that hold new targets as often as they say; made by `fit`, once for every coverage.

    The depth of a target in its histogram is the probability that is left outside the smallest
    interval of the family `kind` that reaches it: 1 in the middle, 0 at the ends of the bins. A
    target outside the bins has minus its distance from them, in the unit of y, so that intervals
    grow beyond the bins, for all rows alike, if the held-out rows ask for it. What is kept are
    the sorted depths of the held-out rows, of all and of each group.
    """

    kind: Kind
    depths: tuple[float, ...]
    groups: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected 'shortest' or 'central', got {self.kind!r}")
        for name, depths in [("depths", self.depths), *self.groups.items()]:
            known = all(_is_number(depth) and -math.inf < depth <= 1 for depth in depths)
            if not (depths and known and list(depths) == sorted(depths)):
                raise ValueError(f"{name}: need sorted numbers of at most 1; use Conformal.fit")

    @classmethod
    def fit(
        cls, distribution: Histogram, y: Any, kind: Kind = "shortest", groups: Any = None
    ) -> Conformal:
        """From held-out rows: their forecasts, targets and, if given, labels of their groups.

        "central" intervals leave the same probability on either side. "shortest" ones are those
        of `Histogram.interval` for a density with one peak. With several peaks the shortest
        intervals of different levels need not contain each other, as they must here; instead
        they are the hulls of what lies above a falling threshold of the density.

        With `groups` the promise holds within each of them.
        """
        depth = _depths(distribution, y, kind)
        if groups is None:
            return cls(kind, _ascending(depth))
        labels = _labels(groups, tuple(depth.shape))
        parts = {label: _ascending(depth[labels == label]) for label in np.unique(labels)}
        return cls(kind, _ascending(depth), {str(label): part for label, part in parts.items()})

    @classmethod
    def fit_folds(
        cls, distributions: Sequence[Histogram], ys: Sequence[Any], kind: Kind = "shortest"
    ) -> Conformal:
        """From cross-validation: each fold's targets, judged by the network that has not seen them.

        All rows serve for training and for calibration. For new rows take `interval` of each
        network, and the means of their ends. Nothing is proven for these: CV+, which combines the
        ends in another way, holds about 1 - 2 alpha at least if made for 1 - alpha, and in
        practice about 1 - alpha (Barber, Candes, Ramdas and Tibshirani, 2021), as the means do.
        The interval of the networks' mixture also holds enough, but is wider than need be,
        because a mixture is wider than its members. Only `fit`, with rows that no network has
        seen, makes a promise.
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
        """Ends (low, high) that hold the target with probability `coverage`, in float64.

        A group that was not there when fitting, or with too few rows for this coverage, gets the
        intervals of all rows together, whose promise holds on average over the groups.
        """
        scores.check_histogram(distribution)
        pooled = _calibrated(self.depths, coverage)
        shape = tuple(distribution.batch_shape)
        depth = torch.full(shape, pooled, dtype=torch.float64, device=distribution.probs.device)
        if groups is not None:
            depth = depth.new_tensor(self._depth_of(_labels(groups, shape), coverage, pooled))
        return _Family.of(distribution, self.kind).interval(depth)

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
        """Plain data, from which `from_json` makes an equal one."""
        groups = {label: list(depths) for label, depths in self.groups.items()}
        return {"kind": self.kind, "depths": list(self.depths), "groups": groups}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Conformal:
        """What `to_json` has given."""
        kind, depths, groups = (_entry(data, name) for name in ("kind", "depths", "groups"))
        try:
            parts = {str(label): tuple(part) for label, part in groups.items()}
            return cls(kind, tuple(depths), parts)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"data: not as to_json gives it ({error})") from error


def _calibrated(depths: Sequence[float], coverage: float) -> float:
    """The depth that all but the allowed share of rows, a new one counted among them, reach."""
    needed, rows = _rows_needed(coverage), len(depths)
    if rows < needed:
        raise ValueError(
            f"coverage: {coverage} needs at least {needed} held-out rows, got {rows}; "
            f"hold out more, ask for at most {math.floor(1e4 * rows / (rows + 1)) / 1e4:g}, or "
            "take intervals that are not calibrated"
        )
    return depths[rows - _rank(rows, coverage)]


def _rank(rows: int, coverage: float) -> int:
    # 0.55 * 100 is a little more than 55 in floating point.
    return max(math.ceil((rows + 1) * coverage - SLACK), 1)


def _rows_needed(coverage: float) -> int:
    """The least n with ceil((n + 1) * coverage) <= n."""
    level = scores.checked_level("coverage", coverage)
    return max(math.ceil(level / (1 - level) - SLACK), 1)


def _depths(distribution: Histogram, y: Any, kind: Kind) -> Tensor:
    target = scores.checked_targets(distribution, y).to(distribution.probs.device)
    return _Family.of(distribution, kind).depth(target).cpu()


# Families of intervals, each inside the next


class _Arm(NamedTuple):
    """One end of the growing intervals of n histograms: knots (n, m), and straight between them.

    From the centre outwards `rest`, the probability that is left outside of the interval, falls
    from 1 to 0, and `place`, where its end is, does not fall: for low ends it has its sign turned.
    """

    rest: Tensor
    place: Tensor

    def rest_at(self, place: Tensor) -> Tensor:
        """The probability left outside when the end first comes to a place; both (n,)."""
        place = place.unsqueeze(-1)
        index = torch.searchsorted(self.place, place)
        start, end = _around(self.place, index)
        share = _share(place - start, end - start, otherwise=0.0)
        return torch.lerp(*_around(self.rest, index), share).squeeze(-1)

    def place_at(self, rest: Tensor) -> Tensor:
        """Where the end is when this probability is left outside, rounded outwards; both (n,)."""
        rest = (rest.clamp_min(0) * (1 - SLACK)).unsqueeze(-1)
        index = torch.searchsorted(-self.rest, -rest, right=True)
        before, after = _around(self.rest, index)
        start, end = _around(self.place, index)
        reached = torch.lerp(start, end, _share(before - rest, before - after, otherwise=1.0))
        rounding = 4 * EPSILON * torch.maximum(start.abs(), end.abs())
        return torch.minimum(reached + rounding, end).squeeze(-1)


class _Family(NamedTuple):
    """The growing intervals of n histograms: the way of their low and of their high ends."""

    distribution: Histogram
    low: _Arm
    high: _Arm

    @classmethod
    def of(cls, distribution: Histogram, kind: Kind) -> _Family:
        """In float64, whatever the network's precision: depths reach far into the tails."""
        logits = distribution.logits.detach().double().reshape(-1, distribution.bins.count)
        exact = Histogram(distribution.bins, logits=logits, validate_args=False)
        arms = _central(exact) if kind == "central" else _shortest(exact)
        return cls(distribution, *arms)

    def depth(self, y: Tensor) -> Tensor:
        """The depth of each target, outside the bins minus its distance, rounded outwards."""
        inside = torch.minimum(self.low.rest_at(-y), self.high.rest_at(y))
        bins = self.distribution.bins
        distance = (y - y.clamp(bins.low, bins.high)).abs()
        rounding = 4 * EPSILON * (distance + y.abs())
        return torch.where(distance > 0, -distance - rounding, inside)

    def interval(self, depth: Tensor) -> tuple[Tensor, Tensor]:
        """The interval that ends at each depth, in the shape of the batch."""
        flat = depth.reshape(-1)
        beyond = (-flat).clamp_min(0)
        low, high = -self.low.place_at(flat) - beyond, self.high.place_at(flat) + beyond
        return low.reshape(depth.shape), high.reshape(depth.shape)


def _central(exact: Histogram) -> tuple[_Arm, _Arm]:
    """From the median on, twice the probability of the tail is left outside."""
    middle, edges = exact.median.unsqueeze(-1), exact.bins.edges
    below = 2 * _tails(exact.probs.flip(-1)).flip(-1)
    above = 2 * _tails(exact.probs)
    low = _Arm(below.clamp_max(1).flip(-1), -torch.minimum(edges, middle).flip(-1))
    return low, _Arm(above.clamp_max(1), torch.maximum(edges, middle))


def _shortest(exact: Histogram) -> tuple[_Arm, _Arm]:
    """Bin after bin as the threshold falls, the densest first, from its middle on."""
    order, edges = _outwards(exact.probs / exact.bins.widths), exact.bins.edges
    rest = _tails(exact.probs.gather(-1, order))
    middle = exact.bins.centers[order[:, :1]]
    lows = torch.cat([middle, edges[order.cummin(-1).values]], -1)
    highs = torch.cat([middle, edges[order.cummax(-1).values + 1]], -1)
    return _Arm(rest, -lows), _Arm(rest, highs)


def _outwards(density: Tensor) -> Tensor:
    """The order in which bins join the hull of what lies above a falling threshold.

    A bin joins as soon as something as dense as the threshold lies on, or beyond, it on both
    sides. Of bins that join together those nearer to the peak come first.
    """
    from_left = density.cummax(-1).values
    from_right = density.flip(-1).cummax(-1).values.flip(-1)
    joins = torch.minimum(from_left, from_right)
    peak = density.argmax(-1, keepdim=True)
    way = (torch.arange(density.shape[-1], device=density.device) - peak).abs()
    nearest = way.argsort(dim=-1, stable=True)
    return nearest.gather(
        -1, joins.gather(-1, nearest).argsort(dim=-1, descending=True, stable=True)
    )


def _tails(probs: Tensor) -> Tensor:
    """The share of each bin and all after it, from exactly 1 to exactly 0; (n, k + 1)."""
    # Summed from the far end, which keeps all digits of the smallest.
    sums = probs.flip(-1).cumsum(-1).flip(-1)
    return torch.cat([sums / sums[:, :1], torch.zeros_like(sums[:, :1])], -1)


def _around(knots: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The knots before and at an index; the first and last also stand for what lies beyond."""
    last = knots.shape[-1] - 1
    return knots.gather(-1, (index - 1).clamp(0, last)), knots.gather(-1, index.clamp(0, last))


def _share(part: Tensor, whole: Tensor, otherwise: float) -> Tensor:
    return torch.where(whole > 0, (part / whole).clamp(0, 1), otherwise)


# Checks


def _ascending(depth: Tensor) -> tuple[float, ...]:
    return tuple(sorted(depth.tolist()))


def _labels(groups: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels as text, in which they come back from JSON."""
    labels = np.asarray(groups)
    if labels.shape != shape:
        raise ValueError(f"groups: need a label for each row, shape {shape}, got {labels.shape}")
    for i, label in enumerate(labels.reshape(-1).tolist()):
        if not isinstance(label, (str, int)):
            raise ValueError(
                f"groups: labels must be text or whole numbers, got {label!r} at index {i}"
            )
    return labels.astype(str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _entry(data: dict[str, Any], name: str) -> Any:
    if not isinstance(data, dict) or name not in data:
        raise ValueError(f"data: need a dict with {name!r}, as to_json gives, got {data!r}")
    return data[name]
