"""One row on the command line: which words are fields, what is missing, and what is drawn."""

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor, NeuralRegressor, load
from tests.cli.runs import run, succeeds, table

pytestmark = pytest.mark.usefixtures("folder")


def shown(result):
    head = result.stdout.split("\n\n")[0]
    return dict(map(str.strip, line.split("  ", 1)) for line in head.splitlines())


def test_one_row_is_predicted_as_the_same_row_of_a_table():
    model, row = load("some.model"), pd.DataFrame({"width": [0.5], "height": [-1.25]})
    result = succeeds("predict", "some.model", "height=-1,25", "width=0.5", "--quantiles", "0.1")
    found = shown(result)
    assert list(found) == ["mean", "median", "90% interval", "quantile 0.1"]
    assert float(found["mean"]) == pytest.approx(model.predict(row)[0], rel=1e-3)
    low, high = map(float, found["90% interval"].split(" to "))
    assert [low, high] == pytest.approx(model.predict_interval(row, 0.9)[0], rel=1e-3)
    printed = succeeds("predict", "some.model", "width=0.5", "height=-1.25", "-o", "-").stdout
    assert float(printed.split()[1]) == model.predict(row)[0]
    assert result.stderr == ""


def test_fields_that_are_not_given_are_gaps_and_said():
    frame = table().assign(height=lambda d: d["height"].where(d.index % 5 > 0))
    frame.to_csv("gaps.csv", index=False)
    result = succeeds("predict", "some.model", "width=0.5")
    assert result.stderr == "not given, and taken for gaps: height\n"
    expected = load("some.model").predict(pd.DataFrame({"width": [0.5], "height": [np.nan]}))
    assert float(shown(result)["mean"]) == pytest.approx(expected[0], rel=1e-3)


def test_other_fields_or_an_option_say_what_a_point_means():
    one = succeeds("predict", "some.model", "width=1.200", "height=0.5")
    assert one.stdout == succeeds("predict", "some.model", "width=1.2", "height=0.5").stdout
    fields = ["width=1.200", "height=2"]
    many = succeeds("predict", "some.model", *fields, "--decimal", ",")
    assert many.stdout == succeeds("predict", "some.model", "width=1200", "height=2").stdout


def test_a_category_that_is_new_is_said():
    frame = table().assign(town=["Köln", "Bonn"] * 30, code=pd.Categorical([7, 3.5] * 30))
    model = NeuralRegressor("l2", (8,), max_epochs=1, random_state=0)
    model.fit(frame[["town", "code"]], frame["y"]).save("towns.model")
    result = succeeds("predict", "towns.model", "town=Koln", "code=8")
    assert result.stderr.splitlines() == [
        "town: 'Koln' is no category that the model knows (did you mean 'Köln'?)",
        "code: '8' is no category that the model knows",
    ]
    assert succeeds("predict", "towns.model", "town=Bonn", "code=7").stderr == ""


def test_a_model_of_few_rows_has_intervals(folder):
    frame = table(5)
    how = {"hidden": (8,), "bins": 20, "max_epochs": 1, "random_state": 0}
    HistogramRegressor(**how).fit(frame[["width"]], frame["y"]).save("few.model")
    assert "90% interval" in shown(succeeds("predict", "few.model", "width=0.5"))
    found = shown(succeeds("predict", "few.model", "width=1", "--interval", 0.5, "--raw"))
    assert "50% interval, raw" in found


def test_a_model_of_numbers_has_a_mean_and_no_density():
    assert list(shown(succeeds("predict", "l2.model", "width=1", "height=1"))) == ["mean"]


WRONG = [
    (
        ["widht=80", "height=1"],
        "no column 'widht' (did you mean 'width'?); the model needs ",
    ),
    (["width=wide", "height=1"], "width: 'wide' is not a number\n"),
    (["width=1,234", "height=1"], "width: '1,234' may mean 1234 or 1.234: give --decimal , or"),
    (
        ["width=€ 1.200", "height=2"],
        "width: '€ 1.200' may mean € 1200 or € 1.200: give --decimal , or",
    ),
    (["width=1", "width=2"], "'width' is given twice; need each field once, such as size=80"),
    (["=1"], "a field has no name; need each field once"),
    (["new.csv", "width=1"], "'new.csv': need one table, or fields such as size=80 alone"),
    (["new.csv"], "Missing option '-o'."),
    ([], "Missing argument 'DATA'."),
]


@pytest.mark.parametrize(("words", "line"), WRONG)
def test_what_is_wrong_with_a_field_is_one_line(words, line):
    refused = run("predict", "some.model", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"softbins: {line}")
    assert refused.stderr.count("\n") == 1


def test_a_file_with_an_equals_sign_is_a_file(folder):
    (folder / "a=b.csv").write_bytes((folder / "new.csv").read_bytes())
    assert len(succeeds("predict", "some.model", "a=b.csv", "-o", "-").stdout.split()) == 61


def test_fields_need_names():
    x, y = table()[["width", "height"]].to_numpy(), table()["y"]
    NeuralRegressor("l2", (8,), max_epochs=1).fit(x, y).save("nameless.model")
    refused = run("predict", "nameless.model", "width=1")
    assert "the model was trained without names of columns; give it a table" in refused.stderr
