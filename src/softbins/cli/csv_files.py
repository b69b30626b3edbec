"""CSV files as tables: columns that are numbers throughout are numbers, all others keep their text.

A column in which a point may group thousands (1.234) keeps its text as well, unless a comma
separates the cells: what is meant is decided where all columns are known.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

import numpy as np

from softbins._core.extras import optional_import
from softbins.cli.dialect import Dialect, recognised_dialect
from softbins.cli.opened_input import BLOCK, OpenedInput
from softbins.cli.progress import progress_bar
from softbins.cli.reading import COMMA, POINT, Reading, Table
from softbins.cli.table_errors import TableError
from softbins.tabular.frames import MISSING_WORDS

GAPS = sorted({form(w) for w in MISSING_WORDS for form in (str, str.upper, str.title)} | {"NaN"})
# Files that take a moment show how far they are.
MIN_BYTES_FOR_PROGRESS = 20_000_000
# The type of text that pandas takes without a copy.
TEXT = "large_string"
# The types that columns of a file have, and what each becomes if a cell does not have it.
WIDER = {"int64": "double", "double": TEXT, "bool": TEXT, TEXT: TEXT}
# Takes the place of a name that is missing. No text that a file can hold starts so.
UNNAMED = "\0"


def read_csv(opened: OpenedInput, reading: Reading, text_columns: Sequence[str]) -> Table:
    """The table in a CSV file; `text_columns` keep their text whatever it is."""
    if opened.name.endswith(".tsv") and reading.sep is None:
        reading = replace(reading, sep="\t")
    dialect = recognised_dialect(opened.file, reading)
    _check_quotes(opened.file, dialect)
    if dialect.padded:
        with _without_padding(opened, dialect) as tidy:
            table = _read(tidy, Dialect(dialect.sep), reading, text_columns)
    else:
        table = _read(opened, dialect, reading, text_columns)
    table.remarks += filter(None, [dialect.remark()])
    return table


def _read(
    opened: OpenedInput, dialect: Dialect, reading: Reading, text_columns: Sequence[str]
) -> Table:
    names = _header(opened.file, dialect)
    columns = _arrow_columns(opened, dialect, names, text_columns)
    again = _columns_to_read_as_text(columns, opened.file, dialect, reading)
    if again:
        columns |= _typed_columns(opened, dialect, names, dict.fromkeys(again, TEXT))
    has_points = any(map(_has_fractions, columns.values()))
    return Table(
        _frame(columns),
        decimals=frozenset({POINT} if has_points else ()),
        point_by_default=dialect.sep == COMMA,
    )


@contextmanager
def _without_padding(opened: OpenedInput, dialect: Dialect) -> Iterator[OpenedInput]:
    """A copy of a file whose separators are followed by spaces, which Arrow takes for text."""
    with tempfile.TemporaryFile() as copy, _text(opened.file, dialect) as text:
        rows = csv.reader(
            text, delimiter=dialect.sep, quotechar=dialect.quote, skipinitialspace=True
        )
        tidy = io.TextIOWrapper(copy, "utf-8", newline="")
        csv.writer(tidy, delimiter=dialect.sep, lineterminator="\n").writerows(rows)
        tidy.flush()
        size = copy.seek(0, io.SEEK_END)
        yield OpenedInput(copy, opened.name, size)
        tidy.detach()


def check_names(names: Sequence[str]) -> None:
    """Raise if columns have the same name, with all names that occur more than once."""
    repeated = [repr(name) for name, count in Counter(names).items() if count > 1]
    if len(repeated) == 1:
        raise TableError(f"duplicate column name {repeated[0]}; rename one of them")
    if repeated:
        listed = ", ".join(repeated)
        raise TableError(f"duplicate column names {listed}; each may stand only once")


def _header(file: IO[bytes], dialect: Dialect) -> list[str]:
    """The names of the columns, without spaces around them; a number stands for no name."""
    with _text(file, dialect) as text:
        names = [name.strip() for name in next((row for row in _rows(text, dialect) if row), [])]
    check_names([name for name in names if name])
    return [name or f"{UNNAMED}{i}" for i, name in enumerate(names)]


@contextmanager
def _text(file: IO[bytes], dialect: Dialect) -> Iterator[io.TextIOWrapper]:
    """The text of a file below the line that names its separator."""
    file.seek(0)
    text = io.TextIOWrapper(file, dialect.encoding)
    try:
        for _ in range(dialect.header_line):
            text.readline()
        yield text
    finally:
        # The wrapper would close the file, which is read again.
        text.detach()


def _rows(text: io.TextIOWrapper, dialect: Dialect) -> Iterator[list[str]]:
    return csv.reader(text, delimiter=dialect.sep, quotechar=dialect.quote, strict=True)


def _check_quotes(file: IO[bytes], dialect: Dialect) -> None:
    """Raise if a quote is never closed, which would make one cell of all that follows."""
    file.seek(0)
    blocks, quote = iter(lambda: file.read(BLOCK), b""), dialect.quote.encode()
    if sum(block.count(quote) for block in blocks) % 2 == 0:
        return
    row = 0
    with _text(file, dialect) as text:
        try:
            for row, _ in enumerate(_rows(text, dialect)):  # noqa: B007
                pass
        except csv.Error as error:
            if "end of data" in str(error):
                problem = f"broken CSV file (row {row + 1} opens a quote that is never closed)"
                raise TableError(problem) from None


def _arrow_columns(
    opened: OpenedInput, dialect: Dialect, names: Sequence[str], text_columns: Sequence[str]
) -> dict[str, Any]:
    """The columns of a file as Arrow reads them: numbers, booleans or text.

    Types are those of the first block, and a column with another cell further down is read again
    with a wider one. Arrow could infer them from the whole file, but keeps all of it in memory.
    """
    types = _first_types(opened, dialect, names)
    types |= dict.fromkeys((name for name in names if name in text_columns), TEXT)
    while True:
        try:
            return _typed_columns(opened, dialect, names, types)
        except _CellTypeError as error:
            name = names[error.column]
            types[name] = WIDER[types[name]]


def _first_types(opened: OpenedInput, dialect: Dialect, names: Sequence[str]) -> dict[str, str]:
    """The type of each column in the first block of a file, by name."""
    arrow, reader = optional_import("pyarrow"), optional_import("pyarrow.csv")
    opened.file.seek(0)
    try:
        with reader.open_csv(
            _WatchedFile(opened, lambda *_: None), **_options(dialect, names, {})
        ) as stream:
            found = {field.name: str(field.type) for field in stream.schema}
    except arrow.ArrowInvalid as error:
        raise TableError(_parser_problem(str(error))) from error
    # A column that begins with nothing but gaps may be numbers; dates keep their text.
    found = {name: "double" if kind == "null" else kind for name, kind in found.items()}
    return {name: kind if kind in WIDER else TEXT for name, kind in found.items()}


class _CellTypeError(Exception):
    """A cell that does not have the type of its column, whose number is `column`."""

    def __init__(self, column: int) -> None:
        super().__init__(column)
        self.column = column


def _typed_columns(
    opened: OpenedInput, dialect: Dialect, names: Sequence[str], types: dict[str, str]
) -> dict[str, Any]:
    arrow, reader = optional_import("pyarrow"), optional_import("pyarrow.csv")
    with _watched(opened) as file:
        try:
            table = reader.read_csv(file, **_options(dialect, names, types))
        except arrow.ArrowInvalid as error:
            found = re.match(r"In CSV column #(\d+): .*conversion error", str(error))
            if found is not None:
                raise _CellTypeError(int(found[1])) from error
            raise TableError(_parser_problem(str(error))) from error
    return dict(zip(table.column_names, table.columns, strict=True))


def _options(dialect: Dialect, names: Sequence[str], types: dict[str, str]) -> dict[str, Any]:
    """How Arrow is to read a file with columns of these names, those with a type as that."""
    arrow, reader = optional_import("pyarrow"), optional_import("pyarrow.csv")
    return {
        "read_options": reader.ReadOptions(
            # In one thread, because only then do errors tell the row.
            use_threads=False,
            encoding=dialect.encoding,
            column_names=list(names),
            skip_rows=dialect.header_line,
            skip_rows_after_names=1,
        ),
        "parse_options": reader.ParseOptions(
            delimiter=dialect.sep, quote_char=dialect.quote, newlines_in_values=True
        ),
        "convert_options": reader.ConvertOptions(
            column_types={name: arrow.type_for_alias(kind) for name, kind in types.items()},
            include_columns=list(types),
            null_values=GAPS,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        ),
    }


def _parser_problem(text: str) -> str:
    found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
    if found is None:
        return f"broken CSV file ({text.splitlines()[0]})"
    row, need, got = map(int, found.groups())
    if need == 1:
        way_out = "the first line has to be the header, and --sep says what separates cells"
        return f"row {row - 1} has {got} cells, but the header one name; {way_out}"
    return f"row {row - 1} has {got} cells, but the header {need} names; mend the row"


class _WatchedFile:
    """A file that tells how much of it has been read."""

    closed = False

    def __init__(self, opened: OpenedInput, update: Any) -> None:
        self.opened, self.update, self.done = opened, update, 0

    def read(self, size: int = -1) -> bytes:
        block = self.opened.file.read(size)
        self.done += len(block)
        if block:
            self.update(self.done / self.opened.size, "reading", None)
        return block

    def close(self) -> None:
        """The file stays open, because it may be read again."""


@contextmanager
def _watched(opened: OpenedInput) -> Iterator[Any]:
    opened.file.seek(0)
    if opened.size < MIN_BYTES_FOR_PROGRESS:
        yield _WatchedFile(opened, lambda *_: None)
        return
    with progress_bar("reading") as update:
        yield _WatchedFile(opened, update)


def _columns_to_read_as_text(
    columns: dict[str, Any], file: IO[bytes], dialect: Dialect, reading: Reading
) -> list[str]:
    """Columns in which Arrow may see something else than people mean."""
    types = optional_import("pyarrow.types")
    again: list[str] = []
    if _has_hexadecimals(file):
        again += [name for name, column in columns.items() if types.is_integer(column.type)]
    comma_is_likely = dialect.sep != COMMA or reading.decimal == COMMA
    if reading.decimal != POINT and (comma_is_likely or any(map(_has_commas, columns.values()))):
        again += [name for name, column in columns.items() if _may_be_groups(column)]
    return again


def _has_hexadecimals(file: IO[bytes]) -> bool:
    """Whether 0x stands anywhere: Arrow takes 0x10 for 16."""
    file.seek(0)
    end = b""
    for block in iter(lambda: file.read(BLOCK).lower(), b""):
        # In UTF-16 there is a zero byte between the two.
        if b"0x" in end + block or b"0\0x" in end + block:
            return True
        end = block[-2:]
    return False


def _has_commas(column: Any) -> bool:
    types, compute = optional_import("pyarrow.types"), optional_import("pyarrow.compute")
    return types.is_large_string(column.type) and bool(
        compute.any(compute.match_substring_regex(column, r"[0-9],[0-9]")).as_py()
    )


def _has_fractions(column: Any) -> bool:
    """Whether a column has numbers that are not whole, which were written with a point."""
    if not optional_import("pyarrow.types").is_floating(column.type):
        return False
    return any(bool((chunk != np.round(chunk)).any()) for chunk in _known_numbers(column))


def _may_be_groups(column: Any) -> bool:
    """Whether every number may have been written as 1.234, with a point between thousands."""
    if not optional_import("pyarrow.types").is_floating(column.type):
        return False
    return all(map(_are_whole_or_have_three_decimals, _known_numbers(column)))


def _known_numbers(column: Any) -> Iterator[Any]:
    return (chunk.drop_null().to_numpy() for chunk in column.chunks)


def _are_whole_or_have_three_decimals(numbers: Any) -> bool:
    size, thousandths = np.abs(numbers), numbers * 1000
    three = (size >= 1) & (size < 1000) & np.isclose(thousandths, np.round(thousandths), rtol=1e-12)
    return bool((three | (numbers == np.round(numbers))).all())


def _frame(columns: dict[str, Any]) -> Any:
    """A data frame of Arrow columns, which are taken out of the dict one after the other.

    So no column is in memory twice for long.
    """
    series = {name: columns.pop(name).to_pandas() for name in list(columns)}
    optional_import("pyarrow").default_memory_pool().release_unused()
    return optional_import("pandas").DataFrame(series, copy=False)
