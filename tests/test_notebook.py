"""Notebooks: every figure is shown, whatever came before, and those of examples/ are executed."""

from pathlib import Path

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


EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


def executed(*sources, folder="."):
    """The cells of a notebook after a fresh kernel has run them in turn."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    return notebook.cells


def images(cell):
    return [output for output in cell.outputs if "image/png" in output.get("data", {})]


@pytest.fixture(autouse=True)
def _fresh_jupyter(tmp_path, monkeypatch):
    """No settings of the person who runs the tests, and no files left in their home."""
    monkeypatch.delenv("MPLBACKEND", raising=False)
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    # What shap has compiled would take longer than all the rest.
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")


def test_every_figure_of_a_notebook_is_shown():
    cells = executed(PICTURE, OWN_FIGURE, "plt.plot([3, 2, 1]);", PICTURE)
    assert [len(images(cell)) for cell in cells] == [1, 1, 1, 1]


# Examples


def code(path):
    return [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def kinds(cells):
    """What each cell shows, by its kind."""
    return [{kind for out in cell.outputs for kind in out.get("data", {})} for cell in cells]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_kept_without_its_outputs_and_can_be_read_in_minutes(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
    assert len(" ".join(cell.source for cell in notebook.cells).split()) < 1000


def test_a_csv_becomes_a_page(tmp_path):
    pytest.importorskip("shap", reason="the notebook explains a prediction")
    path = next(path for path in EXAMPLES if path.stem == "table_to_page")
    check = "assert scores['mae'] < 0.5 * abs(test['cnt'] - train['cnt'].mean()).mean()"
    honest = "assert scores['coverage'] > 0.8"
    cells = executed(*code(path), check, honest, folder=tmp_path)
    assert "<title>bikes on 300 hours</title>" in (tmp_path / "bikes.html").read_text("utf-8")
    assert (tmp_path / "bikes.model").exists()
    shown = [str(cell.outputs) for cell in cells]
    assert sum("<svg" in text for text in shown) == 2  # distributions, and an explanation
    assert sum("Fitted</caption>" in text for text in shown) == 1
    assert all("stderr" not in str(cell.outputs) for cell in cells)


def test_the_quantile_of_the_costs_is_the_cheapest_order(tmp_path):
    path = next(path for path in EXAMPLES if path.stem == "ordering_stock")
    least = "assert costs['quantile 0.8'] < 1.05 * costs.min()"
    saved = "assert costs['quantile 0.8'] < 0.85 * costs['mean']"
    honest = "assert 0.7 < covered < 0.9"
    cells = executed(*code(path), least, saved, honest, folder=tmp_path)
    assert kinds(cells)[-4] == {"text/plain", "text/html"}  # the table of costs
