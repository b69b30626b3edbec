"""Better regression by predicting a histogram instead of a number.

The Histogram Loss of Imani and White, "Improving Regression Performance with Distributional
Losses" (ICML 2018), as a PyTorch loss and distribution.
"""

import typing as _typing

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import GradientBound, HistogramLoss, gradient_bound
from softbins.storage import ModelFileError
from softbins.targets import (
    FromCDF,
    Gaussian,
    OneBin,
    Payoff,
    Similarity,
    Target,
    TwoHot,
    UniformMix,
)

if _typing.TYPE_CHECKING:
    from softbins.regressor import HistogramRegressor, NeuralRegressor, load

__version__ = "0.1.0"

__all__ = [
    "Bins",
    "FromCDF",
    "Gaussian",
    "GradientBound",
    "Histogram",
    "HistogramLoss",
    "HistogramRegressor",
    "ModelFileError",
    "NeuralRegressor",
    "OneBin",
    "Payoff",
    "Similarity",
    "Target",
    "TwoHot",
    "UniformMix",
    "gradient_bound",
    "load",
]


def __getattr__(name: str) -> _typing.Any:
    """The estimators on first use: scikit-learn takes seconds to import, which a loss needs not."""
    if name in ("HistogramRegressor", "NeuralRegressor", "load"):
        from softbins import regressor

        return getattr(regressor, name)
    raise AttributeError(f"module 'softbins' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
