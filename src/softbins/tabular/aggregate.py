"""From members and trees to one distribution, as held-out rows advise.

A held-out row is predicted by the members, one or two, that have not seen it. From such rows come
what is done to the histograms: how much the trees' mean counts, whether bins are too wide for what
is known, a temperature, and depths for conformal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins import scores
from softbins.bins import Bins
from softbins.calibration import Conformal, Kind, Temperature
from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.nn.stack import Stack
from softbins.nn.trainer import CHUNK

Array = NDArray[np.float64]

JUDGES = 10_000  # held-out rows that are used, at most
FOR_TEMPERATURE = 2_000
WORTH = 0.005  # of the squared error, that trees must save to be kept
FINEST = 16  # parts of a bin, at most
FOR_PARTS = 500  # rows that choose them, and the temperature for intervals
WIDER = (4, 16, 64)  # temperatures for intervals, times that of distributions, as they are tried
ENOUGH = 100  # rows to choose it by
COVERAGE = 0.9  # at which they are to be narrow
PIECE = 2**17  # numbers at a time, a megabyte: what stays in fast memory takes a third of the time
SPIKE = 0.2  # of the targets with the same value, from which on depths stay as they are
NARROWER = 0.95  # that other intervals must be: to choose among them costs coverage
KINDS: tuple[Kind, ...] = ("central", "shortest")


@dataclass(frozen=True)
class Finish:
    """What held-out rows have said: the trees' share of the mean, temperatures, and intervals.

    Bins are cut into so many `parts` for a distribution. Intervals come from distributions at
    the temperature that makes them narrow, `wide`: where most errors are tiny and a few are not,
    the best distribution says little of how far those few go.
    """

    share: float
    parts: int
    temperature: Temperature
    wide: Temperature
    intervals: dict[Kind, Conformal]

    @classmethod
    def fit(
        cls,
        objective: Objective,
        outputs: Tensor,
        trees: Array | None,
        y: Tensor,
        weight: Tensor | None,
        finest: int = FINEST,
        whole: int = 1,
    ) -> Finish:
        """From outputs (members, n, k) and the trees' predictions (n,) for held-out rows.

        The members are those that have left the row out, usually one or two, of `whole` in all.
        Bins are cut into `finest` parts at most.
        """
        mean, predicted = objective.decode(outputs).mean(0), _pooled(objective, outputs)
        share = 0.0 if trees is None else _share(mean, torch.from_numpy(trees), y, weight)
        mean = _blend(mean, trees, share)
        some = _some(len(y), FOR_TEMPERATURE)
        chosen = Histogram(predicted.bins, logits=predicted.logits[some])
        weights = None if weight is None else weight[some]
        parts, temperature = _sharpness(chosen, mean[some], y[some], weights, finest)
        wide = _narrowest(predicted, parts, temperature, mean, y)
        first = cls(share, parts, temperature, wide, {})
        return replace(first, intervals=first._conformal(objective, outputs, trees, y, whole))

    def _conformal(
        self, objective: Objective, outputs: Tensor, trees: Array | None, y: Tensor, whole: int
    ) -> dict[Kind, Conformal]:
        """From depths of the held-out rows, as the whole ensemble would have them."""
        intervals = self._fitted(objective, outputs, trees, y)
        if not 1 < len(outputs) < whole or _has_spike(y):
            return intervals
        some = _some(len(y), FOR_TEMPERATURE)
        few = None if trees is None else trees[some]
        alone = [self._fitted(objective, one, few, y[some]) for one in outputs[:, None, some]]
        return {
            kind: _extrapolated(found, [one[kind] for one in alone], whole)
            for kind, found in intervals.items()
        }

    def _fitted(
        self, objective: Objective, outputs: Tensor, trees: Array | None, y: Tensor
    ) -> dict[Kind, Conformal]:
        pieces = self.pieces(objective, outputs, trees)
        forecasts = [self.for_intervals(objective, *piece) for piece in pieces]
        targets = y.split(_rows(objective.outputs, self.parts))
        return {kind: Conformal.fit_folds(forecasts, targets, kind) for kind in KINDS}

    def pieces(
        self, objective: Objective, outputs: Tensor, trees: Array | None
    ) -> list[tuple[Tensor, Array | None]]:
        """Outputs (V, n, k) and the trees' predictions (n,), some rows at a time."""
        rows = _rows(objective.outputs, self.parts)
        starts = range(0, outputs.shape[1], rows)
        own = [None if trees is None else trees[start : start + rows] for start in starts]
        return list(zip(outputs.split(rows, 1), own, strict=True))

    @classmethod
    @torch.no_grad()
    def of_folds(
        cls,
        network: Stack,
        objective: Objective,
        x: Tensor,
        target: Array,
        weight: Array | None,
        folds: Sequence[Tensor],
        trees: Array | None,
        finest: int = FINEST,
    ) -> Finish:
        """From the rows of different folds; member v has left out fold v modulo their number."""
        judges = [fold[: JUDGES // len(folds)] for fold in folds]
        longest = max(map(len, judges))
        padded = torch.stack([torch.cat([j, j.new_zeros(longest - len(j))]) for j in judges])
        padded = padded.repeat(network.members // len(folds), 1)
        outputs = torch.cat([network(x[part].double()) for part in padded.split(CHUNK, 1)], 1)
        teams = [outputs[f :: len(folds), : len(judged)] for f, judged in enumerate(judges)]
        rows = torch.cat(judges)
        weights = None if weight is None else torch.from_numpy(weight)[rows]
        y = torch.from_numpy(target)[rows]
        outputs = torch.cat(teams, 1)
        return cls.fit(objective, outputs, trees, y, weights, finest, network.members)

    def mean(self, objective: Objective, outputs: Tensor, trees: Array | None) -> Tensor:
        """Predicted means for outputs (V, n, k) and the trees' predictions (n,)."""
        return _blend(objective.decode(outputs).mean(0), trees, self.share)

    def distribution(self, objective: Objective, outputs: Tensor, trees: Array | None) -> Histogram:
        """Predicted distributions, whose means are those of `mean`."""
        return self._at(self.temperature, objective, outputs, trees)

    def for_intervals(
        self, objective: Objective, outputs: Tensor, trees: Array | None
    ) -> Histogram:
        """The same at the temperature that `intervals` were made with."""
        return self._at(self.wide, objective, outputs, trees)

    def _at(
        self, temperature: Temperature, objective: Objective, outputs: Tensor, trees: Array | None
    ) -> Histogram:
        mean = self.mean(objective, outputs, trees)
        predicted = refined(_pooled(objective, outputs), self.parts)
        return temperature.apply(predicted).with_mean(mean)

    def to_json(self) -> dict[str, Any]:
        """The numbers; depths are in `tensors`."""
        temperatures = {"temperature": self.temperature.to_json(), "wide": self.wide.to_json()}
        return {"share": self.share, "parts": self.parts} | temperatures

    def tensors(self) -> dict[str, Tensor]:
        """The depths of the held-out rows, for a model file."""
        kinds = self.intervals.items()
        return {
            f"depths.{kind}": torch.tensor(part.depths, dtype=torch.float64) for kind, part in kinds
        }

    @classmethod
    def from_file(cls, header: dict[str, Any], tensors: dict[str, Tensor]) -> Finish:
        """What `to_json` and `tensors` gave, taken out of those of a model file."""
        depths: dict[Kind, Sequence[float]] = {
            kind: tensors.pop(f"depths.{kind}").tolist() for kind in KINDS
        }
        intervals = {kind: Conformal(kind, tuple(part)) for kind, part in depths.items()}
        best, wide = (Temperature.from_json(header[name]) for name in ("temperature", "wide"))
        return cls(header["share"], header["parts"], best, wide, intervals)


def _some(rows: int, most: int) -> slice:
    """Rows at equal distances, where there are many: `most` of them, and fewer than twice that."""
    return slice(None, None, max(1, rows // most))


def _rows(numbers: int, parts: int) -> int:
    """How many to take at a time, if each has so many numbers, cut into parts."""
    return max(1, PIECE // (numbers * parts))


def _pooled(objective: Objective, outputs: Tensor) -> Histogram:
    """The geometric mean of the members' probabilities.

    Unlike a mixture it is no wider than they are: the temperature was fitted to fewer members.
    """
    members = objective.distribution(outputs)
    return Histogram(members.bins, logits=members.logits.mean(0))


def _has_spike(y: Tensor) -> bool:
    """Whether many rows have the same target, and so about the same depth.

    That is given by where in its bin the target lies, not by the members' errors. Intervals that
    end a little closer would lose all of those rows at once.
    """
    counts: Tensor = torch.unique(y, return_counts=True)[1]
    return counts.max().item() > SPIKE * len(y)


def _extrapolated(team: Conformal, alone: Sequence[Conformal], whole: int) -> Conformal:
    """From the depths for a team and for each of its members, those for the whole ensemble.

    As squared distances from the middle of a Gaussian they have a part that all members share, and
    one that is 1 / m as large in the mean of m of them. More than the latter cannot vanish.
    """
    depths = torch.tensor(team.depths, dtype=torch.float64)
    singles = torch.tensor([one.depths for one in alone], dtype=torch.float64)
    places = torch.linspace(0, 1, len(depths), dtype=torch.float64)
    single = singles.flatten().quantile(places)
    least = torch.finfo(torch.float64).tiny
    now, before = (torch.special.ndtri(d.clamp(least, 1) / 2).square() for d in (depths, single))
    share = (1 / len(alone) - 1 / whole) / (1 - 1 / len(alone))
    then = (now - share * (before - now)).clamp(now * len(alone) / whole, now)
    moved = torch.where(depths > 0, 2 * torch.special.ndtr(-then.sqrt()), depths)
    return replace(team, depths=tuple(moved.sort().values.tolist()))


def refined(predicted: Histogram, parts: int) -> Histogram:
    """Each bin cut into parts, between which the probability changes as it does between bins.

    The logarithms follow the parabola through those of a bin and its neighbours, which a
    Gaussian's do: a temperature then finds a peak that is narrower than a bin.
    """
    if parts == 1:
        return predicted
    logits = predicted.logits
    first = 2 * logits[..., :1] - logits[..., 1:2]
    last = 2 * logits[..., -1:] - logits[..., -2:-1]
    around = torch.cat([first, logits, last], -1).unsqueeze(-1)
    before, after = around[..., :-2, :], around[..., 2:, :]
    place = (torch.arange(parts).to(logits) + 0.5) / parts - 0.5
    slope, bend = (after - before) / 2, (after + before) / 2 - around[..., 1:-1, :]
    finer = around[..., 1:-1, :] + place * (slope + place * bend)
    return Histogram(predicted.bins.finer(parts), logits=finer.flatten(-2))


def _sharpness(
    predicted: Histogram, mean: Tensor, y: Tensor, weight: Tensor | None, finest: int
) -> tuple[int, Temperature]:
    """Into how many parts bins are cut, and the temperature then.

    At a temperature t the Gaussians of the targets are sqrt(t) as wide: as many parts keep their
    width in bins. Finer bins may ask for a lower one, and so for more parts.
    """
    temperature = Temperature.fit(predicted.with_mean(mean), y, weight)
    finest = min(finest, _most_parts(predicted.bins))
    some = _some(len(y), FOR_PARTS)
    few = (mean[some], y[some], None if weight is None else weight[some])
    coarse = Histogram(predicted.bins, logits=predicted.logits[some])
    best, parts = (_crps(coarse, temperature, *few), 1, temperature), 1
    while (more := min(_parts(best[2]), finest)) > parts:
        parts, finer = more, refined(coarse, more)
        again = Temperature.fit(finer.with_mean(few[0]), *few[1:], near=best[2])
        best = min(best, (_crps(finer, again, *few), parts, again), key=itemgetter(0))
    return best[1:]


def _narrowest(
    predicted: Histogram, parts: int, temperature: Temperature, mean: Tensor, y: Tensor
) -> Temperature:
    """The temperature, that one or higher, at which conformal intervals are narrowest."""
    if len(y) < ENOUGH:
        return temperature
    some = _some(len(y), FOR_PARTS)
    rows = _rows(predicted.bins.count, parts)
    few = [Histogram(predicted.bins, logits=part) for part in predicted.logits[some].split(rows)]
    finer = [refined(part, parts) for part in few]
    means, targets = mean[some].split(rows), y[some].split(rows)

    def width(candidate: Temperature) -> float:
        pairs = zip(finer, means, strict=True)
        forecasts = [candidate.apply(part).with_mean(own) for part, own in pairs]
        conformal = Conformal.fit_folds(forecasts, targets, "central")
        ends = [conformal.interval(part, COVERAGE) for part in forecasts]
        return torch.cat([high - low for low, high in ends]).mean().item()

    best = first = width(temperature)
    narrowest = temperature
    for factor in WIDER:
        candidate = Temperature(temperature.t * factor)
        if (found := width(candidate)) >= best:
            break
        best, narrowest = found, candidate
    return narrowest if best < NARROWER * first else temperature


def _parts(temperature: Temperature) -> int:
    return 1 << max(0, round(-math.log2(temperature.t) / 2))


def _most_parts(bins: Bins) -> int:
    """Into how many parts float64 can cut the narrowest bin."""
    smallest = 4 * torch.finfo(bins.edges.dtype).eps * bins.edges.abs().max()
    return max(1, int((bins.widths.min() / smallest).clamp(max=FINEST)))


def _crps(
    predicted: Histogram, temperature: Temperature, mean: Tensor, y: Tensor, weight: Tensor | None
) -> float:
    return scores.crps(temperature.apply(predicted).with_mean(mean), y, weight)


def _blend(mean: Tensor, trees: Array | None, share: float) -> Tensor:
    if trees is None or share == 0:
        return mean
    return torch.lerp(mean, torch.from_numpy(trees), share)


def _share(mean: Tensor, trees: Tensor, y: Tensor, weight: Tensor | None) -> float:
    """The share of the trees with the least squared error, 0 unless it is worth their trouble."""
    weights = torch.ones_like(y) if weight is None else weight
    gap, error = trees - mean, y - mean
    inner = (weights * gap.square()).sum()
    if inner == 0:
        return 0.0
    share = ((weights * gap * error).sum() / inner).clamp(0, 1)
    saved = (weights * (error.square() - (error - share * gap).square())).sum()
    return share.item() if saved > WORTH * (weights * error.square()).sum() else 0.0
