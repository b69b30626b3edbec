"""From the outputs of all members, and trees, to one distribution for each row.

A held-out row is predicted by the members, one or two, that have not seen it. Such rows decide what
is done to the histograms: how much the trees' mean counts, whether bins are too wide for what is
known, a temperature, and the depths that make conformal intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.calibration import Conformal, Kind, Temperature
from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.tabular.defaults import Defaults
from softbins.tabular.objectives import TwoHeadObjective
from softbins.tabular.sharpness import (
    HeldOut,
    fit_sharpness,
    narrowest_temperature,
    rows_per_chunk,
    split_bins,
    spread_evenly,
)

Array = NDArray[np.float64]

KINDS: tuple[Kind, ...] = ("central", "shortest")


@dataclass(frozen=True)
class Outputs:
    """What members and trees say of n rows: outputs (members, n, k), and predictions (n,).

    What is made of them is float64, whatever networks compute in.
    """

    members: Tensor
    trees: Array | Tensor | None = None

    def mean(self, objective: Objective) -> Tensor:
        """The mean (n,) of what the members predict."""
        return objective.decode(self.members[..., : objective.mean_outputs].double()).mean(0)

    def pooled(self, objective: Objective) -> Histogram:
        """The geometric mean of the members' probabilities.

        Unlike a mixture it is no wider than they are: the temperature was fitted to fewer members.
        Logarithms are averaged, to which a member's normalization only adds a constant.
        """
        return objective.distribution(self.members.mean(0, dtype=torch.float64))

    def mixture(self, objective: Objective) -> Histogram:
        """The mean of the members' probabilities, moved to the mean of what they predict."""
        members = objective.distribution(self.members.double())
        mixed = Histogram(members.bins, logits=members.probs.mean(0).log())
        if not isinstance(objective, TwoHeadObjective):
            return mixed
        # Of two histograms the sharp one has the shape, and the blurred one the mean.
        return mixed.with_mean(self.mean(objective))

    def __getitem__(self, rows: slice) -> Outputs:
        """The same for some of the rows."""
        return Outputs(self.members[:, rows], None if self.trees is None else self.trees[rows])

    def each_member(self) -> list[Outputs]:
        """The same for each member alone."""
        return [Outputs(member.unsqueeze(0), self.trees) for member in self.members]


@dataclass(frozen=True)
class Aggregator:
    """Turns outputs of members and trees into means, distributions and intervals.

    `tree_share` is the weight of the trees in the mean. Bins are cut into `bin_splits` parts for a
    distribution. Intervals come from distributions at `interval_temperature`, which makes them
    narrow: where most errors are tiny and a few are not, the best distribution says little of how
    far those few go.
    """

    objective: Objective = field(compare=False)
    tree_share: float
    bin_splits: int
    temperature: Temperature
    interval_temperature: Temperature
    intervals: dict[Kind, Conformal]

    @classmethod
    def fit(
        cls,
        objective: Objective,
        outputs: Outputs,
        y: Tensor,
        weight: Tensor | None,
        *,
        defaults: Defaults,
        max_bin_splits: int,
        ensemble_size: int = 1,
    ) -> Aggregator:
        """Learn from held-out rows with targets y (n,) and weights (n,).

        The members are those that have left the row out, usually one or two of the
        `ensemble_size` that predict new rows.
        """
        calibration, mean = defaults.calibration, outputs.mean(objective)
        share = _tree_share(mean, outputs.trees, y, weight, defaults.trees.min_gain)
        rows = HeldOut(outputs.pooled(objective), _blend(mean, outputs, share), y, weight)
        splits, temperature = fit_sharpness(rows, calibration, max_bin_splits)
        widest = narrowest_temperature(rows, splits, temperature, calibration)
        first = cls(objective, share, splits, temperature, widest, {})
        intervals = first._conformal(outputs, y)
        alike = _most_frequent_share(y) > calibration.spike_share
        if 1 < len(outputs.members) < ensemble_size and not alike:
            some = spread_evenly(len(y), calibration.temperature_rows)
            alone = [first._conformal(one, y[some]) for one in outputs[some].each_member()]
            intervals = {
                kind: _extrapolated(found, [one[kind] for one in alone], ensemble_size)
                for kind, found in intervals.items()
            }
        return replace(first, intervals=intervals)

    def _conformal(self, outputs: Outputs, y: Tensor) -> dict[Kind, Conformal]:
        """Conformal intervals from the depths of held-out rows."""
        chunks = self.chunks(outputs)
        forecasts = [self.interval_distribution(chunk) for chunk in chunks]
        targets = y.split(self._chunk_size)
        return {kind: Conformal.fit_folds(forecasts, targets, kind) for kind in KINDS}

    def chunks(self, outputs: Outputs) -> list[Outputs]:
        """The outputs some rows at a time, as many as are quick to work with."""
        starts = range(0, outputs.members.shape[1], self._chunk_size)
        return [outputs[start : start + self._chunk_size] for start in starts]

    @property
    def _chunk_size(self) -> int:
        return rows_per_chunk(self.objective.outputs * self.bin_splits)

    def mean(self, outputs: Outputs) -> Tensor:
        """Predicted means (n,)."""
        return _blend(outputs.mean(self.objective), outputs, self.tree_share)

    def distribution(self, outputs: Outputs) -> Histogram:
        """Predicted distributions, whose means are those of `mean`."""
        return self._distribution_at(self.temperature, outputs)

    def interval_distribution(self, outputs: Outputs) -> Histogram:
        """The distributions that `intervals` were made with, and are to be used with."""
        return self._distribution_at(self.interval_temperature, outputs)

    def interval(self, outputs: Outputs, coverage: float, kind: Kind = "central") -> Tensor:
        """The low and high ends (n, 2) of conformal intervals."""
        if kind not in self.intervals:
            raise ValueError(f"kind: expected 'central' or 'shortest', got {kind!r}")
        forecast = self.interval_distribution(outputs)
        return torch.stack(self.intervals[kind].interval(forecast, coverage), -1)

    def mean_and_interval(self, outputs: Outputs, coverage: float) -> Tensor:
        """Means, and the ends of central intervals (n, 3), from the same outputs."""
        return torch.cat([self.mean(outputs).unsqueeze(-1), self.interval(outputs, coverage)], -1)

    def both_distributions(self, outputs: Outputs) -> tuple[Histogram, Histogram]:
        """`distribution` and `interval_distribution`, computed once if they are the same."""
        predicted = self.distribution(outputs)
        if self.interval_temperature == self.temperature:
            return predicted, predicted
        return predicted, self.interval_distribution(outputs)

    def _distribution_at(self, temperature: Temperature, outputs: Outputs) -> Histogram:
        predicted = split_bins(outputs.pooled(self.objective), self.bin_splits)
        return temperature.apply(predicted).with_mean(self.mean(outputs))

    # Files

    def to_json(self) -> dict[str, Any]:
        """The numbers, for the header of a model file; depths are in `tensors`."""
        return {
            "tree_share": self.tree_share,
            "bin_splits": self.bin_splits,
            "temperature": self.temperature.to_json(),
            "interval_temperature": self.interval_temperature.to_json(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The depths of the held-out rows, for a model file."""
        return {
            f"depths.{kind}": torch.tensor(conformal.depths, dtype=torch.float64)
            for kind, conformal in self.intervals.items()
        }

    @classmethod
    def from_file(
        cls, objective: Objective, header: dict[str, Any], tensors: dict[str, Tensor]
    ) -> Aggregator:
        """What `to_json` and `tensors` gave, taken out of those of a model file."""
        depths = {kind: tuple(tensors.pop(f"depths.{kind}").tolist()) for kind in KINDS}
        return cls(
            objective=objective,
            tree_share=header["tree_share"],
            bin_splits=header["bin_splits"],
            temperature=Temperature.from_json(header["temperature"]),
            interval_temperature=Temperature.from_json(header["interval_temperature"]),
            intervals={kind: Conformal(kind, part) for kind, part in depths.items()},
        )


def _blend(mean: Tensor, outputs: Outputs, tree_share: float) -> Tensor:
    if outputs.trees is None or tree_share == 0:
        return mean
    return torch.lerp(mean, torch.as_tensor(outputs.trees), tree_share)


def _tree_share(
    mean: Tensor, trees: Array | Tensor | None, y: Tensor, weight: Tensor | None, min_gain: float
) -> float:
    """The share of the trees with the least squared error, 0 unless it is worth their trouble."""
    if trees is None:
        return 0.0
    weights = torch.ones_like(y) if weight is None else weight
    gap, error = torch.as_tensor(trees) - mean, y - mean
    inner = (weights * gap.square()).sum()
    if inner == 0:
        return 0.0
    share = ((weights * gap * error).sum() / inner).clamp(0, 1)
    saved = (weights * (error.square() - (error - share * gap).square())).sum()
    return share.item() if saved > min_gain * (weights * error.square()).sum() else 0.0


def _most_frequent_share(y: Tensor) -> float:
    """The share of the most frequent target.

    Rows with the same target have about the same depth, which is given by where in its bin the
    target lies and not by the members' errors.
    """
    counts: Tensor = torch.unique(y, return_counts=True)[1]
    return counts.max().item() / len(y)


def _extrapolated(team: Conformal, alone: Sequence[Conformal], ensemble_size: int) -> Conformal:
    """From the depths for a team and for each of its members, those for the whole ensemble.

    As squared distances from the middle of a Gaussian they have a part that all members share, and
    one that is 1 / m as large in the mean of m of them. More than the latter cannot vanish.
    """
    depths = torch.tensor(team.depths, dtype=torch.float64)
    singles = torch.tensor([one.depths for one in alone], dtype=torch.float64)
    levels = torch.linspace(0, 1, len(depths), dtype=torch.float64)
    single = singles.flatten().quantile(levels)
    least = torch.finfo(torch.float64).tiny
    now, before = (torch.special.ndtri(d.clamp(least, 1) / 2).square() for d in (depths, single))
    share = (1 / len(alone) - 1 / ensemble_size) / (1 - 1 / len(alone))
    then = (now - share * (before - now)).clamp(now * len(alone) / ensemble_size, now)
    moved = torch.where(depths > 0, 2 * torch.special.ndtr(-then.sqrt()), depths)
    return replace(team, depths=tuple(moved.sort().values.tolist()))
