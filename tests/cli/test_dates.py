"""Tables with dates and names on the command line, from `look` to `explain`."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.runs import QUICK, run, succeeds

pytestmark = pytest.mark.filterwarnings("always:X. column")
HOW = [*QUICK, "--members", "2", "--no-trees"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day = pd.Series(pd.date_range("2024-01-31", periods=80, freq="31h"))
    frame = pd.DataFrame({"day": day.dt.strftime("%d.%m.%Y"), "at": day.dt.strftime("%H:%M")})
    frame = frame.assign(name=[f"person {i}" for i in range(80)], price=np.arange(80.0))
    frame.to_csv("t.csv", index=False)
    frame.drop(columns="name").assign(day=day).to_parquet("t.parquet")
    return tmp_path


@pytest.mark.slow
def test_all_commands_take_dates(folder):
    found = succeeds("fit", "t.csv", "--target", "price", "-o", "m", *HOW, "--json")
    assert json.loads(found.stdout)["kinds"] == {"date": 1, "time": 1, "ignored": 1}
    assert "warning: X: column 'name' has another text in nearly every row" in found.stderr
    about = succeeds("info", "m").stdout
    assert "2024-01-31 to 2024-05-12, as elapsed days, day, weekday" in " ".join(about.split())
    first = succeeds("predict", "m", "t.csv", "-o", "-").stdout
    # Real dates, and no names.
    assert len(first.splitlines()) == 81
    day_of_text = pd.read_parquet("t.parquet").assign(day=lambda x: x["day"].dt.floor("D"))
    day_of_text.to_parquet("t.parquet")
    assert succeeds("predict", "m", "t.parquet", "-o", "-").stdout == first
    row = succeeds("predict", "m", "day=1.2.2024", "at=12:30")
    assert "not given" not in row.stderr
    page = succeeds("evaluate", "m", "t.csv", "--page", "p.html")
    assert page.exit_code == 0
    assert "2024-01-31" in (folder / "p.html").read_text()
    assert "day = 01.02.2024" in succeeds("explain", "m", "t.csv", "--row", "2").stdout


def test_a_wrong_date_is_one_line(folder):
    succeeds("fit", "t.csv", "--target", "price", "-o", "m", *HOW)
    refused = run("predict", "m", "day=soon", "at=12:30")
    assert refused.exit_code == 2
    assert "'soon' is no date as in training, which had day.month.year" in refused.stderr
    refused = run("export", "m", "m.onnx")
    assert refused.exit_code == 2
    assert "column 'day': holds dates, which ONNX cannot take apart" in refused.stderr
