"""The other backends of Keras, each in a process of its own, and those that are not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# TensorFlow has an environment of its own, which `make test-slow` makes.
TENSORFLOW = ROOT / ".venv-tensorflow" / "bin" / "python"
MISSING = """
import os, sys
try:
    import softbins.keras
except ImportError as error:
    print(error)
print([name for name in sys.modules if name.partition(".")[0] == "keras"])
os.environ["KERAS_BACKEND"] = "torch"
import softbins.keras
print(softbins.keras.keras.backend.backend())
"""


def run(*arguments, python=sys.executable, **settings):
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    environment |= {"PYTHONPATH": str(ROOT / "src"), **settings}
    command = [str(python), *arguments]
    shown = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


def assert_same_tests_pass(*chosen, **how):
    shown = run("-m", "pytest", "-q", "-W", "ignore", "tests/keras/test_keras.py", *chosen, **how)
    assert " passed" in shown
    assert "skipped" not in shown


def test_the_jax_backend_agrees_trains_and_saves():
    assert_same_tests_pass("-k", "unequal-tail or training or file", KERAS_BACKEND="jax")


@pytest.mark.slow
def test_the_jax_backend_passes_the_same_tests():
    assert_same_tests_pass(KERAS_BACKEND="jax")


@pytest.mark.slow
@pytest.mark.skipif(not TENSORFLOW.exists(), reason="TensorFlow's environment is not made")
def test_the_tensorflow_backend_passes_the_same_tests():
    assert_same_tests_pass(python=TENSORFLOW, KERAS_BACKEND="tensorflow")


@pytest.mark.parametrize("how", ["environment", "file", "neither"])
def test_a_backend_that_is_not_there_is_named_and_nothing_is_changed(how, tmp_path):
    settings = {"KERAS_HOME": str(tmp_path)}
    name = "tensorflow" if how == "neither" else "openvino"
    if how == "environment":
        settings["KERAS_BACKEND"] = name
    if how == "file":
        (tmp_path / "keras.json").write_text('{"backend": "openvino"}')
    complaint, modules, backend = run("-c", MISSING, **settings).splitlines()
    assert complaint.startswith(f"keras: its backend '{name}' is not installed; install it, or")
    assert modules == "[]"
    assert backend == "torch"
