"""Histograms with another mean, by the exponential tilt: p exp(t c) at the centers c.

Of all distributions with that mean it is the nearest, in the sense of Kullback and Leibler. Where
tails are heavy the mean is decided far out, and a tilt changes what is there: quantiles stay about
where they are. A tilt towards the longer tail would put probability at its end, so that it only
leads away from it. A narrow distribution that has to go far would be bent by it, so that there is
a limit: how much less probable a quartile may become beside the other one, as a logarithm.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softbins._core.cumulative import Cumulative
from softbins._core.histogram_numerics import inverse_cdf
from softbins.bins import Bins

MAX_STEPS, STEPS_IN_EXPORT, STEPS_BEFORE_HALVING = 80, 44, 10
TOLERANCE = 1e-12  # of the mean, as a share of the range of the centers
LEAST = 1e-300  # probability that is left to every bin, so that any mean can be had
MAX_TILT_OF_RANGE = 1e12  # over all bins, where half of the probability is at one place


def tilted_towards_mean(probs: Tensor, bins: Bins, mean: Tensor, limit: float) -> Tensor:
    """Probabilities (n, k) in float64, tilted until they have the means (n,), or to the limit.

    The mean increases with t, which Newton's method finds for each row within a bracket that
    becomes narrower. Steps may double t: a little probability far away needs a large one.
    """
    start, reach = bins.centers[0], bins.centers[-1] - bins.centers[0]
    places, wanted = (bins.centers - start) / reach, (mean - start) / reach
    logits = probs.clamp_min(LEAST).log()
    least, most = _over_range(limit, probs, bins, reach)
    left, right, tilt = least, most, torch.zeros_like(most)
    is_exporting = torch.compiler.is_exporting()
    for step in range(STEPS_IN_EXPORT if is_exporting else MAX_STEPS):
        found = torch.softmax(logits + tilt.unsqueeze(-1) * places, -1)
        reached = found @ places
        miss = wanted - reached
        left, right = torch.where(miss > 0, tilt, left), torch.where(miss < 0, tilt, right)
        is_near = (miss.abs() <= TOLERANCE) | (left >= right)
        if not is_exporting and is_near.all():
            return found
        variance = (found @ places.square() - reached.square()).clamp_min(LEAST)
        farthest = tilt.abs() + 10
        newton = tilt + (miss / variance).clamp(-farthest, farthest)
        better = _inside(newton, (left, right), (least, most), step)
        tilt = torch.where(is_near, tilt, better)
    return torch.softmax(logits + tilt.unsqueeze(-1) * places, -1)


def _inside(
    newton: Tensor, bracket: tuple[Tensor, Tensor], limits: tuple[Tensor, Tensor], step: int
) -> Tensor:
    """Newton's step where it stays in the bracket, or else a limit, or the middle of the bracket.

    After some steps, every other one halves the bracket.
    """
    left, right = bracket
    middle = (left + right) / 2
    if step > STEPS_BEFORE_HALVING and step % 2:
        return middle
    low, high = (torch.where(a == b, a, middle) for a, b in zip(bracket, limits, strict=True))
    return torch.where(newton <= left, low, torch.where(newton >= right, high, newton))


def _over_range(limit: float, probs: Tensor, bins: Bins, reach: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the most tilt (n,) over the whole range: away from the longer tail.

    That between the quartiles is limited. The longer tail is on the side of the median that the
    mean is on.
    """
    below = Cumulative.of(probs).below
    levels = torch.tensor([0.25, 0.5, 0.75]).to(probs).expand(probs.shape[0], 3)
    first, median, third = inverse_cdf(below, bins.edges, bins.widths, levels).unbind(-1)
    most = limit * reach / torch.maximum(third - first, limit * reach / MAX_TILT_OF_RANGE)
    is_right = probs @ bins.centers > median
    return torch.where(is_right, -most, 0.0), torch.where(is_right, 0.0, most)
