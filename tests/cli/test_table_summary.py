"""What `softbins look` shows of a table."""

import json

import numpy as np
import pandas as pd

from tests.cli.runs import succeeds


def odd_table(rows=60):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"": range(rows), "row": range(1, rows + 1), "same": 1.5})
    frame["name"] = [f"person {i}" for i in range(rows)]
    frame["code"], frame["empty"] = random.integers(1, 5, rows), ""
    frame["mixed"] = ["x", "y", "z", "4", "u"] * (rows // 5)
    frame["gaps"] = [1.5, None, None] * (rows // 3)
    frame["day"], frame["time"] = "2024-01-31", ["12:30", "23:15"] * (rows // 2)
    frame["doubt"], frame["slip"] = "01/02/2024", ["1", "2", "three"] * (rows // 3)
    frame["rate"] = [f"{value:.1f}%" for value in random.uniform(0, 9, rows)]
    return frame.assign(price=np.exp(random.normal(0, 3, rows)).round(3))


REMARKS = {
    "row": ("number", "counts the rows: an index?"),
    "same": ("number", "always the same"),
    "name": ("ignored", "left out: has another text in nearly every row"),
    "code": ("number", "few whole numbers: a code?"),
    "empty": ("empty", "nothing but gaps"),
    "mixed": ("category", "20% of the words are numbers"),
    "gaps": ("number", "always the same"),
    "day": ("date", "always the same"),
    "time": ("time", "hour:minute"),
    "doubt": ("refused", "row 1: '01/02/2024' may be 2024-01-02 or 2024-02-01"),
    "slip": ("refused", "row 3: 'three' is not a number"),
    "rate": ("number", "% left off"),
    "price": ("target", "far from even: median "),
}


def test_every_column_has_a_line_and_odd_ones_a_remark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd_table().to_csv("t.csv", index=False)
    result = succeeds("look", "t.csv", "--target", "price", "--json")
    found = {line["column"]: line for line in json.loads(result.stdout)}
    assert list(found) == list(REMARKS)
    for name, (taken_for, remark) in REMARKS.items():
        assert found[name]["taken_for"] == taken_for, name
        assert found[name]["remark"].startswith(remark), name
    assert (found["gaps"]["gaps"], found["gaps"]["distinct"]) == (40, 1)
    assert "left out the first column, which has no name, as an index" in result.stderr


def test_the_table_fits_a_terminal_and_needs_no_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = odd_table().rename(columns={"code": "a name that is much longer than a name should be"})
    frame.to_csv("t.csv", index=False)
    lines = succeeds("look", "t.csv").stdout.splitlines()
    assert sum(not line.startswith(" ") for line in lines) == 1 + len(REMARKS)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["column", "taken", "for", "distinct", "gaps", "remark"]
    assert any(line.startswith("a name that …e should be") for line in lines)
    words = " ".join("\n".join(lines).split())
    assert "no other cell tells which; write dates as 2024-01-02" in words  # the way out is whole


def test_before_a_training_long_lists_are_cut(tmp_path):
    from softbins.cli.table_summary import ColumnSummary, summary_text

    many = [ColumnSummary(f"c{i}", "number", 5, 0, "") for i in range(100)]
    assert summary_text(many, limit=40).splitlines()[-1] == (
        "and 60 more columns; softbins look lists all"
    )
    assert len(summary_text(many).splitlines()) == 101
