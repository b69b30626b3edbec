"""Excel workbooks: which sheet is read, what its cells are, and what is refused."""

import datetime

import openpyxl
import pytest

from softbins.cli.reading import Reading
from softbins.cli.table_columns import TableColumns
from softbins.cli.table_files import TableError, read_table


def workbook(path, sheets, percent=()):
    """Write rows to sheets by name; cells whose address is in `percent` show percents."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        for address in percent:
            sheet[address].number_format = "0.0%"
    book.save(path)
    return path


def numbers(path, name):
    return TableColumns(read_table(path)).take(name).values.tolist()


def test_cells_are_what_they_show(tmp_path):
    rows = [
        [],
        ["size", "rate", "town", None],
        [80, 0.07, "A", None],
        ["€ 1.250,50", 0.125, "#N/A", None],
        [],
    ]
    path = workbook(tmp_path / "t.xlsx", {"one": rows}, percent=["B3", "B4"])
    assert list(read_table(path).frame.columns) == ["size", "rate", "town"]
    assert numbers(path, "size") == [80, 1250.5]
    # A file of text would say 7% and 12.5%, which are 7 and 12.5.
    assert numbers(path, "rate") == [7, 12.5]
    assert read_table(path).frame["town"].isna().tolist() == [False, True]


def test_what_is_typed_as_text_may_be_doubtful(tmp_path):
    path = workbook(tmp_path / "t.xlsx", {"one": [["a", "b"], ["1.234", 1], ["2.500", 2]]})
    with pytest.raises(TableError, match=r"'1\.234' may mean 1234 or 1\.234; give --decimal"):
        numbers(path, "a")


def test_dates_are_dates(tmp_path):
    path = workbook(tmp_path / "t.xlsx", {"one": [["day"], [datetime.date(2020, 1, 31)]]})
    found = TableColumns(read_table(path)).take("day")
    assert (found.kind, str(found.values[0])) == ("date", "2020-01-31 00:00:00")


def test_the_sheet_has_to_be_named_if_there_are_several(tmp_path):
    sheets = {"sold": [["a"], [1]], "left": [["a"], [2]]}
    path = workbook(tmp_path / "t.xlsx", sheets)
    with pytest.raises(TableError, match="has the sheets 'sold', 'left'; name one with --sheet"):
        read_table(path)
    assert read_table(path, Reading(sheet="left")).frame["a"].tolist() == [2]
    with pytest.raises(TableError, match="no sheet 'Left'; --sheet may be 'sold', 'left'"):
        read_table(path, Reading(sheet="Left"))
    book = openpyxl.load_workbook(path)
    book["left"].sheet_state = "hidden"
    book.save(path)
    assert read_table(path).frame["a"].tolist() == [1]


CONTAINER = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
REFUSED = [
    (CONTAINER + "EncryptedPackage".encode("utf-16-le"), "protected by a password; save it with"),
    (CONTAINER, "an Excel file of the old kind; save it as .xlsx"),
    (b"a,b\n1,2\n", "broken Excel file (File is not a zip file)"),
    (b"PK\x03\x04 and no more", "broken Excel file ("),
]


@pytest.mark.parametrize(("content", "line"), REFUSED)
def test_what_is_no_workbook_is_refused_with_one_line(tmp_path, content, line):
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(TableError) as caught:
        read_table(tmp_path / "t.xlsx")
    assert str(caught.value).startswith(f"{tmp_path / 't.xlsx'}: {line}")


def test_an_empty_sheet_and_a_header_alone_are_refused(tmp_path):
    with pytest.raises(TableError, match="the sheet is empty"):
        read_table(workbook(tmp_path / "t.xlsx", {"one": []}))
    with pytest.raises(TableError, match="no rows below the header"):
        read_table(workbook(tmp_path / "t.xlsx", {"one": [["a", "b"]]}))
    with pytest.raises(TableError, match="duplicate column name 'a'"):
        read_table(workbook(tmp_path / "t.xlsx", {"one": [["a", "a"], [1, 2]]}))
