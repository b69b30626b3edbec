"""What a model file has of a `HistogramRegressor`, and of no other estimator."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from softbins.bins import Bias, Bins
from softbins.nn.embedded import EmbeddedMLP
from softbins.tabular.aggregate import Aggregator
from softbins.tabular.forest import Forest
from softbins.tabular.gaussian_process import GaussianProcess
from softbins.tabular.objectives import TwoHeadObjective, histogram_objective


def state_of(regressor: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a fitted `HistogramRegressor` adds to a model file: header and tensors."""
    network, aggregator = regressor.network_, regressor.aggregator_
    forest, process = regressor.forest_, regressor.gaussian_process_
    shape = {"hidden": list(network.hidden), "members": network.members}
    header: dict[str, Any] = {"network": shape | {"embedded": network.embedded}}
    header["bias"] = list(regressor.bins_.bias or ())
    header["aggregator"] = None if aggregator is None else aggregator.to_json()
    header["trees"], header["gaussian_process"] = forest is not None, process is not None
    tensors = {"edges": regressor.bins_.edges}
    if isinstance(regressor.objective_, TwoHeadObjective):
        blurred: Any = regressor.objective_.blurred
        header["blur"], tensors["blurred_edges"] = blurred.target.sigma, blurred.bins.edges
    for partner in (forest, process):
        tensors |= {} if partner is None else partner.tensors()
    return header, tensors


def set_state(regressor: Any, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Take it back: the objective, and a network whose weights come next."""
    regressor.bins_ = Bins(tensors.pop("edges")).with_bias(Bias(*header["bias"]))
    sharp = histogram_objective(regressor.bins_, regressor.sigma)
    regressor.objective_ = sharp
    if "blurred_edges" in tensors:
        blurred = histogram_objective(Bins(tensors.pop("blurred_edges")), header["blur"])
        regressor.objective_ = TwoHeadObjective(sharp.low, sharp.high, blurred, sharp)
    found = header["aggregator"]
    regressor.aggregator_ = found and Aggregator.from_json(regressor.objective_, found)
    regressor.forest_ = Forest.from_tensors(tensors) if header["trees"] else None
    is_there = header["gaussian_process"]
    regressor.gaussian_process_ = GaussianProcess.from_tensors(tensors) if is_there else None
    shape = header["network"]
    regressor.network_ = EmbeddedMLP(
        len(regressor.columns_.encoded_features),
        shape["embedded"],
        shape["hidden"],
        regressor.objective_.outputs,
        [0],
        activation=regressor.activation,
        frequencies_per_input=tensors["waves"].shape[-1],
        embedding_size=tensors["embedding"].shape[-1],
    )
