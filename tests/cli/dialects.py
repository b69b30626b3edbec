"""Tables of numbers as people write them, made at random."""

from decimal import Decimal
from typing import NamedTuple

from hypothesis import strategies as st

UNITS = ["{}", "{}%", "{} %", "€ {}", "{} €", "${}", "{} EUR"]
NAMES = ["Größe", "price", "a b", "x1"]


class Dialect(NamedTuple):
    """How a table is written."""

    sep: str
    decimal: str
    thousands: str
    quote_all: bool
    encoding: str
    newline: str


class Written(NamedTuple):
    """A file, the dialect it is in, and the numbers of its columns; None is a gap."""

    content: bytes
    dialect: Dialect
    columns: dict


@st.composite
def dialects(draw):
    decimal = draw(st.sampled_from([".", ","]))
    other = {".": ",", ",": "."}[decimal]
    sep = draw(st.sampled_from([",", ";", "\t", "|"]))
    # In a file that commas separate, a point is a decimal mark unless other cells contradict.
    groups = ["", " ", "\u00a0", "'"] + ([] if (sep, other) == (",", ".") else [other])
    return Dialect(
        sep,
        decimal,
        draw(st.sampled_from(groups)),
        draw(st.booleans()),
        draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])),
        draw(st.sampled_from(["\n", "\r\n"])),
    )


@st.composite
def written_tables(draw):
    """A small table of numbers in some dialect."""
    dialect = draw(dialects())
    rows = draw(st.integers(1, 6))
    columns, texts = {}, {}
    for name in NAMES[: draw(st.integers(2, 4))]:
        unit, places = draw(st.sampled_from(UNITS)), draw(st.integers(0, 4))
        digits = st.integers(-(10**8), 10**8) | st.integers(-9999, 9999) | st.integers(1000, 9999)
        gap = draw(st.sampled_from(["", "NA", "nan"]))
        numbers = draw(st.lists(st.none() | digits, min_size=rows, max_size=rows))
        values = [None if n is None else Decimal(n).scaleb(-places) for n in numbers]
        columns[name] = [None if value is None else float(value) for value in values]
        texts[name] = [
            gap if value is None else unit.format(text_of(value, dialect)) for value in values
        ]
    lines = [list(texts), *zip(*texts.values(), strict=True)]
    text = "".join(line_of(line, dialect) + dialect.newline for line in lines)
    return Written(text.encode(dialect.encoding), dialect, columns)


def text_of(value, dialect):
    """A number as text in a dialect."""
    text = f"{value:,f}" if dialect.thousands else f"{value:f}"
    return text.translate(str.maketrans({",": dialect.thousands, ".": dialect.decimal}))


def line_of(cells, dialect):
    """A line of CSV, with quotes where they are needed."""
    marks = (dialect.sep, '"', "\n")
    return dialect.sep.join(
        f'"{cell}"' if dialect.quote_all or any(mark in cell for mark in marks) else cell
        for cell in cells
    )
