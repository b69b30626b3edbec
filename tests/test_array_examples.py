"""The short examples for JAX and Keras run, and learn what they simulate."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax_optax.py", "keras_model.py"])
def test_an_example_runs_and_learns(name, tmp_path):
    path = EXAMPLES / name
    assert len(path.read_text().splitlines()) <= 60
    shown = subprocess.run(
        [sys.executable, path, tmp_path], capture_output=True, text=True, check=True, timeout=200
    ).stdout
    error = float(re.search(r"^MAE: (.*)$", shown, re.MULTILINE)[1])
    covered = float(re.search(r"^90% interval covers: (.*)$", shown, re.MULTILINE)[1])
    assert error < 0.25  # noise alone makes 0.12, the mean of all targets 0.73
    assert covered > 0.85
