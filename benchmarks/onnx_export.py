"""File size and time of one row: a fitted estimator beside its ONNX graph in onnxruntime.

    python benchmarks/onnx_export.py

Both give the mean, three quantiles and a calibrated interval of one row, and each has one thread.
Times are medians of processor time. Writes results/onnx.json, which docs/deploy.md shows.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_diabetes

from softbins import HistogramRegressor, NeuralRegressor

RESULT = Path(__file__).parents[1] / "results" / "onnx.json"
REPEATS = 50
MODELS = {
    "HistogramRegressor()": HistogramRegressor(random_state=0),
    'HistogramRegressor(preset="fast")': HistogramRegressor(preset="fast", random_state=0),
    "HistogramRegressor.as_in_paper()": HistogramRegressor.as_in_paper(random_state=0),
    'NeuralRegressor("hl-gaussian")': NeuralRegressor("hl-gaussian", random_state=0),
}


def milliseconds(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def measure(model: Any, folder: Path) -> dict[str, float]:
    x, y = load_diabetes(return_X_y=True)
    model.fit(x, y).save(folder / "a.model")
    model.to_onnx(folder / "a.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "a.onnx", options)
    row = x[:1]
    given = {f"column_{i}": row[:, i : i + 1] for i in range(x.shape[1])}

    def estimate() -> list[Any]:
        return [model.predict(row), model.predict_quantiles(row), model.predict_interval(row)]

    found = zip(session.run(None, given), estimate(), strict=True)
    return {
        "model_kilobytes": (folder / "a.model").stat().st_size / 1e3,
        "onnx_kilobytes": (folder / "a.onnx").stat().st_size / 1e3,
        "estimator_milliseconds": milliseconds(estimate),
        "onnxruntime_milliseconds": milliseconds(lambda: session.run(None, given)),
        "difference": float(max(np.abs(a - b).max() for a, b in found) / y.std()),
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"model": name} | measure(model, Path(folder)))
        print(rows[-1])
    RESULT.write_text(json.dumps({"data": "diabetes, 10 columns", "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
