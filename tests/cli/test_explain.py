"""`softbins explain`: what is printed, drawn and written is what the library explains."""

import json

import numpy as np
import pandas as pd
import pytest

from softbins import NeuralRegressor, load
from tests.cli.runs import FIT, houses, run, succeeds, table

pytest.importorskip("shap", reason="explanations need the extra softbins[explain]")
pytestmark = pytest.mark.usefixtures("folder")


def test_a_row_is_explained_in_the_terminal(folder):
    shown = succeeds("explain", "some.model", "new.csv", "--row", "3").stdout
    rows = table().drop(columns="y")
    found = load("some.model").explain(rows[2:3], rows)
    assert shown == f"row 3\n{found.to_text()}\n"


def test_tables_pictures_and_json_say_the_same(folder):
    asked = ["explain", "some.model", "new.csv", "--row", "2", "--row", "5", "--coverage", "0.8"]
    shown = json.loads(succeeds(*asked, "-o", "c.csv", "--plot", "c.svg", "--json").stdout)
    written = pd.read_csv("c.csv")
    assert written["row"].tolist() == [2, 2, 5, 5]
    assert [each["mean"] for each in shown["contributions"]] == written["mean"].tolist()
    model, rows = load("some.model"), table()[["width", "height"]]
    total = shown["base_mean"] + written.groupby("row")["mean"].sum()
    np.testing.assert_allclose(total, model.predict(rows.iloc[[1, 4]]))
    assert shown["coverage"] == 0.8
    found = model.explain(rows.iloc[[1, 4]], rows, coverage=0.8)
    assert (folder / "c.svg").read_text() == found.to_svg(0)


def test_other_rows_may_be_the_background():
    rows = table().drop(columns="y")
    rows[20:].to_csv("other.csv", index=False)
    shown = succeeds("explain", "paper.model", "new.csv", "--background", "other.csv").stdout
    assert shown == f"row 1\n{load('paper.model').explain(rows[:1], rows[20:]).to_text()}\n"


def test_a_model_without_names_of_columns_is_explained():
    rows = table()
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2, random_state=0)
    model.fit(rows[["width", "height"]].to_numpy(), rows["y"]).save("plain.model")
    shown = succeeds("explain", "plain.model", "new.csv", "--row", "2").stdout
    assert f"x0 = {rows['width'][1]:.4g}" in shown


def test_values_are_those_of_the_file():
    houses().to_csv("houses.csv", index=False)
    succeeds("fit", "houses.csv", *FIT[2:])
    shown = succeeds("explain", "new.model", "houses.csv", "--row", "4", "-o", "c.parquet").stdout
    assert "size = missing" in shown
    assert "sold = False" in shown
    assert "town = missing" in shown or "town = NA" in shown
    assert "code = 1.50" in shown
    assert len(pd.read_parquet("c.parquet")) == 6


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--row", "61"], "--row: new.csv has 60 rows, got 61"),
        (["--row", "0"], "--row"),
        (["--plot", "c.png"], "ends in .svg"),
        (["-o", "c.txt"], "c.txt"),
        (["-o", "new.csv"], "is read as well"),
        (["--background", "misspelt.csv"], "misspelt.csv"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(arguments, part, folder):
    before = sorted(path.name for path in folder.iterdir())
    result = run("explain", "some.model", "new.csv", *arguments)
    assert result.exit_code == 2
    assert part in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before
