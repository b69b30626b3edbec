"""Weights of a Gaussian on transformed bins whose mean, in the target's unit, is the target.

Each bin counts as one: with edges 0, 1, ..., k, a Gaussian of constant width about a place u has
masses p(u). On bins that grow to the right, the mean of p(u) is above the value that belongs to u.
But it rises with u, from the first center to the last one, so that exactly one place has the mean
y. For one sigma of about a bin, it comes from a curve of means over places that is made once, and
otherwise from a search. What is left of the way, also if the Gaussian is much narrower than a bin,
is covered by a share of the nearest bin beyond y, which makes the mean exact: for sigma to 0 this
gives the weights of `TwoHot`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.gaussian_masses import all_masses, inner_masses, slopes_of_masses
from softbins._core.tensor_checks import is_traced
from softbins.bins import Bins

MAX_SEARCH_STEPS = 100
# In a compiled graph, where no step can be left out. Four are enough for a sigma of about a bin.
TRACED_STEPS = 12
# How near to the target a mean has to come, as a share of the target's own bin.
MEAN_TOLERANCE = 1e-9
# A miss that is covered by the bin after the next, as a share of the distance of centers.
LITTLE = 1e-5
# Between so many knots to a bin, the curve is a cubic good to 1e-6 of a bin.
KNOTS_PER_BIN = 16
KNOTS_BEYOND = 200
# Where the mean over places is no staircase, and the curve good to less than LITTLE of a bin.
SIGMAS_OF_CURVE = (0.4, 10.0)
# So far a Gaussian reaches, in sigmas, when the curve is made.
WINDOW_SIGMAS = 9.0
MAX_CURVES = 8


class Curve(NamedTuple):
    """Places of Gaussians by their means: both increase, and `slopes` is the one's in the other."""

    means: Tensor
    places: Tensor
    slopes: Tensor

    def place(self, y: Tensor) -> Tensor:
        """The place of each mean y, between the first and the last of the curve."""
        right = torch.searchsorted(self.means, y.detach().contiguous()).clamp(
            1, len(self.means) - 1
        )
        left = right - 1
        start, length = self.means[left], self.means[right] - self.means[left]
        share = ((y - start) / length).clamp(0, 1)
        rise = self.places[right] - self.places[left]
        first, last = self.slopes[left] * length - rise, rise - self.slopes[right] * length
        bend = share * (1 - share) * ((1 - share) * first + share * last)
        return self.places[left] + share * rise + bend


def weights_with_mean(y: Tensor, bins: Bins, ratio: float | Tensor) -> Tensor:
    """Weights (..., k) with the mean y (...) in float64, sigma being so many bins, (..., 1)."""
    y = y.clamp(bins.centers[0], bins.centers[-1])
    edges = _even_edges(bins)
    curve = None if isinstance(ratio, Tensor) else curve_of(bins, ratio)
    place = _searched_place(y, bins, ratio) if curve is None else curve.place(y)
    masses = all_masses(place.unsqueeze(-1), edges, ratio)
    return _with_mean(masses / masses.sum(-1, keepdim=True), y, bins)


def curve_of(bins: Bins, ratio: float) -> Curve | None:
    """The curve for a sigma of so many bins, if it is one for a curve; the bins keep it."""
    known: Curve | None = bins.curves.get(ratio)
    if known is not None or torch.compiler.is_compiling():
        return known
    low, high = SIGMAS_OF_CURVE
    if not low <= ratio <= high:
        return None
    if len(bins.curves) >= MAX_CURVES:
        bins.curves.clear()
    with torch.inference_mode(False), torch.no_grad():
        made = bins.curves[ratio] = _made_curve(bins, ratio)
    return made


def _made_curve(bins: Bins, ratio: float) -> Curve:
    count, beyond = bins.count, _room(torch.tensor(ratio))
    inner = torch.linspace(0, count, KNOTS_PER_BIN * count + 1, dtype=torch.float64)
    # Slowly at first, then by a constant factor.
    outer = torch.expm1(torch.linspace(0, 1, KNOTS_BEYOND + 1)[1:].double() * (1 + beyond).log())
    places = [part.to(bins.edges.device) for part in (-outer.flip(0), inner, count + outer)]
    below, above = (
        _mean_and_slope(part, torch.full_like(part, ratio).unsqueeze(-1), bins)
        for part in (places[0], places[2])
    )
    inside = _mean_and_slope_inside(places[1], ratio, bins)
    means, slopes = (torch.cat(parts) for parts in zip(below, inside, above, strict=True))
    # Far out, rounding may leave neighbours the same mean.
    rising = (means > means.cummax(0).values.roll(1)) & (slopes > 0)
    rising[0] = slopes[0] > 0
    return Curve(means[rising], torch.cat(places)[rising], 1 / slopes[rising])


def _mean_and_slope_inside(place: Tensor, ratio: float, bins: Bins) -> tuple[Tensor, Tensor]:
    """As `_mean_and_slope`, for places inside, from the few bins that a Gaussian reaches."""
    half = min(math.ceil(WINDOW_SIGMAS * ratio) + 1, bins.count)
    length = min(2 * half, bins.count)
    start = (place.long() - half).clamp(0, bins.count - length).unsqueeze(-1)
    number = start + torch.arange(length + 1, device=place.device)
    masses, slopes = (
        part(place.unsqueeze(-1), number.double(), ratio)
        for part in (inner_masses, slopes_of_masses)
    )
    return _ratios(masses, slopes, bins.centers[number[:, :-1]])


def _even_edges(bins: Bins) -> Tensor:
    return torch.arange(bins.count + 1, dtype=torch.float64, device=bins.edges.device)


def _room(sigma: Tensor) -> Tensor:
    """How far beyond the bins a Gaussian stands that has all but exp(-20) in the last of them."""
    return 8 * sigma + 20 * sigma.square()


def _with_mean(weights: Tensor, y: Tensor, bins: Bins) -> Tensor:
    """Weights mixed with a bin beyond y, as seen from their mean, to have the mean y.

    The bin is that with the nearest center beyond y, or the next one if little is missing: y may
    be all but at that center, which would then take everything.
    """
    mean = (weights * bins.centers).sum(-1)
    left = torch.searchsorted(bins.centers[1:-1].contiguous(), y.detach().contiguous(), right=True)
    length = bins.centers[left + 1] - bins.centers[left]
    beyond = ((y - mean).abs() < LITTLE * length).long()
    other = torch.where(mean < y, left + 1 + beyond, left - beyond).clamp(0, bins.count - 1)
    way = bins.centers[other] - mean
    share = torch.where(way == 0, 0.0, (y - mean) / torch.where(way == 0, 1.0, way))
    share, number = share.clamp(0, 1).unsqueeze(-1), torch.arange(bins.count, device=y.device)
    return weights * (1 - share) + share * (number == other.unsqueeze(-1))


def _searched_place(y: Tensor, bins: Bins, ratio: float | Tensor) -> Tensor:
    """Where Gaussians with the means y stand; a place follows its target's gradient."""
    value = y.detach()
    index = bins.locate(value)
    width = bins.widths[index]
    sigma = torch.as_tensor(ratio, dtype=y.dtype, device=y.device).detach()
    sigma = sigma.expand(*y.shape, 1).reshape(-1, 1)
    start = index + (value - bins.edges[index]) / width
    tolerance = (MEAN_TOLERANCE * width).flatten()
    place, slope = _searched(start.flatten(), value.flatten(), tolerance, sigma, bins)
    if not y.requires_grad:
        return place.view(y.shape)
    return place.view(y.shape) + (y - value) / slope.view(y.shape).clamp_min(1e-300)


def _searched(
    place: Tensor, y: Tensor, tolerance: Tensor, sigma: Tensor, bins: Bins
) -> tuple[Tensor, Tensor]:
    """The place of each y (n,), and how fast the mean rises there."""
    room = _room(sigma).squeeze(-1)
    found = _Found(place, -room, bins.count + room, torch.ones_like(place))
    if is_traced(y) or torch.compiler.is_exporting():
        for _ in range(TRACED_STEPS):
            found, _ = _search_step(found, y, tolerance, sigma, bins)
        return found.place, found.slope
    rows = torch.arange(len(y), device=y.device)
    for _ in range(MAX_SEARCH_STEPS):
        some = _Found(*(part[rows] for part in found))
        better, far = _search_step(some, y[rows], tolerance[rows], sigma[rows], bins)
        for part, new in zip(found, better, strict=True):
            part[rows] = new
        rows = rows[far]
        if not len(rows):
            break
    return found.place, found.slope


class _Found(NamedTuple):
    """Places, the bracket [low, high] around each, and the slope of the mean there."""

    place: Tensor
    low: Tensor
    high: Tensor
    slope: Tensor


def _search_step(
    found: _Found, y: Tensor, tolerance: Tensor, sigma: Tensor, bins: Bins
) -> tuple[_Found, Tensor]:
    """Better places, and which of them were not good enough before.

    A step of Newton's method, or half of the bracket where that would leave it.
    """
    place = found.place
    mean, slope = _mean_and_slope(place, sigma, bins)
    miss = y - mean
    low, high = torch.where(miss > 0, place, found.low), torch.where(miss < 0, place, found.high)
    newton = place + miss / slope
    better = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
    far = (miss.abs() > tolerance) & (high - low > 1e-12 * (1 + place.abs()))
    return _Found(torch.where(far, better, place), low, high, slope), far


def _mean_and_slope(place: Tensor, sigma: Tensor, bins: Bins) -> tuple[Tensor, Tensor]:
    """The mean of a Gaussian at each place (n,), and how fast it rises with the place."""
    edges, place = _even_edges(bins), place.unsqueeze(-1)
    masses, slopes = (part(place, edges, sigma) for part in (all_masses, slopes_of_masses))
    return _ratios(masses, slopes, bins.centers)


def _ratios(masses: Tensor, slopes: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of masses (n, m), which are up to a factor, and its derivative."""
    total = masses.sum(-1)
    mean = (masses * centers).sum(-1) / total
    return mean, ((slopes * centers).sum(-1) - mean * slopes.sum(-1)) / total
