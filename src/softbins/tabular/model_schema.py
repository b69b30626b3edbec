"""Whether header and tensors of a model file belong together, before anything is made of them.

A digest shows that a file is as somebody wrote it, and not that softbins did. So every number of
the header that is the size of something is compared with the shapes of the tensors, which are as
large as the file says. Afterwards a model takes as much memory as its file, up to a small factor,
and the bounds on all numbers leave no way to a prediction that is not finite.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from softbins._core.json_rules import OneOf
from softbins._core.tensor_checks import SMALLEST_POSITIVE, require
from softbins.bins import Bins
from softbins.nn.stack import MAX_WIDENING
from softbins.tabular.columns import Columns
from softbins.tabular.frames import MAX_ABSOLUTE_VALUE
from softbins.tabular.model_header import HEADERS, MAX_TARGET
from softbins.tabular.sharpness import most_splits

Tensors = Mapping[str, Tensor]

MAX_FLOAT32 = torch.finfo(torch.float32).max
# Of a network's output: in float64 a product with a target's range stays finite. Where features are
# bounded a network computes in float32, in which sums of such numbers must not overflow.
MAX_OUTPUT, MAX_FLOAT32_OUTPUT = 1e200, 1e30
# The largest value of a feature that is compressed: asinh of the largest float64.
MAX_COMPRESSED = math.asinh(sys.float_info.max)
# A mixture density is shown in thousands of bins, which float64 has to tell apart.
MIN_MIXTURE_RANGE = 1e-12  # as a share of the range's larger end


@dataclass(frozen=True)
class TensorRule:
    """What a tensor has to be: its type, its shape, and the range of its values."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float
    high: float

    def check(self, name: str, value: Tensor) -> None:
        """Raise a `ValueError` with the tensor's name unless it fits; NaN is in no range."""
        if value.dtype != self.dtype or value.shape != self.shape:
            need, got = f"{self.dtype} {self.shape}", f"{value.dtype} {tuple(value.shape)}"
            raise ValueError(f"tensor {name}: need {need}, got {got}")
        if self.high == math.inf:
            value = value.clamp(max=sys.float_info.max)
        require(f"tensor {name}", value, self.low, min(self.high, sys.float_info.max))


def _weights(*shape: int, low: float = -MAX_FLOAT32) -> TensorRule:
    return TensorRule(torch.float32, shape, low, MAX_FLOAT32)


def _numbers(*shape: int, low: float = -MAX_TARGET, high: float = MAX_TARGET) -> TensorRule:
    return TensorRule(torch.float64, shape, low, high)


def _indices(*shape: int, end: int) -> TensorRule:
    return TensorRule(torch.int64, shape, 0, end - 1)


@dataclass(frozen=True)
class Layers:
    """The sizes of a network as the header says them, and which inputs are embedded."""

    members: int
    hidden: tuple[int, ...]
    embedded: tuple[int, ...] | None
    """None for a network that has no tensors for embeddings."""

    @classmethod
    def of(cls, header: dict[str, Any]) -> Layers:
        """Those of a model of either kind."""
        if "network" in header:
            sizes, embedded = header["network"], tuple(header["network"]["embedded"])
            return cls(sizes["members"], tuple(sizes["hidden"]), embedded)
        return cls(header["parameters"]["members"], tuple(header["parameters"]["hidden"]), None)


def check_model(header: dict[str, Any], tensors: Tensors) -> None:
    """Raise a `ValueError` that names the place, unless these are a model's header and tensors."""
    OneOf(tuple(HEADERS)).check("header.class", header.get("class"))
    HEADERS[header["class"]].check("header", header)
    _check_history(header)
    _check_columns(header["columns"])
    features = len(Columns.from_json(header["columns"]).encoded_features)
    layers = Layers.of(header)
    _check_embedded(layers, features)
    rules = _tensor_rules(header, tensors, layers, features)
    _check_names(set(rules), set(tensors))
    for name, rule in rules.items():
        rule.check(name, tensors[name])
    _check_range(header, tensors)
    _check_largest_output(tensors, len(layers.hidden))
    if header.get("aggregator") is not None:
        _check_bin_splits(Bins(tensors["edges"]), header["aggregator"]["bin_splits"])
    if header.get("trees"):
        _check_trees(tensors, features)


# The header by itself


def _check_history(header: dict[str, Any]) -> None:
    """Where members were stopped by an error, each epoch has it."""
    parameters = header["parameters"]
    score = f"validation_{parameters['monitor']}"
    for index, row in enumerate(header["history"] if parameters["early_stopping"] else ()):
        if score not in row:
            raise ValueError(f"header.history[{index}]: has no {score}")


def _check_columns(columns: dict[str, Any]) -> None:
    for index, part in enumerate(columns["parts"]):
        if part["kind"] == "empty" and not part["gaps"]:
            raise ValueError(f"header.columns.parts[{index}]: an empty column must have gaps")


def _check_embedded(layers: Layers, features: int) -> None:
    places = (-1, *(layers.embedded or ()), features)
    if not all(before < after for before, after in pairwise(places)):
        raise ValueError(
            f"header.network.embedded: need rising numbers of inputs, of which there are {features}"
        )


# Tensors by name


def _tensor_rules(
    header: dict[str, Any], tensors: Tensors, layers: Layers, features: int
) -> dict[str, TensorRule]:
    """All tensors that a model with this header has."""
    outputs, rules = _outputs(header, tensors)
    rules |= _network_rules(tensors, layers, features, outputs)
    far = MAX_ABSOLUTE_VALUE
    rules["scaling.center"] = _numbers(features, low=-far, high=far)
    rules["scaling.scale"] = _numbers(features, low=SMALLEST_POSITIVE, high=sys.float_info.max)
    rules["scaling.limit"] = _numbers(low=SMALLEST_POSITIVE, high=math.inf)
    if header.get("aggregator") is not None:
        rules |= _depth_rules(tensors)
    if header.get("trees"):
        rules |= _forest_rules(tensors, features)
    return rules


def _outputs(header: dict[str, Any], tensors: Tensors) -> tuple[int, dict[str, TensorRule]]:
    """The number of a network's outputs, and the edges of bins that they stand for."""
    names = ["edges"]
    if header["class"] == "NeuralRegressor":
        parameters = header["parameters"]
        bins, method = parameters["bins"], parameters["objective"]
        count = bins if isinstance(bins, int) else len(bins["edges"]) - 1
        other = {"l2-softmax": count, "l2-many": count, "mdn": 3 * parameters["components"]}
        if not method.startswith("hl-"):
            return other.get(method, 1), {}
    elif "blur" in header:
        names.append("blurred_edges")
    lengths = {name: _shape(tensors, name, 1)[0] for name in names}
    rules = {name: _numbers(length) for name, length in lengths.items()}
    return sum(length - 1 for length in lengths.values()), rules


def _network_rules(
    tensors: Tensors, layers: Layers, features: int, outputs: int
) -> dict[str, TensorRule]:
    members, width = layers.members, features
    rules = {
        "shift": _weights(members, 1, features),
        "scale": _weights(members, 1, features, low=0),
    }
    if layers.embedded is not None:
        count = len(layers.embedded)
        frequencies, size = (_shape(tensors, name, 4)[-1] for name in ("waves", "embedding"))
        rules["waves"] = rules["phases"] = _weights(members, count, 1, frequencies)
        rules["embedding"] = _weights(members, count, frequencies, size)
        rules["offset"] = _weights(members, count, 1, size)
        width += count * size
    for number, units in enumerate((*_stored_units(tensors, layers.hidden), outputs)):
        rules[f"weights.{number}"] = _weights(members, width, units)
        rules[f"biases.{number}"] = _weights(members, 1, units)
        width = units
    return rules


def _stored_units(tensors: Tensors, hidden: tuple[int, ...]) -> list[int]:
    """The units of each hidden layer in the file, which may be a little wider than asked for."""
    found = []
    for number, asked in enumerate(hidden):
        units = _shape(tensors, f"biases.{number}", 3)[-1]
        if not asked <= units <= MAX_WIDENING * asked:
            raise ValueError(f"tensor biases.{number}: has {units} units where {asked} are said")
        found.append(units)
    return found


def _depth_rules(tensors: Tensors) -> dict[str, TensorRule]:
    rows = _shape(tensors, "depths.central", 1)[0]
    return {f"depths.{kind}": _numbers(rows, high=1.0) for kind in ("central", "shortest")}


def _forest_rules(tensors: Tensors, features: int) -> dict[str, TensorRule]:
    nodes, trees = (_shape(tensors, f"forest.{name}", 1)[0] for name in ("value", "roots"))
    largest = sys.float_info.max
    return {
        "forest.feature": _indices(nodes, end=features),
        "forest.threshold": _numbers(nodes, low=-largest, high=largest),
        "forest.left": _indices(nodes, end=nodes),
        "forest.right": _indices(nodes, end=nodes),
        "forest.value": _numbers(nodes),
        "forest.roots": _indices(trees, end=nodes),
        "forest.depths": _indices(trees, end=nodes),
        "forest.rest": _numbers(2),
    }


def _shape(tensors: Tensors, name: str, dimensions: int) -> tuple[int, ...]:
    """The shape of a tensor, none of whose last sizes is 0."""
    if name not in tensors:
        raise ValueError(f"tensor {name}: is missing")
    shape = tuple(tensors[name].shape)
    if len(shape) != dimensions or shape[-1] == 0:
        raise ValueError(f"tensor {name}: need {dimensions} dimensions, got shape {shape}")
    return shape


def _check_names(expected: set[str], found: set[str]) -> None:
    for name in sorted(expected ^ found):
        raise ValueError(f"tensor {name}: is {'missing' if name in expected else 'unknown'}")


# What tensors say


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


def _check_bin_splits(bins: Bins, splits: int) -> None:
    if most_splits(bins, splits) < splits:
        raise ValueError(f"header.aggregator.bin_splits: float64 cannot cut the {bins} by {splits}")


def _check_largest_output(tensors: Tensors, hidden_layers: int) -> None:
    """However large its inputs, a network's outputs must not overflow.

    No activation makes a number larger, so that the largest input of a layer, times the sums of
    absolute weights, is at least as large as any of its outputs.
    """
    largest = tensors["shift"].double().abs() + _largest_feature(tensors) * tensors["scale"]
    if "embedding" in tensors:
        waves = tensors["embedding"].double().abs().sum(2, keepdim=True) + tensors["offset"].abs()
        largest = torch.cat([largest, waves.flatten(1).unsqueeze(1)], -1)
    for number in range(hidden_layers + 1):
        weight, bias = tensors[f"weights.{number}"].double(), tensors[f"biases.{number}"]
        largest = largest @ weight.abs() + bias.abs()
    limit = MAX_FLOAT32_OUTPUT if tensors["scaling.limit"] < math.inf else MAX_OUTPUT
    if not (largest <= limit).all():
        raise ValueError(f"tensors weights: so large that outputs may be above {limit:g}")


def _largest_feature(tensors: Tensors) -> Tensor:
    """The largest size of each feature after scaling, for every table that is taken."""
    center, scale = tensors["scaling.center"], tensors["scaling.scale"]
    if tensors["scaling.limit"] < math.inf:
        return torch.full_like(center, MAX_COMPRESSED)
    largest = (MAX_ABSOLUTE_VALUE + center.abs()) / scale
    return require("tensor scaling.scale: largest scaled feature", largest, 0, MAX_FLOAT32)


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
