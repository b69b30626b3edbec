"""The part of the graph that torch exports: from encoded features to what is predicted.

It calls the functions that the estimator itself predicts with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.nn.stack import StackedMLP
from softbins.tabular.aggregate import Aggregator, Outputs
from softbins.tabular.gaussian_process import GaussianProcess
from softbins.tabular.scaling import MAX_FLOAT64, Scaling

LARGE = 1e8  # added to its square, 1 is lost in float64


class Forecast(nn.Module):
    """Mean, quantiles and interval of rows, from their encoded features and what trees say.

    Networks are in the precision in which the estimator has them, and all else in float64.
    """

    def __init__(
        self, model: Any, quantiles: Sequence[float] | None, coverage: float | None
    ) -> None:
        super().__init__()
        self.network: StackedMLP = model.network_
        self.scaling: Scaling = model.scaling_
        self.objective: Objective = model.objective_
        self.aggregator: Aggregator | None = getattr(model, "aggregator_", None)
        self.process: GaussianProcess | None = getattr(model, "gaussian_process_", None)
        self.takes_trees = getattr(model, "forest_", None) is not None
        self.quantiles, self.coverage = quantiles, coverage

    @property
    def answers(self) -> dict[str, list[int]]:
        """The names of what is predicted for a row, and the shape of each."""
        shapes: dict[str, list[int]] = {"mean": []}
        if self.quantiles is not None:
            shapes["quantiles"] = [len(self.quantiles)]
        if self.coverage is not None:
            shapes["interval"] = [2]
        return shapes

    @property
    def is_calibrated(self) -> bool:
        """Whether the distribution is a calibrated one."""
        return self.aggregator is not None and self.coverage is not None

    def example(self, rows: int) -> tuple[Tensor, ...]:
        """Inputs for so many rows: all at the center of the features, and 0 by the trees."""
        features = torch.from_numpy(self.scaling.center).expand(rows, -1).clone()
        trees = features.new_zeros(rows)
        return (features, trees) if self.takes_trees else (features,)

    def forward(self, features: Tensor, trees: Tensor | None = None) -> tuple[Tensor, ...]:
        """The `answers` in turn, for features (n, d) and predictions of trees (n,)."""
        single = scaled(self.scaling, features).float()
        x = single.to(self.scaling.precision)
        members = self.network(x.expand(self.network.members, -1, -1))
        partners = {} if trees is None else {"trees": trees}
        if self.process is not None:
            partners["gaussian_process"] = self.process(single)
        outputs = Outputs(members, partners)
        answers = [self._mean(outputs)]
        if self.quantiles is None and self.coverage is None:
            return tuple(answers)
        predicted = self._distribution(outputs)
        if self.quantiles is not None:
            answers.append(predicted.quantile(self.quantiles))
        if self.coverage is not None:
            answers.append(torch.stack(predicted.interval(self.coverage), -1))
        return tuple(answers)

    def _mean(self, outputs: Outputs) -> Tensor:
        if self.aggregator is not None:
            return self.aggregator.mean(outputs)
        return outputs.mean(self.objective)

    def _distribution(self, outputs: Outputs) -> Histogram:
        if self.aggregator is not None:
            return self.aggregator.distribution(outputs)
        return outputs.mixture(self.objective)


def scaled(scaling: Scaling, features: Tensor) -> Tensor:
    """What `Scaling` does, by operators that onnxruntime has in float64: asinh is not one."""
    center, scale = torch.from_numpy(scaling.center), torch.from_numpy(scaling.scale)
    z = (features - center) / scale
    if scaling.limit == math.inf:
        return z
    # asinh(z) = log(z + sqrt(1 + z^2)), which for large z, whose square overflows, is log(2 z).
    size = z.abs().clamp_max(MAX_FLOAT64)
    small, times = size.clamp_max(LARGE), size.clamp_min(LARGE) / LARGE
    a = torch.log(small + torch.sqrt(1 + small.square())) + torch.log(times)
    return z.sign() * a / torch.sqrt(1 + (a / scaling.limit).square())
