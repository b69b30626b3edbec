"""Ordinary tables, as they lie on people's disks, from the file to a prediction."""

import json
import math
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from softbins import load
from softbins.cli.inputs import read_training_data
from softbins.cli.reading import Reading
from softbins.tabular.columns import Columns
from softbins.tabular.dates import moment_text
from tests.cli.runs import QUICK, run, succeeds

HOW = [*QUICK, "--members", "2", "--no-trees"]
TOWNS = ["Köln", "Bonn", "Ulm"]


def flats(rows=40):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"Größe": random.uniform(20, 150, rows).round(1)})
    frame["Stadt"] = random.choice(TOWNS, rows)
    frame["Zins"] = random.uniform(1, 9, rows).round(2)
    return frame.assign(Preis=(3000 * frame["Größe"] + random.normal(0, 1e4, rows)).round(2))


def german(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def european_csv(folder):
    """Semicolons, decimal commas, points between thousands, Windows' letters, a date."""
    frame = flats().map(lambda v: v if isinstance(v, str) else german(v)).assign(Tag="31.01.2024")
    frame["Zins"] += " %"
    frame.to_csv(folder / "t.csv", sep=";", index=False, encoding="cp1252")
    return folder / "t.csv"


def excel_export(folder):
    """Row numbers in a column without a name, and amounts typed with a euro sign."""
    frame = flats().assign(Tag=pd.Timestamp("2024-01-31"))
    frame["Preis"] = [f"€ {german(value)}" for value in frame["Preis"]]
    frame.to_excel(folder / "t.xlsx")
    return folder / "t.xlsx"


def latin1_tsv(folder):
    """Tabs, Latin-1, and rows whose target is not known."""
    frame = flats().assign(Tag="2024-01-31").astype({"Preis": object})
    gaps = pd.DataFrame({"Größe": [90.0] * 3, "Preis": ["NA", "", "NaN"], "Stadt": "Ulm"})
    pd.concat([frame, gaps]).to_csv(folder / "t.tsv", sep="\t", index=False, encoding="latin-1")
    return folder / "t.tsv"


# How each is written, and what is said about it.
TABLES = {
    european_csv: [
        "read with cells separated by ';', text in Latin-1 (Windows-1252)",
        "text read as numbers: decimal comma in 'Größe', 'Zins', 'Preis'; % left off in 'Zins'; "
        "thousands grouped in 'Preis'",
    ],
    excel_export: [
        "left out the first column, which has no name, as an index",
        "text read as numbers: € left off in 'Preis'; decimal comma in 'Preis'; thousands grouped "
        "in 'Preis'",
    ],
    latin1_tsv: [
        "read with cells separated by tabs, text in Latin-1 (Windows-1252)",
        "left out 3 of 43 rows, which have no target 'Preis'",
    ],
}


@pytest.mark.parametrize("write", TABLES)
def test_an_ordinary_table_goes_in(tmp_path, capsys, write):
    path, expected = write(tmp_path), flats()
    x, y, _ = read_training_data(path, "Preis", Reading(drop=("Tag",)))
    assert y.tolist() == expected["Preis"].tolist()
    assert x.astype(object).to_dict("list") == expected.drop(columns="Preis").to_dict("list")
    assert capsys.readouterr().err.splitlines() == [f"{path}: {line}" for line in TABLES[write]]


@pytest.mark.parametrize("write", TABLES)
def test_dates_are_taken_as_people_write_them(tmp_path, write, capsys):
    x, _, summary = read_training_data(write(tmp_path), "Preis")
    assert {line.column: line.taken_for for line in summary}["Tag"] == "date"
    (encoder,) = Columns.fit(x[["Tag"]]).encoders
    assert moment_text(encoder.low) == moment_text(encoder.high) == "2024-01-31"


def test_all_problems_come_with_the_option_that_leaves_them_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,"b, c",d,e,y\n2020-01-01,1,inf,"1,234",1\n2020-01-02,x,2,"2,345",2\n')
    refused = run("fit", path, "--target", "y", "-o", tmp_path / "m")
    assert refused.stderr == (
        f"softbins: {path}: 3 columns cannot be taken: 'b, c' (row 2: 'x' is not a "
        "number), 'd' (row 1: 'inf' is not finite), 'e' ('1,234' may mean 1234 or 1.234: give "
        "--decimal , or --decimal .); mend them, or leave them out: --drop '\"b, c\",d,e'\n"
    )
    refused = run("fit", path, "--target", "y", "-o", tmp_path / "m", "--drop", 'a,"b, c",d,e')
    assert "no columns besides the target 'y'" in refused.stderr


def test_a_model_reads_new_tables_in_the_way_it_was_taught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    european_csv(tmp_path)
    succeeds("fit", "t.csv", "--target", "Preis", "-o", "m", "--drop", "Tag", *HOW)
    first = succeeds("predict", "m", "t.csv", "-o", "-").stdout
    # The same rows as programs write them: a rate of 3,50 % is 3.5.
    flats().to_csv("plain.csv", index=False)
    assert succeeds("predict", "m", "plain.csv", "-o", "-").stdout == first
    excel_export(tmp_path)
    assert succeeds("predict", "m", "t.xlsx", "-o", "-").stdout == first
    row = flats().iloc[0]
    fields = [f"Größe={german(row['Größe'])}", f"Stadt={row['Stadt']}", f"Zins={row['Zins']}%"]
    one = succeeds("predict", "m", *fields, "-o", "-").stdout
    assert float(one.split()[1]) == pytest.approx(float(first.split()[1]), rel=1e-6)
    shown = json.loads(succeeds("evaluate", "m", "t.csv", "--target", "Preis", "--json").stdout)
    expected = np.abs(load("m").predict(flats().drop(columns="Preis")) - flats()["Preis"]).mean()
    assert shown["mae"] == pytest.approx(expected)


def test_predictions_carry_columns_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flats().to_csv("t.csv", index=False)
    succeeds("fit", "t.csv", "--target", "Preis", "-o", "m", *HOW)
    succeeds("predict", "m", "t.csv", "-o", "p.csv", "--keep", "Stadt,Preis", "--interval", "0.8")
    kept = pd.read_csv("p.csv")
    assert list(kept.columns) == ["Stadt", "Preis", "prediction", "low_0.8", "high_0.8"]
    assert kept[["Stadt", "Preis"]].equals(flats()[["Stadt", "Preis"]])
    shares = []
    bar = nullcontext(lambda share, *_: shares.append(share))
    monkeypatch.setattr("softbins.cli.commands.predict.progress_bar", lambda _: bar)
    monkeypatch.setattr("softbins.cli.commands.predict.ROWS_AT_A_TIME", 7)
    succeeds("predict", "m", "t.csv", "-o", "q.csv", "--keep", "Stadt,Preis", "--interval", "0.8")
    pd.testing.assert_frame_equal(pd.read_csv("q.csv"), kept, rtol=1e-9)
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (math.ceil(len(kept) / 7), 1.0)
    succeeds("predict", "m", "t.csv", "-o", "p.csv", "--keep-all")
    assert list(pd.read_csv("p.csv").columns) == [*flats().columns, "prediction"]
    for wrong, line in [
        (["--keep", "stadt"], "t.csv: no column 'stadt' (did you mean 'Stadt'?)"),
        (["--keep", "Stadt", "--keep-all"], "--keep: has no meaning with --keep-all"),
    ]:
        assert line in run("predict", "m", "t.csv", "-o", "p.csv", *wrong).stderr
    succeeds("predict", "m", "p.csv", "-o", "q.csv")
    refused = run("predict", "m", "p.csv", "-o", "q.csv", "--keep-all")
    assert "'prediction' is a column of the result" in refused.stderr


def test_features_can_be_chosen(tmp_path):
    flats().to_csv(tmp_path / "t.csv", index=False)
    x, _, summary = read_training_data(
        tmp_path / "t.csv", "Preis", Reading(features=("Zins", "Stadt"))
    )
    assert list(x.columns) == ["Zins", "Stadt"]
    assert [line.column for line in summary] == ["Zins", "Stadt", "Preis"]
