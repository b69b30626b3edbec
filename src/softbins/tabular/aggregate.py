"""From the outputs of all members, and their partners, to one distribution for each row.

Partners are what predicts a mean beside the networks: boosted trees and a Gaussian process. A
held-out row is predicted by the members, one or two, that have not seen it. Such rows decide what
is done to the histograms: how much the means of partners count, whether bins are too wide for what
is known, and how cumulative probabilities are mapped so that quantiles hold what they promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.tabular.blend import learn_shares
from softbins.tabular.calibrate import (
    Calibration,
    HeldOut,
    calibrated,
    fit_calibration,
    independent_rows,
    on_lattice,
    update_calibration,
)
from softbins.tabular.defaults import BlendDefaults, CalibrationDefaults, Defaults
from softbins.tabular.jobs import run_in_threads
from softbins.tabular.objectives import TwoHeadObjective, distribution_part
from softbins.tabular.sharpness import choose_splits, rows_per_chunk, split_bins, spread_evenly

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outputs:
    """What members say of n rows, outputs (members, n, k), and predictions (n,) of each partner.

    What is made of them is float64, whatever networks compute in.
    """

    members: Tensor
    partners: Mapping[str, Array | Tensor] = field(default_factory=dict)

    def mean(self, objective: Objective) -> Tensor:
        """The mean (n,) of what the members predict."""
        return objective.decode(self.members[..., : objective.mean_outputs].double()).mean(0)

    def pooled(self, objective: Objective) -> Histogram:
        """The geometric mean of the members' probabilities.

        Unlike a mixture it is no wider than they are: fewer members were calibrated.
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

    def __len__(self) -> int:
        return self.members.shape[1]

    def __getitem__(self, rows: slice) -> Outputs:
        """The same for some of the rows."""
        partners = {name: means[rows] for name, means in self.partners.items()}
        return Outputs(self.members[:, rows], partners)

    def each_member(self) -> list[Outputs]:
        """The same for each member alone."""
        return [Outputs(member.unsqueeze(0), self.partners) for member in self.members]


@dataclass(frozen=True)
class Aggregator:
    """Turns outputs of members and partners into one distribution for each row.

    `shares` are the weights of partners in the mean, networks have the rest, and `offset` is added
    to it. Bins are cut into `bin_splits` parts, histograms moved to the mean, and made honest by
    `calibration`. If `is_lattice`, bins are cells about the only values that there are. As much as
    `rows` independent held-out rows has told all this, or fewer where older ones are forgotten.
    """

    objective: Objective = field(compare=False)
    shares: Mapping[str, float]
    bin_splits: int
    calibration: Calibration | None = None
    is_lattice: bool = False
    rows: float = 0
    offset: float = 0.0

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
        rows_per_fold: float = math.inf,
        is_lattice: bool = False,
        groups: Array | None = None,
        threads: int = 1,
    ) -> Aggregator:
        """Learn from held-out rows with targets y (n,), weights (n,) and perhaps groups (n,).

        The members are those that have left the row out, usually one or two of the
        `ensemble_size` that predict new rows.
        """
        mean = outputs.mean(objective)
        shares = _shares(mean, outputs, y, weight, rows_per_fold, defaults.blend)
        error = y - _blend(mean, outputs, shares)
        offset = certain_offset(error, weight, defaults.calibration)
        rows = independent_rows(error.numpy(), _weights(weight, len(y)), groups)
        first = cls(objective, shares, 1, None, is_lattice, rows, offset)
        if not is_lattice:
            bins = distribution_part(objective).bins
            splits = choose_splits(bins, first.mean(outputs), y, max_bin_splits)
            first = replace(first, bin_splits=splits)
        expected = first._expected_error(outputs, y, ensemble_size, defaults.calibration)
        return first._calibrated(outputs, y, weight, expected, defaults.calibration, threads)

    def _expected_error(
        self, outputs: Outputs, y: Tensor, ensemble_size: int, defaults: CalibrationDefaults
    ) -> float:
        """How large errors on new rows will be, as a multiple of those on held-out rows.

        They are larger because held-out rows have chosen some numbers. They are smaller because
        the whole ensemble predicts new rows, and because it has seen all rows by then: the part of
        the error that members do not share becomes less with both. Not so where many targets have
        the same values: a mean that is nearer does not tell which of them there will be.
        """
        rows, members, chosen = len(y), len(outputs.members), defaults.chosen_numbers
        squared = (rows + chosen) / max(rows - chosen, chosen)
        has_values = self.is_lattice or distribution_part(self.objective).bins.atoms is not None
        if members > 1 and not has_values:
            means = torch.stack([one.mean(self.objective) for one in outputs.each_member()])
            differences = ((1 - sum(self.shares.values())) * means).var(0).median()
            own = differences / (y - self.mean(outputs)).square().median()
            fewer = 1 / members - 1 / max(ensemble_size, members)
            saved = own * (fewer + defaults.gain_of_all_rows / members)
            squared *= 1 - min(saved.nan_to_num(0.0).item(), defaults.max_saved)
        return math.sqrt(squared)

    def _calibrated(
        self,
        outputs: Outputs,
        y: Tensor,
        weight: Tensor | None,
        error: float,
        defaults: CalibrationDefaults,
        threads: int,
    ) -> Aggregator:
        """The same with a map that makes quantiles hold as many held-out targets as they say."""
        some = spread_evenly(len(y), max(defaults.max_numbers // self._numbers_per_row, 1))
        outputs, y = outputs[some], y[some]
        weights = _weights(weight if weight is None else weight[some], len(y))
        parts = self._held_out(self.chunks(outputs), y, threads)
        found = fit_calibration(parts, weights, self.rows, error, defaults, threads)
        return replace(self, calibration=found)

    def _held_out(self, chunks: Sequence[Outputs], y: Tensor, threads: int = 1) -> list[HeldOut]:
        """Where the targets of chunks of rows lie in their histograms."""

        def held_out(pair: tuple[Outputs, Tensor]) -> HeldOut:
            chunk, target = pair
            return HeldOut.of(self._raw(chunk), self.mean(chunk), target, self.is_lattice)

        return run_in_threads(held_out, with_targets(chunks, y), threads)

    def recalibrated(
        self, chunks: Sequence[Outputs], y: Tensor, half_life: float | None
    ) -> Aggregator:
        """The same with a map that recent rows have a say in, the last of them the most.

        Earlier rows are known by the map that they have made, which counts as so many of them.
        """
        age = np.arange(len(y))[::-1]
        weight = np.ones(len(y)) if half_life is None else 0.5 ** (age / half_life)
        before = self.rows if half_life is None else _remembered(self.rows, len(y), half_life)
        parts = self._held_out(chunks, y)
        calibration = update_calibration(parts, weight, self.calibration, before)
        return replace(self, calibration=calibration, rows=before + float(weight.sum()))

    def chunks(self, outputs: Outputs) -> list[Outputs]:
        """The outputs some rows at a time, as many as are quick to work with."""
        starts = range(0, len(outputs), self._chunk_size)
        return [outputs[start : start + self._chunk_size] for start in starts]

    @property
    def _numbers_per_row(self) -> int:
        return self.objective.outputs * self.bin_splits

    @property
    def _chunk_size(self) -> int:
        return rows_per_chunk(self._numbers_per_row)

    def mean(self, outputs: Outputs) -> Tensor:
        """Predicted means (n,), which partners or the offset do not take beyond the bins."""
        mean = _blend(outputs.mean(self.objective), outputs, self.shares)
        if self.offset == 0 and not self.shares:
            return mean
        centers = distribution_part(self.objective).bins.centers
        return (mean + self.offset).clamp(centers[0], centers[-1])

    def distribution(self, outputs: Outputs, is_calibrated: bool = True) -> Histogram:
        """Predicted distributions, whose means are those of `mean`."""
        calibration = self.calibration if is_calibrated else None
        predicted = calibrated(self._raw(outputs), self.mean(outputs), calibration)
        return on_lattice(predicted) if self.is_lattice else predicted

    def mean_and_interval(self, outputs: Outputs, coverage: float) -> Tensor:
        """Means, and the ends of central intervals (n, 3), from the same outputs."""
        ends = self.distribution(outputs).interval(coverage)
        return torch.stack([self.mean(outputs), *ends], -1)

    def _raw(self, outputs: Outputs) -> Histogram:
        return split_bins(outputs.pooled(self.objective), self.bin_splits)

    # Files

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, for the header of a model file."""
        own = self.calibration
        return {
            "shares": dict(self.shares),
            "bin_splits": self.bin_splits,
            "is_lattice": self.is_lattice,
            "rows": self.rows,
            "offset": self.offset,
            "calibration": own and own.to_json(),
        }

    @classmethod
    def from_json(cls, objective: Objective, header: dict[str, Any]) -> Aggregator:
        """What `to_json` gave."""
        own = header["calibration"]
        return cls(
            objective=objective,
            shares=header["shares"],
            bin_splits=header["bin_splits"],
            calibration=own and Calibration.from_json(own),
            is_lattice=header["is_lattice"],
            rows=header["rows"],
            offset=header.get("offset", 0.0),
        )


def with_targets(chunks: Sequence[Outputs], y: Tensor) -> list[tuple[Outputs, Tensor]]:
    """Each chunk of rows beside their targets, of y (n,)."""
    return list(zip(chunks, y.split([len(chunk) for chunk in chunks]), strict=True))


def _weights(weight: Tensor | None, n_rows: int) -> Array:
    return np.ones(n_rows) if weight is None else weight.numpy().astype(np.float64)


def _blend(mean: Tensor, outputs: Outputs, shares: Mapping[str, float]) -> Tensor:
    blended = mean
    for name, predicted in outputs.partners.items():  # always in the same order, to the last bit
        blended = blended + shares.get(name, 0.0) * (torch.as_tensor(predicted) - mean)
    return blended


def _shares(
    mean: Tensor,
    outputs: Outputs,
    y: Tensor,
    weight: Tensor | None,
    rows_per_fold: float,
    defaults: BlendDefaults,
) -> dict[str, float]:
    """The shares of those partners that are worth their trouble."""
    if not outputs.partners:
        return {}
    means = [mean, *map(torch.as_tensor, outputs.partners.values())]
    errors = (torch.stack(means, 1) - y.unsqueeze(1)).numpy()
    weights = None if weight is None else weight.numpy()
    shares = learn_shares(errors, weights, rows_per_fold, defaults).tolist()
    return {
        name: share for name, share in zip(outputs.partners, shares[1:], strict=True) if share > 0
    }


def _remembered(rows: float, ago: int, half_life: float) -> float:
    """How many new rows as many earlier ones count as, the last of which was `ago` rows ago.

    Each counts half as much after a half-life, so that together they never count more than a
    geometric series does.
    """
    newest, fading = 0.5 ** (ago / half_life), 0.5 ** (1 / half_life)
    return float(newest * (1 - fading**rows) / (1 - fading))


def certain_offset(error: Tensor, weight: Tensor | None, defaults: CalibrationDefaults) -> float:
    """The mean error, if it is no chance: networks that hardly learnt err to one side.

    A distribution that is moved to such a mean could not be calibrated.
    """
    weights = torch.ones_like(error) if weight is None else weight
    shares = weights / weights.sum()
    mean, squared = (shares @ error).item(), (shares @ error.square()).item()
    chance = math.sqrt(max(squared - mean**2, 0.0) * shares.square().sum().item())
    is_no_chance = abs(mean) > defaults.min_offset_deviations * chance
    is_large = squared - mean**2 < defaults.max_error_after_offset**2 * squared
    return mean if is_no_chance and is_large else 0.0
