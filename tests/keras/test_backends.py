"""The other backends of Keras, each in a process of its own, and those that are not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softbins._core.keras_import import require_keras

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
print(os.listdir(os.environ["KERAS_HOME"]))
"""
ANOTHER = """
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


@pytest.mark.slow
def test_the_jax_backend_agrees_trains_and_saves():
    assert_same_tests_pass("-k", "unequal-tail or training or file", KERAS_BACKEND="jax")


@pytest.mark.slow
def test_the_jax_backend_passes_the_same_tests():
    assert_same_tests_pass(KERAS_BACKEND="jax")


@pytest.mark.slow
@pytest.mark.skipif(not TENSORFLOW.exists(), reason="TensorFlow's environment is not made")
def test_the_tensorflow_backend_passes_the_same_tests():
    assert_same_tests_pass(python=TENSORFLOW, KERAS_BACKEND="tensorflow")


def test_a_backend_that_is_not_there_is_named_and_nothing_is_changed(tmp_path):
    settings = {"KERAS_BACKEND": "openvino", "KERAS_HOME": str(tmp_path)}
    complaint, modules, files = run("-c", MISSING, **settings).splitlines()
    assert complaint.startswith("keras: its backend 'openvino' is not installed; install it, or")
    assert modules == files == "[]"


@pytest.mark.slow
def test_after_a_backend_that_is_not_there_another_can_be_chosen(tmp_path):
    settings = {"KERAS_BACKEND": "openvino", "KERAS_HOME": str(tmp_path)}
    assert run("-c", MISSING + ANOTHER, **settings).splitlines()[-1] == "torch"


@pytest.mark.parametrize(
    ("content", "name"),
    [('{"backend": "openvino"}', "openvino"), ("{}", "tensorflow"), ("damaged", "tensorflow")],
)
def test_without_a_choice_the_settings_of_keras_count(content, name, tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", {"keras": "found"}.get)
    (tmp_path / "keras.json").write_text(content)
    with pytest.raises(ImportError, match=f"keras: its backend '{name}' is not installed"):
        require_keras()


def test_without_keras_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(
        ImportError, match=r'keras is not installed: pip install "softbins\[keras\]"'
    ):
        require_keras()
