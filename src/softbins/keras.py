"""The Histogram Loss for Keras 3, on any of its backends: a loss, and a layer that decodes.

`HistogramLoss` trains a model whose outputs are the logits of k bins, and `HistogramDecoder` turns
those into means and quantiles. Both are written to `.keras` files; import this module before
loading one.

The mathematics is that of `softbins.jax`, equal to PyTorch's to 1e-6 in float32, with the targets
`Gaussian`, `OneBin`, `TwoHot` and `UniformMix`. A target that PyTorch's loss would refuse, one that
is NaN or infinite, or is outside the bins where its distribution has `outside="error"`, has a loss
of NaN here, because compiled functions cannot raise an error for a value; the callback
`keras.callbacks.TerminateOnNaN` ends a training then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core import array_histogram, array_weights
from softbins._core.array_bins import as_bins
from softbins._core.checks import shape_complaint
from softbins._core.keras_import import require_keras
from softbins._core.tensor_checks import range_complaint
from softbins.bins import Bins
from softbins.losses import PAPER_TARGET
from softbins.targets import Target

__all__ = ["HistogramDecoder", "HistogramLoss"]

require_keras()
import keras  # noqa: E402

Edges = Bins | NDArray[Any] | Sequence[float]


@keras.saving.register_keras_serializable(package="softbins")
class HistogramLoss(keras.losses.Loss):
    """HL(p, q) = -sum_i p_i log f_i between the target's weights p and the softmax f of logits.

    Parameters
    ----------
    bins : Bins or sequence of float
        The k bins, or their k + 1 edges: the model has k outputs, without an activation.
    target : Gaussian, OneBin, TwoHot or UniformMix
        The distribution that a target becomes. By default `Gaussian.of_bins(1.0)`, the paper's
        setting. Its parameters are numbers.
    reduction : str or None
        What becomes of the losses of the rows, as for every loss of Keras.
    name : str
        The name of the loss.
    dtype : str, optional
        The precision of the loss, "float32" unless Keras was told otherwise.

    Attributes
    ----------
    bins : Bins
        The bins.
    target : Target
        The target distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.keras import HistogramLoss
    >>> loss = HistogramLoss([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> value = loss(np.array([0.3, 0.9]), np.zeros((2, 4)))
    >>> round(float(value), 4)  # log 4, whatever the targets
    1.3863
    """

    def __init__(
        self,
        bins: Edges,
        target: Target = PAPER_TARGET,
        reduction: str | None = "sum_over_batch_size",
        name: str = "histogram_loss",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        array_weights.require_target(target, None)
        _target_config(target)
        self.bins, self.target = as_bins(bins), target

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The losses of the rows; call the loss itself for their mean.

        Parameters
        ----------
        y_true : tensor of shape (...) or (..., 1)
            The targets.
        y_pred : tensor of shape (..., k)
            The model's outputs.

        Returns
        -------
        tensor
            In the shape of the targets, without a last dimension of one.
        """
        y = _without_last_one(y_true, y_pred)
        if tuple(y_pred.shape) != (*y.shape, self.bins.count):
            raise ValueError(shape_complaint(y_pred.shape, y.shape, self.bins.count))
        dtype = _precision(y_pred)
        y, logits = keras.ops.cast(y, dtype), keras.ops.cast(y_pred, dtype)
        p = array_weights.weights(keras.ops, y, self.bins, self.target, dtype)
        return array_histogram.cross_entropy(keras.ops, p, logits)

    def get_config(self) -> dict[str, Any]:
        """What a `.keras` file keeps of the loss.

        Returns
        -------
        dict
            The arguments of the loss, as JSON can hold them.
        """
        own = {
            "bins": self.bins.edges.tolist(),
            "transformed_step": self.bins.transformed_step,
            "target": _target_config(self.target),
        }
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> HistogramLoss:
        """The loss that a `.keras` file holds.

        Parameters
        ----------
        config : dict
            What `get_config` has returned.

        Returns
        -------
        HistogramLoss
            The same loss.
        """
        others = {name: value for name, value in config.items() if name != "transformed_step"}
        bins = Bins(config["bins"], config.get("transformed_step"))
        return cls(**others | {"bins": bins, "target": _target_from(config["target"])})


@keras.saving.register_keras_serializable(package="softbins")
class HistogramDecoder(keras.layers.Layer):
    """The means and quantiles of the histograms that a model's outputs stand for.

    Put it behind a trained model: `keras.Sequential([model, HistogramDecoder(bins)])`.

    Parameters
    ----------
    bins : Bins or sequence of float
        The k bins of the loss, or their k + 1 edges.
    quantiles : sequence of float
        Levels from 0 to 1.
    **kwargs
        What every layer of Keras takes, such as `name`.

    Attributes
    ----------
    bins : Bins
        The bins.
    quantiles : list of float
        The levels.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.keras import HistogramDecoder
    >>> decoded = HistogramDecoder([0.0, 1.0, 3.0], quantiles=[0.25, 0.75])(np.zeros((1, 2)))
    >>> decoded["mean"].tolist(), decoded["quantiles"].tolist()
    ([1.25], [[0.5, 2.0]])
    """

    def __init__(
        self, bins: Edges, quantiles: Sequence[float] = (0.05, 0.5, 0.95), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bins, self.quantiles = as_bins(bins), _checked_levels(quantiles)

    def call(self, logits: Any) -> dict[str, Any]:
        """Means and quantiles.

        Parameters
        ----------
        logits : tensor of shape (..., k)
            The model's outputs.

        Returns
        -------
        dict
            "mean" in the leading shape of the logits, and "quantiles", with one more dimension for
            the levels.
        """
        if logits.shape[-1] != self.bins.count:
            raise ValueError(shape_complaint(logits.shape, (), self.bins.count))
        dtype = _precision(logits)
        logits = keras.ops.cast(logits, dtype)
        levels = keras.ops.array(self.quantiles, dtype)
        return {
            "mean": array_histogram.mean(keras.ops, logits, self.bins, dtype),
            "quantiles": array_histogram.quantile(keras.ops, logits, levels, self.bins, dtype),
        }

    def get_config(self) -> dict[str, Any]:
        """What a `.keras` file keeps of the layer.

        Returns
        -------
        dict
            The arguments of the layer, as JSON can hold them.
        """
        own = {"bins": self.bins.edges.tolist(), "quantiles": self.quantiles}
        return {**super().get_config(), **own}


def _precision(values: Any) -> str:
    """The precision of a tensor, but at least float32."""
    return str(keras.backend.result_type(values.dtype, "float32"))


def _without_last_one(y: Any, logits: Any) -> Any:
    """Targets as Keras may hand them over, with a last dimension of one, in a shape (...)."""
    extra = len(y.shape) == len(logits.shape) and y.shape[-1] == 1
    return keras.ops.squeeze(y, -1) if extra else y


def _checked_levels(quantiles: Sequence[float]) -> list[float]:
    found = np.asarray(quantiles, dtype=np.float64)
    if found.ndim != 1:
        raise ValueError(f"quantiles: need a list of levels, got {quantiles!r}")
    if not ((found >= 0) & (found <= 1)).all():
        hint = "probabilities lie in [0, 1]"
        raise ValueError(range_complaint("quantiles", found, 0.0, 1.0, hint))
    return [float(level) for level in found]


def _target_config(target: Target) -> dict[str, Any]:
    """The name and the parameters of a target distribution, or `TypeError` if one is a tensor."""
    parameters = {field.name: getattr(target, field.name) for field in fields(target)}
    for name, value in parameters.items():
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"target: {name} must be a number for Keras, got {value!r}")
    return {"name": type(target).__name__, **parameters}


def _target_from(config: dict[str, Any]) -> Target:
    """The target distribution that `_target_config` has described."""
    known = {cls.__name__: cls for cls in array_weights.TARGETS}
    parameters = {name: value for name, value in config.items() if name != "name"}
    return known[config["name"]](**parameters)
