"""One list of bins and one of targets: every general property is tested on all of them."""

import math

import torch
from torch.distributions import Cauchy, Laplace

from softbins import Bins, FromCDF, Gaussian, OneBin, Payoff, Similarity, TwoHot, UniformMix

BINS = {
    "equal": Bins.uniform(0.0, 1.0, 100),
    "years": Bins.uniform(1922.0, 2011.0, 100),
    "few": Bins.uniform(-3.0, 5.0, 2),
    "unequal": Bins([-2.0, -1.9, -0.5, 0.0, 0.001, 4.0, 10.0]),
    # Heavy tails: the quantiles of a Cauchy distribution.
    "quantile": Bins.quantile(torch.tan(math.pi * torch.linspace(-0.49, 0.49, 500)), 30),
    # Values with a probability of their own: at both ends and between, and whole numbers alone.
    "atoms": Bins.uniform(0.0, 4.0, 20).with_atoms([0.0, 1.23, 4.0]),
    "counts": Bins(torch.arange(6.0).repeat_interleave(2)),
    "symlog": Bins.symlog(6.0, 41),
}
WITHOUT_ATOMS = {name: bins for name, bins in BINS.items() if bins.atoms is None}
# Those on which a Gaussian is one in the target's own unit.
PLAIN_BINS = [name for name, bins in WITHOUT_ATOMS.items() if bins.transformed_step is None]


def squared(t, y):
    return -((t - y) ** 2) / 2


def targets(bins, outside="clamp"):
    """Every target, at the scale of these bins."""
    width = (bins.high - bins.low) / bins.count
    return {
        "gaussian": Gaussian(width, outside=outside),
        "gaussian narrow": Gaussian(1e-6 * width, outside=outside),
        "gaussian wide": Gaussian(1e3 * width, outside=outside),
        "gaussian of bins": Gaussian.of_bins(0.75, outside=outside),
        "onebin": OneBin(outside=outside),
        "uniform": UniformMix(0.5 / bins.count, outside=outside),
        "twohot": TwoHot(outside=outside),
        "similarity": Similarity(width, outside=outside),
        "laplace": FromCDF(lambda y: Laplace(y, width), outside=outside),
        "cauchy": FromCDF(lambda y: Cauchy(y, width), outside=outside),
        "payoff": Payoff(squared, width**2, outside=outside),
        "absolute payoff": Payoff(lambda t, y: -(t - y).abs(), width, outside=outside),
    }


def cases():
    return [(bins, target) for bins, b in BINS.items() for target in targets(b)]


def spread_targets(bins, dtype=torch.float64):
    """Targets inside, on every edge, at every centre, and outside on both sides."""
    span = bins.high - bins.low
    inside = bins.low + span * torch.rand(50, dtype=torch.float64)
    beyond = torch.tensor([-1e6, -2.0, -0.01, 1.01, 3.0, 1e6], dtype=torch.float64)
    return torch.cat([inside, bins.edges, bins.centers, bins.low + span * beyond]).to(dtype)


def array_cases():
    """All bins without atoms, and two kinds of them with targets outside where they are."""
    tails = [("years", "tail"), ("unequal", "tail")]
    return [(bins, "clamp") for bins in WITHOUT_ATOMS] + tails


def array_targets(bins, outside):
    """Those of the targets that JAX and Keras have as well, on these bins."""
    gaussians = ["gaussian", "gaussian narrow", "gaussian wide"]
    names = ["gaussian of bins", "onebin", "uniform", "twohot"]
    # On transformed bins they have Gaussians of a few bins only.
    names += gaussians if bins.transformed_step is None else []
    return {name: targets(bins, outside)[name] for name in names}
