"""A folder with tables and models for the commands.

The commands of the paper are tested with the same small store and scale as the paper itself.
"""

import pytest

from softbins import HistogramRegressor, NeuralRegressor
from tests.cli.runs import table
from tests.paper.conftest import scale, store

__all__ = ["scale", "store"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Fitted models: for tables, as in the paper, and one that predicts numbers only."""
    folder, frame = tmp_path_factory.mktemp("models"), table()
    how = {"hidden": (8,), "bins": 20, "max_epochs": 3, "random_state": 0}
    models = {
        "some.model": HistogramRegressor(members=2, **how),
        "paper.model": NeuralRegressor(**how),
        "l2.model": NeuralRegressor("l2", **how),
    }
    for name, model in models.items():
        model.fit(frame[["width", "height"]], frame["y"]).save(folder / name)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, models):
    """A folder to work in, with a table to learn from, models, and a few broken tables."""
    monkeypatch.chdir(tmp_path)
    for path in models.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table().to_csv("data.csv", index=False)
    table().drop(columns="y").to_csv("new.csv", index=False)
    (tmp_path / "words.csv").write_text("width,height,y\n1,2,3\n1,tall,3\n")
    (tmp_path / "infinite.csv").write_text("width,height,y\n1,2,3\n1,inf,3\n")
    (tmp_path / "dates.csv").write_text("width,day,y\n1,01/02/2020,3\n1,03/04/2020,3\n")
    (tmp_path / "gaps.csv").write_text("width,height,y\n1,2,3\n1,2,\n")
    (tmp_path / "misspelt.csv").write_text("widht,height\n1,2\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "text.model").write_text("not a model")
    return tmp_path
