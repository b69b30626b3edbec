"""Load mutants of a model file in a process of little memory, and predict with those that load.

    python -m tests.faults.load_mutants SEED MODEL COUNT [MODEL COUNT ...]

writes a JSON object for each model: how many mutants were refused and how many loaded, the most
seconds that a load took, and a line for each that was neither refused nor predicts finite numbers.
"""

import json
import resource
import sys
import tempfile
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import softbins
from softbins._core.model_file import read
from softbins.tabular.model_contents import read_contents
from softbins.tabular.model_facts import model_facts
from softbins.tabular.summary import training_summary
from tests.faults.mutations import file_content, mutants

MAX_ADDRESS_SPACE = 1_500_000_000
MAX_SECONDS = 1.0
NUMBERS = [0.0, 3.0, -1.0, 1e38, -1e38, 1e-300, np.nan]
DAYS = ["0001-01-01", "9999-12-31", "1969-12-31", "2024-02-29", "2050-06-15", "1000-01-01"]
DATES_AND_TIMES = {
    "date": [*(f"{day} 23:59" for day in DAYS), None],
    "time": ["00:00", "23:59:59", "12:30", "12:30", "01:00", "05:05", None],
}


def table_for(model):
    """Rows of all that each column may hold: extremes, gaps, known and unknown categories."""
    columns = [values_for(encoder) for encoder in model.columns_.encoders]
    frame = pd.DataFrame({i: pd.Series(column) for i, column in enumerate(columns)})
    names = model.columns_.names
    if names is None or len(set(names)) < len(names):  # scikit-learn takes no frame with such names
        return frame.to_numpy(object)
    return frame.set_axis(names, axis=1)


def values_for(encoder):
    if encoder.kind == "boolean":
        return np.array([True, False, None, True, False, None, True], dtype=object)
    if encoder.kind == "category":
        labels = [encoder.labels[0], encoder.labels[-1], encoder.labels[len(encoder.labels) // 2]]
        return np.array([*labels, labels[0], labels[1], None, None], dtype=object)
    if encoder.kind in DATES_AND_TIMES:
        zone = "+01:00" if encoder.kind == "date" and encoder.zone is not None else ""
        found = [None if text is None else text + zone for text in DATES_AND_TIMES[encoder.kind]]
        return np.array(found, dtype=object)
    return np.array(NUMBERS if encoder.kind in ("number", "duration") else [np.nan] * len(NUMBERS))


def predictions(model):
    """Everything that a model predicts."""
    rows = table_for(model)
    yield model.predict(rows)
    if model.objective_.has_distribution:
        distribution = model.predict_distribution(rows)
        yield from (distribution.mean.numpy(), distribution.variance.numpy())
        yield model.predict_quantiles(rows, [0.0, 0.1, 0.5, 1.0])
        yield model.predict_interval(rows, 0.5)
        yield model.predict_interval(rows, 0.5, "shortest")
        yield model.predict_cdf(rows, [-1.0, 0.0, 1e30])
    yield np.array(list(training_summary(model).values()), dtype=float)


def outcome(path):
    """'refused', 'loaded', or what went wrong; and the seconds that loading took."""
    start = time.process_time()
    try:
        model = softbins.load(path)
    except softbins.ModelFileError as error:
        seconds = time.process_time() - start
        line = str(error)
        if not line.startswith(f"{path}: ") or "\n" in line or len(line) > len(path) + 300:
            return f"not one short line: {line[:100]!r}", seconds
        # The schema finds all faults: nothing may fail only where it is used.
        if type(error.__cause__) is not ValueError:
            return f"refused late: {error.__cause__!r}", seconds
        return "refused", seconds
    except Exception as error:
        return f"load raised {error!r}", time.process_time() - start
    seconds = time.process_time() - start
    try:
        finite = all(np.isfinite(part).all() for part in predictions(model))
        # What `softbins info` and a card make of it.
        model_facts(read_contents(path))
        model.card()
    except Exception as error:
        return f"loaded, then raised {error!r}", seconds
    return "loaded" if finite else "loaded, but not finite", seconds


def load_mutants(model, seed, count):
    """What happens to so many mutants of a model file."""
    header, tensors = read(model)
    assert outcome(model)[0] == "loaded", "as it was, it is a model"
    found = {"refused": 0, "loaded": 0, "seconds": 0.0, "wrong": []}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "mutant.model"))
        for what, *content in islice(mutants(header, tensors, seed), count):
            Path(path).write_bytes(file_content(*content))
            result, seconds = outcome(path)
            found["seconds"] = max(found["seconds"], seconds)
            if result in ("refused", "loaded"):
                found[result] += 1
            else:
                found["wrong"].append(f"{what}: {result}"[:500])
            if seconds > MAX_SECONDS:
                found["wrong"].append(f"{what}: {result} after {seconds:.1f} s"[:500])
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
    seed, *rest = sys.argv[1:]
    for model, count in zip(rest[::2], rest[1::2], strict=True):
        print(json.dumps(load_mutants(model, int(seed), int(count))), flush=True)
