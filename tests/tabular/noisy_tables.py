"""Simulated tables with six kinds of noise, on which calibration is tested and measured."""

import numpy as np

KINDS = ("even", "uneven", "heavy-tailed", "zero-inflated", "counts", "bimodal")


def simulated(kind, rows, random):
    """Features (rows, 4) and targets (rows,), drawn by a NumPy generator."""
    x = random.uniform(-1, 1, (rows, 4))
    signal, noise = np.sin(3 * x[:, 0]) + x[:, 1] ** 2, random.normal(size=rows)
    if kind == "even":
        return x, signal + 0.5 * noise
    if kind == "uneven":
        return x, signal + (0.1 + 0.9 * (x[:, 2] > 0) * np.abs(x[:, 0])) * noise
    if kind == "heavy-tailed":
        return x, signal + 0.3 * random.standard_t(2, size=rows)
    if kind == "zero-inflated":
        is_zero = random.uniform(size=rows) < 0.6 - 0.2 * x[:, 2]
        return x, np.where(is_zero, 0.0, np.exp(signal + 0.5 * noise))
    if kind == "counts":
        return x, random.poisson(np.exp(signal)).astype(float)
    side = np.where(random.uniform(size=rows) < 0.5, 2, -2) * (1 + x[:, 2] > 0.5)
    return x, signal + side + 0.2 * noise
