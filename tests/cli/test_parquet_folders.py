"""Folders of Parquet files, learnt from and predicted in batches; one line for what is wrong."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from softbins import load
from softbins.tabular import parquet_table
from tests.cli.runs import QUICK, run, succeeds, table

pytestmark = pytest.mark.usefixtures("folder")
FIT = ["fit", "years", "--target", "y", "-o", "new.model", *QUICK, "--members", "2", "--no-trees"]


@pytest.fixture(autouse=True)
def years(folder):
    os.mkdir("years")
    for year in (1, 2):
        table().assign(year=year).to_parquet(f"years/{year}.parquet", index=False)
    return pd.concat([table(), table()], ignore_index=True)


def test_a_folder_is_learnt_from_within_some_memory():
    result = succeeds(*FIT, "--memory", "1MB", "--drop", "year", "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["features"], found["kinds"]) == (120, 2, {"number": 2})
    assert load("new.model").columns_.names == ["width", "height"]


def test_a_file_is_learnt_from_in_batches_if_memory_is_given():
    succeeds(*FIT[:1], "years/1.parquet", *FIT[2:], "--memory", "0.5mb")
    assert load("new.model").provenance_.rows == 60


def test_a_folder_is_predicted_in_batches(years, monkeypatch):
    monkeypatch.setattr(parquet_table, "BATCH_ROWS", 25)
    said = succeeds("predict", "some.model", "years", "-o", "p.parquet", "--keep", "year")
    assert said.stderr == "wrote 120 predictions to p.parquet\n"
    found = pd.read_parquet("p.parquet")
    assert found["year"].tolist() == [1] * 60 + [2] * 60
    expected = load("some.model").predict(years[["width", "height"]])
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-9)


WRONG = [
    ([*FIT, "--memory", "much"], "need a size such as 500MB or 1GB, got 'much'"),
    ([*FIT, "--memory", "1kB"], "memory: 1e-06 GB is too little for 120 targets and a block"),
    ([*FIT[:3], "z", *FIT[4:]], "years: no column 'z'"),
    ([*FIT, "--drop", "nothing"], "years: no column 'nothing'"),
    ([*FIT, "--sep", ";"], "--sep: has no meaning for Parquet in batches"),
    ([*FIT, "--group", "year"], "groups: is not taken with a Parquet table; leave it out"),
    ([*FIT, "--cluster", "tcp://a:1"], "--cluster: a folder is trained on this machine"),
    ([*FIT[:-1], "--objective", "l2"], "--objective: a folder is learnt with hl-gaussian"),
    (["predict", "some.model", "years", "-o", "p.csv"], "p.csv: predictions of a folder are"),
    (
        ["predict", "some.model", "years", "-o", "p.parquet", "--keep", "nothing"],
        "no column 'nothing'",
    ),
]


@pytest.mark.parametrize(("command", "error"), WRONG)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_left(command, error):
    before = sorted(os.listdir())
    result = run(*command)
    assert result.exit_code == 2
    assert error in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("command", [FIT, ["predict", "some.model", "years", "-o", "p.parquet"]])
def test_a_broken_file_is_named_and_nothing_is_left(command):
    with open("years/2.parquet", "r+b") as file:
        file.seek(4)
        file.write(bytes(500))
    before = sorted(os.listdir())
    result = run(*command)
    assert result.exit_code == 2
    assert result.stderr.startswith("softbins: years: ")
    assert "broken Parquet file" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == before
