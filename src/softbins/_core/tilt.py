"""Histograms with another mean, by the exponential tilt: p exp(t c) at the centers c.

Of all distributions with that mean it is the nearest, in the sense of Kullback and Leibler. Where
tails are heavy the mean is decided far out, and a tilt changes what is there: quantiles stay about
where they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_STEPS, STEPS_IN_EXPORT = 60, 20
TOLERANCE = 1e-12  # of the mean, as a share of the range of the centers
LEAST = 1e-300  # probability that is left to every bin, so that any mean can be had
MAX_TILT = 1e12


def tilted_to_mean(probs: Tensor, centers: Tensor, mean: Tensor) -> Tensor:
    """Probabilities (n, k) in float64, tilted until they have the means (n,) at centers (k,).

    The mean increases with t, which Newton's method finds for each row within a bracket that
    becomes narrower. It looks at the logarithm of the distance from the end of the range that is
    nearer, to which the mean comes exponentially. Steps may double t: a little probability far away
    needs a large one. A row that is done stays as it is, whatever other rows still need.
    """
    start, reach = centers[0], centers[-1] - centers[0]
    places, wanted = (centers - start) / reach, ((mean - start) / reach).clamp(1e-12, 1 - 1e-12)
    logits = probs.clamp_min(LEAST).log()
    is_low = wanted < 0.5
    aim, sign = torch.where(is_low, wanted, 1 - wanted), torch.where(is_low, 1.0, -1.0)
    tilt = torch.zeros_like(wanted)
    left, right = tilt - MAX_TILT, tilt + MAX_TILT
    is_exporting = torch.compiler.is_exporting()
    for _ in range(STEPS_IN_EXPORT if is_exporting else MAX_STEPS):
        found = torch.softmax(logits + tilt.unsqueeze(-1) * places, -1)
        reached = found @ places
        miss = wanted - reached
        is_done = miss.abs() <= TOLERANCE
        if not is_exporting and is_done.all():
            return found
        left, right = torch.where(miss > 0, tilt, left), torch.where(miss < 0, tilt, right)
        variance = (found * (places - reached.unsqueeze(-1)).square()).sum(-1).clamp_min(LEAST)
        distance = torch.where(is_low, reached, 1 - reached).clamp_min(LEAST)
        step, most = sign * distance * (aim / distance).log() / variance, tilt.abs() + 10
        newton = tilt + step.clamp(-most, most)
        is_inside = (newton > left) & (newton < right)
        better = torch.where(is_inside, newton, (left + right) / 2)
        tilt = torch.where(is_done, tilt, better)
    return torch.softmax(logits + tilt.unsqueeze(-1) * places, -1)
