"""How sharp predicted histograms may be, as held-out rows tell: a temperature, and finer bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

import torch
from torch import Tensor

from softbins import scores
from softbins.bins import Bins
from softbins.calibration import Conformal, Temperature
from softbins.histogram import Histogram
from softbins.tabular.defaults import CalibrationDefaults

CHUNK_NUMBERS = 2**17  # numbers at a time, a megabyte: what stays in the cache is 3 times as fast


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows: their histograms, the means that these shall have, targets and weights."""

    histogram: Histogram
    mean: Tensor
    y: Tensor
    weight: Tensor | None

    def at_most(self, count: int) -> HeldOut:
        """Some of the rows, evenly spread: `count` of them, and fewer than twice that."""
        some = spread_evenly(len(self.y), count)
        weight = None if self.weight is None else self.weight[some]
        histogram = Histogram(self.histogram.bins, logits=self.histogram.logits[some])
        return HeldOut(histogram, self.mean[some], self.y[some], weight)

    def crps(self, temperature: Temperature) -> float:
        """The mean CRPS at a temperature."""
        predicted = temperature.apply(self.histogram).with_mean(self.mean)
        return scores.crps(predicted, self.y, self.weight)

    def best_temperature(self, near: Temperature | None = None) -> Temperature:
        """The temperature with the least CRPS, searched `near` another one if it is given."""
        predicted = self.histogram.with_mean(self.mean)
        return Temperature.fit(predicted, self.y, self.weight, near=near)

    def with_split_bins(self, parts: int) -> HeldOut:
        """The same rows with each bin cut into parts."""
        return HeldOut(split_bins(self.histogram, parts), self.mean, self.y, self.weight)


def spread_evenly(n_rows: int, most: int) -> slice:
    """Rows at equal distances, where there are many: `most` of them, and fewer than twice that."""
    return slice(None, None, max(1, n_rows // most))


def rows_per_chunk(numbers_per_row: int) -> int:
    """How many rows to work with at a time, if each has so many numbers."""
    return max(1, CHUNK_NUMBERS // numbers_per_row)


def split_bins(predicted: Histogram, parts: int) -> Histogram:
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
    return Histogram(_finer(predicted.bins, parts), logits=finer.flatten(-2))


@lru_cache(maxsize=16)
def _finer(bins: Bins, parts: int) -> Bins:
    """The bins cut into parts, made once: making bins looks at values, which no export can."""
    return bins.finer(parts)


def fit_sharpness(
    rows: HeldOut, defaults: CalibrationDefaults, max_bin_splits: int
) -> tuple[int, Temperature]:
    """Into how many parts bins are cut, and the temperature then.

    At a temperature t the Gaussians of the targets are sqrt(t) as wide: as many parts keep their
    width in bins. Finer bins may ask for a lower one, and so for more parts.
    """
    rows = rows.at_most(defaults.temperature_rows)
    temperature = rows.best_temperature()
    most = min(max_bin_splits, most_splits(rows.histogram.bins, max_bin_splits))
    few = rows.at_most(defaults.bin_split_rows)
    best, parts = (few.crps(temperature), 1, temperature), 1
    while (more := min(_splits_for(best[2]), most)) > parts:
        parts, finer = more, few.with_split_bins(more)
        again = finer.best_temperature(near=best[2])
        best = min(best, (finer.crps(again), parts, again), key=itemgetter(0))
    return best[1:]


def _splits_for(temperature: Temperature) -> int:
    """The power of two that is next to one over the root of the temperature."""
    return 1 << max(0, round(-math.log2(temperature.t) / 2))


def most_splits(bins: Bins, limit: int) -> int:
    """Into how many parts float64 can cut the narrowest bin, up to a limit."""
    smallest = 4 * torch.finfo(bins.edges.dtype).eps * bins.edges.abs().max()
    return max(1, int((bins.widths.min() / smallest).clamp(max=limit)))


def narrowest_temperature(
    rows: HeldOut,
    bin_splits: int,
    temperature: Temperature,
    defaults: CalibrationDefaults,
) -> Temperature:
    """The given temperature, or a higher one at which conformal intervals are narrower."""
    if len(rows.y) < defaults.min_rows_for_interval_temperature:
        return temperature
    few = rows.at_most(defaults.bin_split_rows)
    bins = few.histogram.bins
    chunk = rows_per_chunk(bins.count * bin_splits)
    parts = [Histogram(bins, logits=logits) for logits in few.histogram.logits.split(chunk)]
    finer = [split_bins(part, bin_splits) for part in parts]
    means, targets = few.mean.split(chunk), few.y.split(chunk)

    def width(candidate: Temperature) -> float:
        pairs = zip(finer, means, strict=True)
        forecasts = [candidate.apply(part).with_mean(mean) for part, mean in pairs]
        conformal = Conformal.fit_folds(forecasts, targets, "central")
        coverage = defaults.interval_temperature_coverage
        ends = [conformal.interval(forecast, coverage) for forecast in forecasts]
        return torch.cat([high - low for low, high in ends]).mean().item()

    best = first = width(temperature)
    narrowest = temperature
    for factor in defaults.interval_temperature_factors:
        candidate = Temperature(temperature.t * factor)
        if (found := width(candidate)) >= best:
            break
        best, narrowest = found, candidate
    return narrowest if best < defaults.max_relative_width * first else temperature
