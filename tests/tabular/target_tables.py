"""One list of targets, with tails of any kind, on which bins and objectives are tested."""

import numpy as np
import torch

from softbins.tabular.auto_bins import covering_bins, with_blurred_head
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import histogram_objective

COUNT, SIGMA = 100, 2.0
ROWS = 2000


def sample(draw):
    return draw(np.random.default_rng(0))


EQUAL = {
    "normal": sample(lambda g: g.normal(size=ROWS)),
    "uniform": sample(lambda g: g.uniform(-1, 5, ROWS)),
    "whole numbers": sample(lambda g: g.poisson(4, ROWS).astype(float)),
    "two values": sample(lambda g: g.integers(0, 2, ROWS).astype(float)),
    "half zeros": sample(lambda g: np.maximum(g.normal(size=ROWS), 0)),
    "exponential": sample(lambda g: g.exponential(size=ROWS)),
    "around 1e9": sample(lambda g: 1e9 + g.integers(0, 5, ROWS)),
    "tiny": sample(lambda g: 1e-30 * g.normal(size=ROWS)),
    "huge": sample(lambda g: 1e30 * g.normal(size=ROWS)),
    "constant": np.full(ROWS, 0.1),
}
STRETCHED = {
    "lognormal": sample(lambda g: np.exp(2 * g.normal(size=ROWS))),
    "negative": sample(lambda g: -np.exp(2 * g.normal(size=ROWS))),
    "cauchy": sample(lambda g: g.standard_cauchy(ROWS)),
    "12 orders": sample(lambda g: 10 ** g.uniform(-6, 6, ROWS)),
    "one outlier": sample(lambda g: np.append(g.normal(size=ROWS), 1e6)),
    "rare": sample(lambda g: np.where(g.random(ROWS) < 0.85, 0, np.exp(3 * g.normal(size=ROWS)))),
}
TARGETS = EQUAL | STRETCHED


def bins_for(y, count=COUNT, sigma=SIGMA):
    return covering_bins(y, count, sigma, DEFAULTS.bins)


def objective_for(name, sigma=SIGMA):
    return histogram_objective(bins_for(TARGETS[name], COUNT, sigma), sigma)


def blurred_for(name, blur, count=64):
    """Blurred targets beside the sharp ones of that name."""
    return with_blurred_head(TARGETS[name], objective_for(name), blur, count, DEFAULTS.bins)


def tensor(values, dtype=torch.float64):
    return torch.as_tensor(values, dtype=dtype)
