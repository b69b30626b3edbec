"""Pictures in a notebook: every figure is shown, the user's own included, whatever came before."""

import pytest

nbformat = pytest.importorskip("nbformat", reason="executing a notebook needs nbformat")
nbclient = pytest.importorskip("nbclient", reason="executing a notebook needs nbclient")

PICTURE = """
import torch
from softbins import Bins, Histogram, plots

plots.densities(Histogram(Bins([0.0, 1.0, 3.0]), probs=torch.tensor([[0.25, 0.75]])));
"""
OWN_FIGURE = """
import matplotlib.pyplot as plt

plt.plot([1, 2, 3]);
"""


def executed(*sources):
    """The cells of a notebook after a fresh kernel has run them in turn."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook.cells


def images(cell):
    return [output for output in cell.outputs if "image/png" in output.get("data", {})]


@pytest.fixture(autouse=True)
def _fresh_jupyter(tmp_path, monkeypatch):
    """No settings of the person who runs the tests, and no files left in their home."""
    monkeypatch.delenv("MPLBACKEND", raising=False)
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


def test_every_figure_of_a_notebook_is_shown():
    cells = executed(PICTURE, OWN_FIGURE, "plt.plot([3, 2, 1]);", PICTURE)
    assert [len(images(cell)) for cell in cells] == [1, 1, 1, 1]
