"""What PyTorch makes of the instances: JAX and Keras have to agree with it to 1e-6 in float32.

PyTorch works in float64 here, on targets and logits that float32 holds, so that all of a difference
is the fault of the others.
"""

from typing import NamedTuple

import numpy as np
import torch

from softbins import HistogramLoss
from tests.instances import BINS, array_targets, spread_targets

TOLERANCE = 1e-6


class Reference(NamedTuple):
    """Logits and targets in float32, and what becomes of them in float64."""

    bins: object
    target: object
    logits: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    losses: np.ndarray
    gradient: np.ndarray


def references(bins, outside):
    """One for each target that the array libraries have, by its name."""
    bins = BINS[bins]
    y = spread_targets(bins, torch.float32)
    logits = torch.randn(len(y), bins.count)
    known = array_targets(bins, outside)
    return {name: reference(bins, target, logits, y) for name, target in known.items()}


def reference(bins, target, logits, y):
    exact = logits.double().requires_grad_()
    losses = HistogramLoss(bins, target, reduction="none")(exact, y.double())
    (gradient,) = torch.autograd.grad(losses.sum(), exact)
    weights = target.weights(y.double(), bins)
    results = (logits, y, weights, losses.detach(), gradient)
    return Reference(bins, target, *(part.numpy() for part in results))


def assert_equal_to_torch(found, expected, name, relative=0.0):
    """All within 1e-6; losses also within 1e-6 of themselves, which float32 cannot beat."""
    found = np.asarray(found)
    assert found.dtype == np.float32, name
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=relative, err_msg=name)
