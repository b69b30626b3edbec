"""Better regression by predicting a histogram instead of a number.

The Histogram Loss of Imani and White, "Improving Regression Performance with Distributional
Losses" (ICML 2018), as a PyTorch loss and distribution.
"""

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.losses import GradientBound, HistogramLoss, gradient_bound
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

__version__ = "0.1.0"

__all__ = [
    "Bins",
    "FromCDF",
    "Gaussian",
    "GradientBound",
    "Histogram",
    "HistogramLoss",
    "OneBin",
    "Payoff",
    "Similarity",
    "Target",
    "TwoHot",
    "UniformMix",
    "gradient_bound",
]
