"""Whether the header of a model file and the layout of its tensors belong together.

A digest shows that a file is as somebody wrote it, and not that softbins did. So every number of
the header that is the size of something is compared with the shapes of the tensors, which are as
large as the file says. `model_schema` looks at the values of the tensors as well; nothing here
needs torch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from softbins._core.checks import SMALLEST_POSITIVE
from softbins._core.json_rules import OneOf
from softbins.nn.settings import MAX_WIDENING
from softbins.tabular.columns import Columns
from softbins.tabular.encoded_feature import DatePart
from softbins.tabular.frames import MAX_ABSOLUTE_VALUE
from softbins.tabular.model_header import HEADERS, MAX_TARGET, PARTNERS
from softbins.tabular.provenance import NUMERIC_KINDS
from softbins.tabular.time_zones import time_zone

MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
MIN_LENGTH = 1e-30  # in which a Gaussian process measures: float64 holds the square of a distance


class Layout(NamedTuple):
    """The kind of a tensor's numbers, such as "float32", and its shape."""

    dtype: str
    shape: tuple[int, ...]


Layouts = Mapping[str, Layout]


@dataclass(frozen=True)
class TensorRule:
    """What a tensor has to be: its type, its shape, and the range of its values."""

    layout: Layout
    low: float
    high: float

    def check_layout(self, name: str, found: Layout) -> None:
        """Raise a `ValueError` with the tensor's name unless type and shape fit."""
        if found != self.layout:
            need, got = (f"{each.dtype} {each.shape}" for each in (self.layout, found))
            raise ValueError(f"tensor {name}: need {need}, got {got}")


def _weights(*shape: int, low: float = -MAX_FLOAT32) -> TensorRule:
    return TensorRule(Layout("float32", shape), low, MAX_FLOAT32)


def _numbers(*shape: int, low: float = -MAX_TARGET, high: float = MAX_TARGET) -> TensorRule:
    return TensorRule(Layout("float64", shape), low, high)


def _indices(*shape: int, end: int) -> TensorRule:
    return TensorRule(Layout("int64", shape), 0, end - 1)


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


def check_layout(header: dict[str, Any], layouts: Layouts) -> dict[str, TensorRule]:
    """Raise a `ValueError` that names the place, unless a model has this header and such tensors.

    Returns the rules of all tensors, for whoever looks at their values.
    """
    OneOf(tuple(HEADERS)).check("header.class", header.get("class"))
    HEADERS[header["class"]].check("header", header)
    _check_history(header)
    _check_columns(header["columns"])
    _check_provenance(header)
    _check_shares(header)
    features = count_features(header)
    layers = Layers.of(header)
    _check_embedded(layers, features)
    rules = _tensor_rules(header, layouts, layers, features)
    _check_names(set(rules), set(layouts))
    for name, rule in rules.items():
        rule.check_layout(name, layouts[name])
    return rules


def count_features(header: dict[str, Any]) -> int:
    """The number of features that a network sees, which columns were encoded to."""
    return len(Columns.from_json(header["columns"]).encoded_features)


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
        place = f"header.columns.parts[{index}]"
        if part["kind"] == "empty" and not part["gaps"]:
            raise ValueError(f"{place}: an empty column must have gaps")
        if part["kind"] == "date":
            if part["parts"] != [name for name in get_args(DatePart) if name in part["parts"]]:
                raise ValueError(f"{place}.parts: need each once, from month to hour")
            time_zone(part["zone"] or "UTC")
    if not Columns.from_json(columns).encoded_features:
        raise ValueError("header.columns: nothing is learnt from any of them")


def _check_provenance(header: dict[str, Any]) -> None:
    """Each column was seen, with numbers from low to high exactly if it is one of numbers."""
    if "provenance" not in header:
        return
    seen, parts = header["provenance"]["columns"], header["columns"]["parts"]
    if len(seen) != len(parts):
        raise ValueError(f"header.provenance.columns: need {len(parts)}, got {len(seen)}")
    for index, (column, part) in enumerate(zip(seen, parts, strict=True)):
        place = f"header.provenance.columns[{index}]"
        ends = [column[name] for name in ("low", "high") if column[name] is not None]
        if len(ends) != (2 if part["kind"] in NUMERIC_KINDS else 0) or ends != sorted(ends):
            raise ValueError(f"{place}: low and high are not those of a {part['kind']}")
        if (column["missing"] is None) != (part["kind"] == "ignored"):
            raise ValueError(f"{place}.missing: must be null for an ignored column, and no other")
        if (column["missing"] or 0) > header["provenance"]["rows"]:
            raise ValueError(f"{place}.missing: is more than there are rows")


def _check_shares(header: dict[str, Any]) -> None:
    """Exactly the partners that are there have a share, and all together at most the whole."""
    if header.get("aggregator") is None:
        return
    shares = header["aggregator"]["shares"]
    if set(shares) != {name for name in PARTNERS if header[name]}:
        raise ValueError(f"header.aggregator.shares: {shares} are not those of what is there")
    if sum(shares.values()) > 1 + 1e-9:
        raise ValueError(f"header.aggregator.shares: {shares} are more than the whole")


def _check_embedded(layers: Layers, features: int) -> None:
    places = (-1, *(layers.embedded or ()), features)
    if not all(before < after for before, after in pairwise(places)):
        raise ValueError(
            f"header.network.embedded: need rising numbers of inputs, of which there are {features}"
        )


# Layouts by name


def _tensor_rules(
    header: dict[str, Any], layouts: Layouts, layers: Layers, features: int
) -> dict[str, TensorRule]:
    """All tensors that a model with this header has."""
    outputs, rules = _outputs(header, layouts)
    rules |= _network_rules(layouts, layers, features, outputs)
    far = MAX_ABSOLUTE_VALUE
    rules["scaling.center"] = _numbers(features, low=-far, high=far)
    rules["scaling.scale"] = _numbers(features, low=SMALLEST_POSITIVE, high=sys.float_info.max)
    rules["scaling.limit"] = _numbers(low=SMALLEST_POSITIVE, high=math.inf)
    if header.get("trees"):
        rules |= _forest_rules(layouts, features)
    if header.get("gaussian_process"):
        rules |= _gaussian_process_rules(layouts, features)
    return rules


def _outputs(header: dict[str, Any], layouts: Layouts) -> tuple[int, dict[str, TensorRule]]:
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
    lengths = {name: _shape(layouts, name, 1)[0] for name in names}
    rules = {name: _numbers(length) for name, length in lengths.items()}
    return sum(length - 1 for length in lengths.values()), rules


def _network_rules(
    layouts: Layouts, layers: Layers, features: int, outputs: int
) -> dict[str, TensorRule]:
    members, width = layers.members, features
    rules = {
        "shift": _weights(members, 1, features),
        "scale": _weights(members, 1, features, low=0),
    }
    if layers.embedded is not None:
        count = len(layers.embedded)
        frequencies, size = (_shape(layouts, name, 4)[-1] for name in ("waves", "embedding"))
        rules["waves"] = rules["phases"] = _weights(members, count, 1, frequencies)
        rules["embedding"] = _weights(members, count, frequencies, size)
        rules["offset"] = _weights(members, count, 1, size)
        width += count * size
    for number, units in enumerate((*_stored_units(layouts, layers.hidden), outputs)):
        rules[f"weights.{number}"] = _weights(members, width, units)
        rules[f"biases.{number}"] = _weights(members, 1, units)
        width = units
    return rules


def _stored_units(layouts: Layouts, hidden: tuple[int, ...]) -> list[int]:
    """The units of each hidden layer in the file, which may be a little wider than asked for."""
    found = []
    for number, asked in enumerate(hidden):
        units = _shape(layouts, f"biases.{number}", 3)[-1]
        if not asked <= units <= MAX_WIDENING * asked:
            raise ValueError(f"tensor biases.{number}: has {units} units where {asked} are said")
        found.append(units)
    return found


def _forest_rules(layouts: Layouts, features: int) -> dict[str, TensorRule]:
    nodes, trees = (_shape(layouts, f"forest.{name}", 1)[0] for name in ("value", "roots"))
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


def _gaussian_process_rules(layouts: Layouts, features: int) -> dict[str, TensorRule]:
    """Bounds that leave all distances and sums finite, for every table that is taken."""
    rows = _shape(layouts, "gaussian_process.weights", 1)[0]
    return {
        "gaussian_process.center": _numbers(features, low=-MAX_FLOAT32, high=MAX_FLOAT32),
        "gaussian_process.length": _numbers(features, low=MIN_LENGTH, high=MAX_FLOAT32),
        "gaussian_process.rows": _numbers(rows, features, low=-MAX_FLOAT32, high=MAX_FLOAT32),
        "gaussian_process.weights": _numbers(rows),
        "gaussian_process.slope": _numbers(features),
        "gaussian_process.numbers": _numbers(7),
    }


def _shape(layouts: Layouts, name: str, dimensions: int) -> tuple[int, ...]:
    """The shape of a tensor, none of whose last sizes is 0."""
    if name not in layouts:
        raise ValueError(f"tensor {name}: is missing")
    shape = layouts[name].shape
    if len(shape) != dimensions or shape[-1] == 0:
        raise ValueError(f"tensor {name}: need {dimensions} dimensions, got shape {shape}")
    return shape


def _check_names(expected: set[str], found: set[str]) -> None:
    for name in sorted(expected ^ found):
        raise ValueError(f"tensor {name}: is {'missing' if name in expected else 'unknown'}")
