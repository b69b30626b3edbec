"""An ONNX graph that is made by hand, one operator after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import

MACHINE_LEARNING = "ai.onnx.ml"  # the domain of ONNX's operators for text and trees


class Graph:
    """Operators and constants; the names of all values start with `prefix`.

    Values are known by their names:

        graph = Graph("softbins/")
        total = graph.add("Add", "an input", graph.constant(np.array(1.0)))
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.onnx = optional_import("onnx", "onnx")

    def add(
        self,
        operator: str,
        *inputs: str,
        result: str | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Apply an operator, and return the name of its result."""
        result = result or f"{self.prefix}{operator}_{len(self.nodes)}"
        given = {name: self._attribute(value) for name, value in attributes.items()}
        node = self.onnx.helper.make_node(operator, inputs, [result], domain=domain, **given)
        self.nodes.append(node)
        return result

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant, and return its name."""
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def to_float64(self, value: str) -> str:
        """The value in float64."""
        return self.add("Cast", value, to=self.onnx.TensorProto.DOUBLE)

    def concatenate(self, values: Sequence[str]) -> str:
        """Several values (n, some) side by side."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def flatten(self, value: str) -> str:
        """A value (n, 1) as (n,)."""
        return self.add("Reshape", value, self.constant(np.array([-1])))

    def append(self, other: Any, inputs: Sequence[str]) -> list[str]:
        """Append an `onnx.GraphProto` whose inputs are these values, and return its results."""
        _rename(other, f"{self.prefix}appended/")
        for mine, theirs in zip(inputs, other.input, strict=True):
            self.add("Identity", mine, result=theirs.name)
        self.nodes += other.node
        self.constants += other.initializer
        return [output.name for output in other.output]

    def _attribute(self, value: Any) -> Any:
        """Whole numbers are attributes as a list, and all other arrays as a tensor."""
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype == np.int64:
            return value.tolist()
        return self.onnx.numpy_helper.from_array(value)


def _rename(graph: Any, prefix: str) -> None:
    """Let all names of an `onnx.GraphProto` start with a prefix, also in the bodies of loops."""
    for part in (*graph.input, *graph.output, *graph.initializer, *graph.node):
        part.name = prefix + part.name
    for node in graph.node:
        # An empty name is an optional input that is not given.
        node.input[:] = [name and prefix + name for name in node.input]
        node.output[:] = [name and prefix + name for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, prefix)
