"""A fitted estimator as one ONNX graph in a file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from softbins._core.extras import optional_import
from softbins._core.files import checked_path, write_whole
from softbins._core.warnings import warn_user
from softbins.tabular.onnx_export.columns import add_columns, check_columns, is_text
from softbins.tabular.onnx_export.forecast import Forecast
from softbins.tabular.onnx_export.graph import MACHINE_LEARNING, Graph
from softbins.tabular.onnx_export.torch_part import torch_program
from softbins.tabular.onnx_export.trees import add_trees

MACHINE_LEARNING_VERSION = 5  # the first with trees in float64
ROWS = "rows"  # what the file calls the number of rows


def write_onnx(
    model: Any,
    path: str | os.PathLike[str],
    quantiles: float | Sequence[float] | None,
    coverage: float | None,
) -> None:
    """Write a fitted estimator to an ONNX file; see `to_onnx` of the estimators."""
    for library in ("onnx", "onnxscript"):
        optional_import(library, "onnx")
    checked_path(path)
    if not model.objective_.has_distribution and (quantiles, coverage) != (None, None):
        name = type(model.objective_).__name__
        warn_user(f"objective: {name} predicts a number, no distribution; only the mean is written")
        quantiles = coverage = None
    levels = None if quantiles is None else np.ravel(quantiles).astype(float).tolist()
    write_whole(path, onnx_program(model, levels, coverage).SerializeToString())


def onnx_program(model: Any, quantiles: list[float] | None, coverage: float | None) -> Any:
    """The estimator as an `onnx.ModelProto`."""
    check_columns(model.columns_)
    names, forecast = _input_names(model), Forecast(model, quantiles, coverage)
    graph = Graph(_prefix(names))
    values = [add_columns(graph, model.columns_, names)]
    if forecast.takes_trees:
        values.append(add_trees(graph, model.forest_, values[0]))
    made = torch_program(forecast)
    found = graph.append(made.graph, values)
    outputs = [
        graph.add("Identity", value, result=_output_name(answer, names))
        for answer, value in zip(forecast.answers, found, strict=True)
    ]
    whole = graph.onnx.helper.make_graph(
        graph.nodes,
        "softbins",
        _described_inputs(graph, model, names),
        _described_outputs(graph, forecast, outputs),
        graph.constants,
    )
    return _program(graph, whole, made, _notes(model, forecast, names))


# Names


def _input_names(model: Any) -> list[str]:
    """The names of the columns, or else their numbers."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        return [f"column_{index}" for index in range(len(model.columns_.encoders))]
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1 or "" in names:
        fault = f"{count} columns are named {name!r}" if count > 1 else "a column has no name"
        raise ValueError(f"X: {fault}; an input of ONNX needs one of its own, fit with such names")
    return names


def _prefix(names: Sequence[str]) -> str:
    """How the names of all inner values start, and no column's."""
    prefix = "softbins/"
    while any(name.startswith(prefix) for name in names):
        prefix += "/"
    return prefix


def _output_name(answer: str, names: Sequence[str]) -> str:
    """The name of an output, which a column may have taken."""
    while answer in names:
        answer += "_"
    return answer


# The file


def _described_inputs(graph: Graph, model: Any, names: Sequence[str]) -> list[Any]:
    types, describe = graph.onnx.TensorProto, graph.onnx.helper.make_tensor_value_info
    return [
        describe(name, types.STRING if is_text(encoder) else types.DOUBLE, [ROWS, 1])
        for name, encoder in zip(names, model.columns_.encoders, strict=True)
        if encoder.kind != "ignored"
    ]


def _described_outputs(graph: Graph, forecast: Forecast, outputs: Sequence[str]) -> list[Any]:
    describe, double = graph.onnx.helper.make_tensor_value_info, graph.onnx.TensorProto.DOUBLE
    shapes = forecast.answers.values()
    return [describe(name, double, [ROWS, *s]) for name, s in zip(outputs, shapes, strict=True)]


def _program(graph: Graph, whole: Any, made: Any, notes: dict[str, Any]) -> Any:
    """The file's content: versions as torch has chosen them, and notes as JSON."""
    helper = graph.onnx.helper
    program = helper.make_model(
        whole,
        opset_imports=[
            *(used for used in made.opset_import if used.domain != MACHINE_LEARNING),
            helper.make_opsetid(MACHINE_LEARNING, MACHINE_LEARNING_VERSION),
        ],
        ir_version=made.ir_version,
        producer_name="softbins",
        producer_version=version("softbins"),
    )
    helper.set_model_props(program, {name: json.dumps(note) for name, note in notes.items()})
    return program


def _notes(model: Any, forecast: Forecast, names: Sequence[str]) -> dict[str, Any]:
    kinds = dict(zip(names, model.columns_.kinds, strict=True))
    return {
        "estimator": type(model).__name__,
        "objective": model.objective,
        "columns": kinds,
        "quantiles": forecast.quantiles,
        "coverage": forecast.coverage,
        "calibrated": forecast.is_calibrated,
    }
