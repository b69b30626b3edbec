"""What torch makes of a forecast, as a graph that onnxruntime can run and that tells no paths."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from softbins._core.extras import optional_import
from softbins.tabular.onnx_export.forecast import Forecast

EXAMPLE_ROWS = 3  # more than one, which torch would take for the only number there is
OPSET = 18  # the version of ONNX's operators, which onnxruntime has had for years


def torch_program(forecast: Forecast) -> Any:
    """A forecast as an `onnx.ModelProto`, for any number of rows."""
    example = forecast.example(EXAMPLE_ROWS)
    rows = torch.export.Dim("rows")
    with torch.no_grad(), _quiet():
        # What is computed once and then kept, such as finer bins, looks at values: not in a trace.
        forecast(*example)
        program = torch.onnx.export(
            forecast,
            example,
            dynamo=True,
            dynamic_shapes=tuple({0: rows} for _ in example),
            opset_version=OPSET,
            custom_translation_table=_exact_operators(),
            verbose=False,
        )
    assert program is not None
    made = program.model_proto
    _remove_notes(made.graph)
    _erf_in_float32(made.graph)
    return made


def _exact_operators() -> dict[Any, Any]:
    """Operators that torch's exporter would make inexact.

    It rounds numbers to float32, and takes the logarithm of exp(x) + 1, which overflows.
    """
    onnx = optional_import("onnx", "onnx")
    operators = optional_import("onnxscript", "onnx").opset18

    def scalar_tensor(s: float, dtype: int = onnx.TensorProto.FLOAT, **_where: Any) -> Any:
        return operators.Constant(value=onnx.helper.make_tensor("", dtype, [], [s]))

    def full(
        size: Any, fill_value: float, dtype: int = onnx.TensorProto.FLOAT, **_where: Any
    ) -> Any:
        return operators.Expand(scalar_tensor(fill_value, dtype), size)

    def softplus(self: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
        rest = operators.Exp(operators.Neg(operators.Abs(self)))
        one = scalar_tensor(1.0, onnx.TensorProto.DOUBLE)
        return operators.Add(operators.Relu(self), operators.Log(operators.Add(rest, one)))

    aten = torch.ops.aten
    return {
        aten.scalar_tensor.default: scalar_tensor,
        aten.full.default: full,
        aten.softplus.default: softplus,
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says of itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _remove_notes(graph: Any) -> None:
    """Remove what only a debugger needs, which is a third of the file and holds folders' names."""
    del graph.value_info[:]
    del graph.metadata_props[:]
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _remove_notes(attribute.g)


def _erf_in_float32(graph: Any) -> None:
    """Compute erf, of mixtures of Gaussians, in float32: onnxruntime has no other."""
    onnx = optional_import("onnx", "onnx")
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Erf":
            (given,), (result,) = node.input, node.output
            single, found = f"{result}_given", f"{result}_found"
            node.input[:], node.output[:] = [single], [found]
            nodes.insert(-1, _cast(onnx, given, single, onnx.TensorProto.FLOAT))
            nodes.append(_cast(onnx, found, result, onnx.TensorProto.DOUBLE))
    del graph.node[:]
    graph.node.extend(nodes)


def _cast(onnx: Any, given: str, result: str, to: int) -> Any:
    return onnx.helper.make_node("Cast", [given], [result], name=f"cast_to_{result}", to=to)
