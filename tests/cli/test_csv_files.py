"""CSV as people write it: the same numbers come out, or a question, never other numbers."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from softbins.cli.reading import Reading
from softbins.cli.table_columns import TableColumns
from softbins.cli.table_files import TableError, read_table
from tests.cli.dialects import Dialect, Written, written_tables

QUIETLY = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PLAIN = Dialect(",", ".", "", False, "utf-8", "\n")


def numbers_in(path, reading):
    table = read_table(path, reading)
    columns = TableColumns(table, reading.decimal)
    return {
        name: [None if np.isnan(value) else value for value in columns.take(name).values]
        for name in table.frame.columns
    }


def write(folder, written):
    path = folder / "t.csv"
    path.write_bytes(written.content)
    return path


@QUIETLY
@example(Written(b"a;b\n1;1.234\n2;2.500\n", PLAIN, {"a": [1, 2], "b": [1234, 2500]}))
@example(Written(b'a,b\n1,"1,234"\n', PLAIN, {"a": [1], "b": [1234]}))
@example(Written(b"a;b\n1,5;1.234\n", PLAIN, {"a": [1.5], "b": [1234]}))
@given(written=written_tables())
def test_a_file_in_any_dialect_is_the_same_numbers_or_a_question(tmp_path, written):
    question, found = "", None
    try:
        found = numbers_in(write(tmp_path, written), Reading())
    except TableError as error:
        question = str(error)
    assert found == written.columns or "give --" in question


@QUIETLY
@given(written=written_tables())
def test_whoever_names_the_marks_is_asked_nothing(tmp_path, written):
    reading = Reading(sep=written.dialect.sep, decimal=written.dialect.decimal)
    assert numbers_in(write(tmp_path, written), reading) == written.columns


# Two cells of one column beside others, and what they are: numbers, or None for a question.
SEVERAL = {
    "commas beside decimal points": ('a,b\n"3,504",1.5\n"1,200",2.5\n', [3504, 1200]),
    "commas beside decimal commas": ("a;b\n3,504;1,5\n1,200;2,5\n", [3.504, 1.2]),
    "points beside decimal commas": ("a;b\n3.504;1,5\n1.200;2,5\n", [3504, 1200]),
    "points beside decimal points": ("a;b\n3.504;1.5\n1.200;2.5\n", [3.504, 1.2]),
    "points where commas separate": ("a,b\n3.504,1\n1.200,2\n", [3.504, 1.2]),
    "commas alone": ("a;b\n3,504;1\n1,200;2\n", None),
    "points alone": ("a;b\n3.504;1\n1.200;2\n", None),
    "quoted commas alone": ('a,b\n"3,504",1\n"1,200",2\n', None),
    "points beside quoted decimal commas": ('a,b\n3.504,"1,5"\n1.200,"2,5"\n', None),
    "zero before the mark": ("a;b\n0,504;1\n1,200;2\n", [0.504, 1.2]),
    "four digits before the mark": ("a;b\n3504,200;1\n1,200;2\n", [3504.2, 1.2]),
    "a million": ("a;b\n3,504,000;1\n1,200;2\n", [3504000, 1200]),
    "auto": ('a,b\n"307,0",1.5\n"130,5",2.5\n', [307, 130.5]),
    "spaces": ("a;b\n3 504,5;1\n1 200;2\n", [3504.5, 1200]),
    "exponents": ("a;b\n3,5e2;1\n-1,2E-1;2\n", [350, -0.12]),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_other_cells_tell_what_a_mark_means(tmp_path, case):
    text, expected = SEVERAL[case]
    (tmp_path / "t.csv").write_text(text)
    if expected is not None:
        assert numbers_in(tmp_path / "t.csv", Reading())["a"] == expected
        return
    with pytest.raises(TableError, match=r"^column 'a': '3.504' may mean 3504 or 3\.504; give --d"):
        numbers_in(tmp_path / "t.csv", Reading())
    for decimal, number in [(".", 3504), (",", 3.504)]:
        mark = "," if "3,504" in text else "."
        found = numbers_in(tmp_path / "t.csv", Reading(decimal=decimal))["a"][0]
        assert found == (number if mark == "," else {3504: 3.504, 3.504: 3504}[number])


# A file, and the frame that it is: what is recognised besides the decimal mark.
RECOGNISED = {
    "a byte order mark": (b"\xef\xbb\xbfa,b\r\n1, 2\r\n\r\n3,4\r\n", [1, 3], [2, 4]),
    "Excel's first line": (b"sep=;\na;b\n1;2\n", [1], [2]),
    "spaces after separators": (b'a, b\n1, "x, y"\n2, z\n', [1, 2], ["x, y", "z"]),
    "single quotes": (b"'a';'b'\n1;'x;y'\n", [1], ["x;y"]),
    "a header in quotes": (b'"a","b"\n1,2\n', [1], [2]),
    "carriage returns alone": (b"a,b\r1,2\r3,4\r", [1, 3], [2, 4]),
    "an empty last column": (b"a;b;\n1;2;\n", [1], [2]),
    "an inch": (b'a,b\n1,5" pipe\n', [1], ['5" pipe']),
    "lines in a cell": (b'a,b\n1,"two\nlines"\n', [1], ["two\nlines"]),
    "a blank line first": (b"\na,b\n1,2\n", [1], [2]),
    "hexadecimal text": (b"a,b\nx,0x10\ny,0x11\n", ["x", "y"], ["0x10", "0x11"]),
    "times": (b"a,b\n1,12:30\n", [1], ["12:30"]),
}


@pytest.mark.parametrize("case", RECOGNISED)
def test_what_a_sample_shows(tmp_path, case):
    content, a, b = RECOGNISED[case]
    (tmp_path / "t.csv").write_bytes(content)
    frame = read_table(tmp_path / "t.csv").frame
    assert frame.to_dict("list") == {"a": a, "b": b}


def test_labels_keep_their_text_if_they_are_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1.50,2\nNA,3\n")
    assert read_table(tmp_path / "t.csv", text_columns=["a"]).frame["a"].tolist() == ["1.50", "NA"]
    assert read_table(tmp_path / "t.csv").frame["a"].isna().tolist() == [False, True]


def test_a_large_file_shows_how_far_it_is(tmp_path, monkeypatch):
    from contextlib import contextmanager

    shares = []

    @contextmanager
    def bar(title):
        yield lambda share, text, seconds: shares.append((share, text))

    monkeypatch.setattr("softbins.cli.csv_files.MIN_BYTES_FOR_PROGRESS", 1000)
    monkeypatch.setattr("softbins.cli.csv_files.progress_bar", bar)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 1_000_000)
    assert len(read_table(tmp_path / "t.csv").frame) == 1_000_000
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert shares[-1] == (1.0, "reading")


def test_a_column_may_change_its_type_far_down(tmp_path):
    rows = ["1,1.5,true,,1.50"] * 200_000 + ["2.5,x,perhaps,7,y"]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e", *rows]))
    frame = read_table(tmp_path / "t.csv").frame
    assert frame.iloc[-1].tolist() == [2.5, "x", "perhaps", 7.0, "y"]
    assert frame.iloc[0, [0, 1, 2, 4]].tolist() == [1.0, "1.5", "true", "1.50"]
    assert frame["d"].isna().sum() == 200_000
