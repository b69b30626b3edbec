"""The Histogram Loss for JAX: pure functions of arrays, under `jit`, `grad` and `vmap`.

Bins are `softbins.Bins`, or simply their edges, and the targets are those of `softbins.targets`:
`Gaussian`, `OneBin`, `TwoHot` and `UniformMix`. Both are constants of a compiled function. Results
are equal to PyTorch's to 1e-6 in float32.

A compiled function cannot raise an error because of a value. A target that PyTorch's loss would
refuse, one that is NaN or infinite, or is outside the bins where its distribution has
`outside="error"`, has weights and a loss of NaN here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core import array_histogram, array_weights
from softbins._core.array_bins import as_bins
from softbins._core.checks import shape_complaint
from softbins._core.extras import optional_import
from softbins._core.tensor_checks import range_complaint
from softbins.bins import Bins
from softbins.losses import PAPER_TARGET
from softbins.targets import Target

__all__ = ["crps", "loss", "mean", "quantile", "weights"]

jax = optional_import("jax", "jax")
jnp = jax.numpy

Array = Any
Edges = Bins | NDArray[Any] | Sequence[float]

FUNCTIONS = """
abs array clip concatenate cumsum exp expand_dims isfinite logical_and maximum minimum ones_like
reshape searchsorted shape square sum take take_along_axis where zeros_like
"""
LIBRARY = SimpleNamespace(
    **{name: getattr(jnp, name) for name in FUNCTIONS.split()},
    erf=jax.scipy.special.erf,
    log_softmax=jax.nn.log_softmax,
    softmax=jax.nn.softmax,
)


def weights(
    y: Array, bins: Edges, target: Target = PAPER_TARGET, *, sigma: float | Array | None = None
) -> Array:
    """The weights of the bins, which sum to one, for each target.

    Parameters
    ----------
    y : array
        Targets of any shape.
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges.
    target : Gaussian, OneBin, TwoHot or UniformMix
        The distribution that a target becomes. By default `Gaussian.of_bins(1.0)`, the paper's
        setting.
    sigma : float or array, optional
        Replaces the sigma of a Gaussian target; an array broadcasts against `y`.

    Returns
    -------
    array
        The shape of `y` with k weights for each target, at least in float32; NaN for a target
        that has to be refused.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import softbins.jax
    >>> weights = softbins.jax.weights(jnp.array(1.5), [0.0, 1.0, 2.0, 3.0])
    >>> [f"{weight:.3f}" for weight in weights]
    ['0.279', '0.442', '0.279']
    """
    y = _floating(y)
    return array_weights.weights(LIBRARY, y, as_bins(bins), target, str(y.dtype), sigma)


def loss(
    logits: Array,
    y: Array,
    bins: Edges,
    target: Target = PAPER_TARGET,
    *,
    sigma: float | Array | None = None,
) -> Array:
    """The Histogram Loss -sum_i p_i log f_i of each row; take the mean of a batch.

    Its gradient with respect to the logits is f - p (Appendix A).

    Parameters
    ----------
    logits : array of shape (..., k)
        The network's outputs. A row that holds NaN or inf, or -inf alone, has the loss NaN.
    y : array of shape (...)
        The targets.
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges.
    target : Gaussian, OneBin, TwoHot or UniformMix
        The distribution that a target becomes, as for `weights`.
    sigma : float or array, optional
        Replaces the sigma of a Gaussian target; an array broadcasts against `y`.

    Returns
    -------
    array
        The losses, in the shape of `y`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import softbins.jax
    >>> losses = softbins.jax.loss(jnp.zeros((2, 4)), jnp.array([0.3, 0.9]), [0, 1, 2, 3, 4])
    >>> print(losses.round(4))  # log 4, whatever the targets
    [1.3863 1.3863]
    """
    logits, bins, y = _logits(logits), as_bins(bins), jnp.asarray(y)
    if logits.shape != (*y.shape, bins.count):
        raise ValueError(shape_complaint(logits.shape, y.shape, bins.count))
    p = weights(y, bins, target, sigma=sigma).astype(logits.dtype)
    return array_histogram.cross_entropy(LIBRARY, p, logits)


def mean(logits: Array, bins: Edges) -> Array:
    """The mean of each histogram, sum_i f_i c_i with the bins' centers: the paper's prediction.

    Parameters
    ----------
    logits : array of shape (..., k)
        The network's outputs.
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges.

    Returns
    -------
    array
        In the leading shape of the logits.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import softbins.jax
    >>> softbins.jax.mean(jnp.zeros((1, 2)), [0.0, 1.0, 3.0]).tolist()
    [1.25]
    """
    logits, bins = _histograms(logits, bins)
    return array_histogram.mean(LIBRARY, logits, bins, str(logits.dtype))


def quantile(logits: Array, q: float | Sequence[float] | Array, bins: Edges) -> Array:
    """Quantiles of every histogram, whose cdf is linear within each bin.

    Parameters
    ----------
    logits : array of shape (..., k)
        The network's outputs.
    q : float, sequence of float or array
        Levels from 0 to 1, the same for all histograms.
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges.

    Returns
    -------
    array
        The leading shape of the logits, followed by the shape of `q`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import softbins.jax
    >>> softbins.jax.quantile(jnp.zeros((1, 2)), [0.25, 0.75], [0.0, 1.0, 3.0]).tolist()
    [[0.5, 2.0]]
    """
    logits, bins = _histograms(logits, bins)
    levels = _levels(q).astype(logits.dtype)
    found = array_histogram.quantile(LIBRARY, logits, levels.ravel(), bins, str(logits.dtype))
    return found.reshape(logits.shape[:-1] + levels.shape)


def crps(logits: Array, y: Array, bins: Edges) -> Array:
    """Continuous ranked probability score, the integral of (cdf(t) - 1[t >= y])^2.

    Parameters
    ----------
    logits : array of shape (..., k)
        The network's outputs.
    y : array
        Targets, which broadcast against the leading shape of the logits.
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges.

    Returns
    -------
    array
        In the target's unit and in the broadcast shape; smaller is better.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import softbins.jax
    >>> print(f"{softbins.jax.crps(jnp.zeros(2), jnp.array(1.0), [0.0, 1.0, 2.0]):.4f}")
    0.1667
    """
    logits, bins = _histograms(logits, bins)
    dtype = jnp.promote_types(logits.dtype, _floating(y).dtype)
    return array_histogram.crps(
        LIBRARY, logits.astype(dtype), _floating(y).astype(dtype), bins, str(dtype)
    )


def _floating(values: Array) -> Array:
    """An array, at least in float32."""
    found = jnp.asarray(values)
    return found.astype(jnp.promote_types(found.dtype, jnp.float32))


def _logits(logits: Array) -> Array:
    found = jnp.asarray(logits)
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise TypeError(f"logits: need floating-point numbers, got {found.dtype}")
    return _floating(found)


def _histograms(logits: Array, bins: Edges) -> tuple[Array, Bins]:
    logits, found = _logits(logits), as_bins(bins)
    if logits.ndim == 0 or logits.shape[-1] != found.count:
        raise ValueError(shape_complaint(logits.shape, (), found.count))
    return logits, found


def _levels(q: float | Sequence[float] | Array) -> Array:
    """Levels, in [0, 1] as far as their values are known."""
    if isinstance(q, jax.core.Tracer):
        return q
    found = np.asarray(q, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError(range_complaint("q", found, 0.0, 1.0, "probabilities lie in [0, 1]"))
    return jnp.asarray(found, dtype=jnp.result_type(float))
