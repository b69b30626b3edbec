"""Whether header and tensors of a model file are a model, before anything is made of them.

After the layout, which `model_layout` checks, the values. Afterwards a model takes as much memory
as its file, up to a small factor, and the bounds on all numbers leave no way to a prediction that
is not finite.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from softbins._core.tensor_checks import require
from softbins.bins import Bins
from softbins.tabular.frames import MAX_ABSOLUTE_VALUE
from softbins.tabular.model_header import MAX_TARGET
from softbins.tabular.model_layout import (
    MAX_FLOAT32,
    Layers,
    Layout,
    TensorRule,
    check_layout,
    count_features,
)
from softbins.tabular.sharpness import most_splits

Tensors = Mapping[str, Tensor]

# Of a network's output: in float64 a product with a target's range stays finite. Where features are
# bounded a network computes in float32, in which sums of such numbers must not overflow.
MAX_OUTPUT, MAX_FLOAT32_OUTPUT = 1e200, 1e30
# The largest value of a feature that is compressed: asinh of the largest float64.
MAX_COMPRESSED = math.asinh(sys.float_info.max)
# A mixture density is shown in thousands of bins, which float64 has to tell apart.
MIN_MIXTURE_RANGE = 1e-12  # as a share of the range's larger end


def check_model(header: dict[str, Any], tensors: Tensors) -> None:
    """Raise a `ValueError` that names the place, unless these are a model's header and tensors."""
    for name, rule in check_layout(header, layouts_of(tensors)).items():
        _check_values(name, tensors[name], rule)
    _check_range(header, tensors)
    _check_largest_output(tensors, len(Layers.of(header).hidden))
    if header.get("aggregator") is not None:
        _check_bins(Bins(tensors["edges"]), header["aggregator"])
    if header.get("trees"):
        _check_trees(tensors, count_features(header))
    if header.get("gaussian_process"):
        _check_bent_target(tensors["gaussian_process.numbers"])


def layouts_of(tensors: Tensors) -> dict[str, Layout]:
    """The layout of each tensor."""
    return {
        name: Layout(str(value.dtype).removeprefix("torch."), tuple(value.shape))
        for name, value in tensors.items()
    }


def _check_values(name: str, value: Tensor, rule: TensorRule) -> None:
    """Raise a `ValueError` with the tensor's name unless the values fit; NaN is in no range."""
    if rule.high == math.inf:
        value = value.clamp(max=sys.float_info.max)
    require(f"tensor {name}", value, rule.low, min(rule.high, sys.float_info.max))


def _check_range(header: dict[str, Any], tensors: Tensors) -> None:
    """The range of the targets is that of the bins, where there are some."""
    low, high = header["range"]
    if not low < high:
        raise ValueError(f"header.range: must rise, got {header['range']}")
    if "edges" in tensors:
        bins = Bins(tensors["edges"])
        if not max(abs(low - bins.low), abs(high - bins.high)) <= 1e-9 * (high - low):
            raise ValueError(f"header.range: {header['range']} is not that of the {bins}")
    is_mixture = header["parameters"].get("objective") == "mdn"
    if is_mixture and high - low < MIN_MIXTURE_RANGE * max(abs(low), abs(high)):
        raise ValueError(f"header.range: {header['range']} is too narrow for a mixture density")


def _check_bins(bins: Bins, aggregator: dict[str, Any]) -> None:
    splits = aggregator["bin_splits"]
    if aggregator["is_lattice"] and (bins.step is None or splits > 1):
        raise ValueError("header.aggregator.is_lattice: needs equal bins, which are not cut")
    if most_splits(bins, splits) < splits:
        raise ValueError(f"header.aggregator.bin_splits: float64 cannot cut the {bins} by {splits}")


def _check_largest_output(tensors: Tensors, hidden_layers: int) -> None:
    """However large its inputs, a network's outputs must not overflow.

    No activation makes a number larger, so that the largest input of a layer, times the sums of
    absolute weights, is at least as large as any of its outputs.
    """
    limit = MAX_FLOAT32_OUTPUT if tensors["scaling.limit"] < math.inf else MAX_OUTPUT
    largest = tensors["shift"].double().abs() + _largest_feature(tensors) * tensors["scale"]
    if "embedding" in tensors and tensors["embedding"].numel():
        _check_angles(tensors, largest, limit)
        waves = tensors["embedding"].double().abs().sum(2, keepdim=True) + tensors["offset"].abs()
        largest = torch.cat([largest, waves.flatten(1).unsqueeze(1)], -1)
    for number in range(hidden_layers + 1):
        weight, bias = tensors[f"weights.{number}"].double(), tensors[f"biases.{number}"]
        largest = largest @ weight.abs() + bias.abs()
    if not (largest <= limit).all():
        raise ValueError(f"tensors weights: so large that outputs may be above {limit:g}")


def _check_angles(tensors: Tensors, largest_input: Tensor, limit: float) -> None:
    """The angles of waves must not overflow: there is no cosine of infinity."""
    largest = tensors["waves"].double().abs().amax() * largest_input.amax()
    if not largest + tensors["phases"].double().abs().amax() <= limit:
        raise ValueError(f"tensors waves, phases: so large that angles may be above {limit:g}")


def _largest_feature(tensors: Tensors) -> Tensor:
    """The largest size of each feature after scaling, for every table that is taken."""
    center, scale = tensors["scaling.center"], tensors["scaling.scale"]
    if tensors["scaling.limit"] < math.inf:
        return torch.full_like(center, MAX_COMPRESSED)
    return ((MAX_ABSOLUTE_VALUE + center.abs()) / scale).clamp(max=MAX_FLOAT32)


def _check_bent_target(numbers: Tensor) -> None:
    """Predictions are bent back from a range that rises, and are targets afterwards."""
    _, center, spread, low, high, rising, falling = numbers.tolist()
    end = max(abs(low), abs(high))
    largest = math.inf
    if end <= math.log(MAX_TARGET):
        largest = abs(center) + abs(spread) * (abs(rising) + abs(falling)) * math.exp(end)
    if not (low < high and spread > 0 and largest <= MAX_TARGET):
        raise ValueError("tensor gaussian_process.numbers: cannot be bent back to targets")


def _check_trees(tensors: Tensors, features: int) -> None:
    """A walk from each root goes forward, stays in its tree and ends at a leaf.

    A leaf points to itself. A tree with n inner nodes has n + 1 leaves, and is n deep at most.
    """
    left, right, roots, depths = (
        tensors[f"forest.{name}"] for name in ("left", "right", "roots", "depths")
    )
    ends = torch.cat([roots[1:], torch.tensor([len(left)])])
    sizes = ends - roots
    if roots[0] != 0 or not (sizes > 0).all() or (depths > sizes // 2).any():
        raise ValueError("tensor forest.roots, forest.depths: need trees one after another")
    own, end = torch.arange(len(left)), ends.repeat_interleave(sizes)
    leaf = (left == own) & (right == own)
    forward = (own < left) & (left < end) & (own < right) & (right < end)
    if not (leaf | forward).all():
        raise ValueError("tensor forest.left, forest.right: point out of the tree, or back")
    if tensors["forest.rest"][1] != features:
        raise ValueError(f"tensor forest.rest: trees need another number of features: {features}")
