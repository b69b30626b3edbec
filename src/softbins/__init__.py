"""Better regression by predicting a histogram instead of a number.

The Histogram Loss of Imani and White, "Improving Regression Performance with Distributional
Losses" (ICML 2018), as a PyTorch loss and distribution, and as scikit-learn estimators.
"""

# Not imported from typing, for which the command line need not wait.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from softbins._core.model_content import ModelFileError
    from softbins.bins import Bins
    from softbins.head import HistogramHead
    from softbins.histogram import Histogram
    from softbins.losses import GradientBound, HistogramLoss, gradient_bound
    from softbins.stacked import StackedBins, StackedHistogram
    from softbins.tabular.explanation import Explanation
    from softbins.tabular.histogram_regressor import HistogramRegressor
    from softbins.tabular.loading import load
    from softbins.tabular.neural_regressor import NeuralRegressor
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

del TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Bins",
    "Explanation",
    "FromCDF",
    "Gaussian",
    "GradientBound",
    "Histogram",
    "HistogramHead",
    "HistogramLoss",
    "HistogramRegressor",
    "ModelFileError",
    "NeuralRegressor",
    "OneBin",
    "Payoff",
    "Similarity",
    "StackedBins",
    "StackedHistogram",
    "Target",
    "TwoHot",
    "UniformMix",
    "gradient_bound",
    "load",
]

# Names are imported on first use: torch and scikit-learn take seconds to import, for which the
# help of the command line should not wait, and a loss needs no scikit-learn.
_NAMES = {
    "_core.model_content": ["ModelFileError"],
    "bins": ["Bins"],
    "head": ["HistogramHead"],
    "histogram": ["Histogram"],
    "losses": ["GradientBound", "HistogramLoss", "gradient_bound"],
    "stacked": ["StackedBins", "StackedHistogram"],
    "tabular.explanation": ["Explanation"],
    "tabular.histogram_regressor": ["HistogramRegressor"],
    "tabular.loading": ["load"],
    "tabular.neural_regressor": ["NeuralRegressor"],
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'softbins' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"softbins.{_MODULE_OF.get(name, 'targets')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
