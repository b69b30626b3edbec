"""Excel workbooks (.xlsx) as tables: one sheet, with names in its first row that is not empty."""

from __future__ import annotations

import warnings
import zipfile
from decimal import Decimal
from typing import IO, Any

from softbins._core.extras import optional_import
from softbins.cli.csv_files import UNNAMED, check_names
from softbins.cli.reading import Reading, Table
from softbins.cli.table_errors import TableError

# Of files in the container of old Excel files, which also holds what a password protects.
OLD_CONTAINER = b"\xd0\xcf\x11\xe0"
ENCRYPTED_PART = "EncryptedPackage".encode("utf-16-le")


def read_excel(file: IO[bytes], reading: Reading) -> Table:
    """The table in a workbook, whose sheet has to be named if there are several."""
    _check_container(file)
    with warnings.catch_warnings():
        # About styles and extensions that do not matter here.
        warnings.simplefilter("ignore")
        try:
            book = optional_import("openpyxl", "excel").load_workbook(
                file, read_only=True, data_only=True
            )
        except (zipfile.BadZipFile, KeyError) as error:
            raise TableError(f"broken Excel file ({error})") from error
        rows = [[_cell(cell) for cell in row] for row in _sheet(book, reading.sheet).iter_rows()]
    rows = [row for row in rows if any(value is not None for value in row)]
    if not rows:
        raise TableError("the sheet is empty; need a header and at least one row")
    return Table(_frame(rows), point_by_default=False)


def _check_container(file: IO[bytes]) -> None:
    start = file.read(len(OLD_CONTAINER))
    if start == OLD_CONTAINER:
        if ENCRYPTED_PART in file.read():
            raise TableError("protected by a password; save it without one")
        raise TableError("an Excel file of the old kind; save it as .xlsx")
    file.seek(0)


def _sheet(book: Any, name: str | None) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if name is not None:
        if name not in sheets:
            listed = ", ".join(map(repr, sheets))
            raise TableError(f"no sheet {name!r}; --sheet may be {listed}")
        return sheets[name]
    visible = [sheet for sheet in sheets.values() if sheet.sheet_state == "visible"]
    if len(visible) != 1:
        listed = ", ".join(repr(sheet.title) for sheet in visible)
        raise TableError(f"the workbook has the sheets {listed}; name one with --sheet")
    return visible[0]


def _cell(cell: Any) -> Any:
    """What a cell shows: 12.5 where it shows 12.5%, although the file says 0.125."""
    value = cell.value
    if value is None or cell.data_type == "e" or (isinstance(value, str) and not value.strip()):
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and "%" in (cell.number_format or ""):
        return float(Decimal(repr(value)).scaleb(2))
    return value


def _frame(rows: list[list[Any]]) -> Any:
    pandas = optional_import("pandas")
    width = max(max(i + 1 for i, value in enumerate(row) if value is not None) for row in rows)
    header, *body = ([*row, *[None] * width][:width] for row in rows)
    names = ["" if name is None else str(name).strip() for name in header]
    check_names([name for name in names if name])
    columns = zip(*body, strict=True) if body else [()] * width
    return pandas.DataFrame(
        {
            name or f"{UNNAMED}{i}": pandas.Series(list(values), dtype=object).infer_objects()
            for i, (name, values) in enumerate(zip(names, columns, strict=True))
        }
    )
