"""Edited model files with a right digest: refused at once, or models with finite predictions.

Processes with little memory load mutants (`load_mutants`) that a generator makes (`mutations`), of
models that between them have all parts: text, dates, gaps, trees, both heads, a mixture density.
"""

import json
import subprocess
import sys
from dataclasses import fields
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor, NeuralRegressor
from softbins._core.model_file import read
from softbins.tabular.provenance import Provenance
from tests.faults.mutations import mutants
from tests.tabular.quick import with_few_rounds

ROOT = Path(__file__).parents[2]
OLD_FILES = ROOT / "tests" / "tabular" / "model_files"
LEAST_LOADED = 0.05  # as a share of all mutants


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small model files by name."""
    folder = tmp_path_factory.mktemp("models")
    table, y = rows()
    histogram = HistogramRegressor((8,), members=2, bins=16, max_epochs=5, random_state=0)
    histogram._defaults = with_few_rounds(5)
    histogram.fit(table, y).save(folder / "histogram")
    assert histogram.forest_ is not None
    mixture = NeuralRegressor("mdn", (8,), max_epochs=2, early_stopping=True, random_state=0)
    mixture.fit(table.to_numpy(object)[:, :2], y).save(folder / "mixture")
    dated = NeuralRegressor("l2", (8,), max_epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="left out"):
        dated.fit(dates(), y).save(folder / "dated")
    return {
        "dated": folder / "dated",
        "histogram": folder / "histogram",
        "mixture": folder / "mixture",
        "old neural": OLD_FILES / "neural_regressor.model",
        "old histogram": OLD_FILES / "histogram_regressor.model",
    }


def dates():
    """Dates with and without a zone, times, durations, and names that are left out."""
    hours = pd.date_range("2024-01-31", periods=80, freq="31h")
    return pd.DataFrame(
        {
            "day": hours.where(hours.hour != 3),
            "hour": hours.tz_localize("Europe/Berlin"),
            "time": hours.time,
            "wait": hours - hours[0],
            "name": [f"person {i}" for i in range(80)],
        }
    )


def rows():
    """Numbers with gaps, text and booleans, and targets in steps, which trees are good at."""
    generator, count = np.random.default_rng(0), 80
    table = pd.DataFrame(
        {
            "size": generator.normal(size=count),
            "rooms": generator.choice([1.0, 2.0, np.nan], count),
            "town": generator.choice(["a", "b", "c"], count),
            "open": generator.choice([True, False], count),
        }
    )
    steps = np.where(table["size"] > 0, 5.0, 0.0) + np.where(table["town"] == "a", 3.0, 0.0)
    return table, steps + generator.normal(scale=0.1, size=count)


def test_mutants_are_refused_or_predict_finite_numbers(models):
    check_mutants(models, seed=0, counts={"histogram": 150, "mixture": 60, "old neural": 90})


@pytest.mark.slow
def test_more_mutants_are_refused_or_predict_finite_numbers(models):
    counts = {"histogram": 5000, "mixture": 2000, "old neural": 2500, "old histogram": 500}
    check_mutants(models, seed=1, counts=counts)


def test_mutants_reach_every_field_of_the_provenance(models):
    header, tensors = read(models["histogram"])
    edits = " ".join(what for what, *_ in islice(mutants(header, tensors, seed=0), 1000))
    for field in fields(Provenance):
        assert f"header['provenance']['{field.name}']" in edits, field.name


def check_mutants(models, seed, counts):
    pairs = [(str(models[name]), str(count)) for name, count in counts.items()]
    command = [sys.executable, "-m", "tests.faults.load_mutants", str(seed), *chain(*pairs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for (name, count), line in zip(counts.items(), done.stdout.splitlines(), strict=True):
        found = json.loads(line)
        print(name, {key: value for key, value in found.items() if key != "wrong"})
        assert found["wrong"] == [], name
        assert found["refused"] + found["loaded"] == count
        assert found["loaded"] > LEAST_LOADED * count, "mutants are to reach the predictions"
