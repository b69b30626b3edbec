"""How a CSV file is written: its encoding, its separator and its quotes, from a sample of it."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import IO

from softbins.cli.reading import Reading
from softbins.cli.table_errors import TableError
from softbins.cli.text_encoding import ENCODING_TITLES, decodes, recognised_encoding

SEPARATORS = (",", ";", "\t", "|")
SEPARATOR_TITLES = {"\t": "tabs", " ": "spaces"}
SAMPLE_CHARACTERS = 1 << 18
# Excel says in a first line of its own which separator it used.
SEPARATOR_LINE = re.compile(r"\ufeff?sep=(.)\n", re.IGNORECASE)
LINES_ABOVE_HEADER = re.compile(r"\ufeff?(sep=.\n)?([ \t]*\n)*", re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    `header_line` is the number of lines above the header, and `padded` says whether separators
    are followed by a space.
    """

    sep: str
    quote: str = '"'
    encoding: str = "utf-8"
    header_line: int = 0
    padded: bool = False

    def remark(self) -> str | None:
        """What is not as in most CSV files, as text; None if nothing."""
        said = []
        if self.sep != ",":
            said.append(f"cells separated by {SEPARATOR_TITLES.get(self.sep, repr(self.sep))}")
        if self.quote != '"':
            said.append(f"{self.quote} for quotes")
        if self.encoding != "utf-8":
            said.append(f"text in {ENCODING_TITLES.get(self.encoding, self.encoding)}")
        return f"read with {', '.join(said)}" if said else None


def recognised_dialect(file: IO[bytes], reading: Reading) -> Dialect:
    """The dialect of a file: what is given about it, and for the rest what a sample shows."""
    encoding = _encoding(file, reading.encoding)
    file.seek(0)
    text = io.TextIOWrapper(file, encoding)
    sample = text.read(SAMPLE_CHARACTERS)
    text.detach()
    if not sample.strip("\ufeff \t\r\n"):
        raise TableError("the file is empty; need a header and at least one row")
    named = SEPARATOR_LINE.match(sample)
    above = LINES_ABOVE_HEADER.match(sample)
    header_line = above[0].count("\n") if above else 0
    sep, sample = named[1] if named else None, sample[above.end() if above else 0 :]
    quote = _quote(sample)
    sep = reading.sep or sep or _separator(sample, quote, len(sample) >= SAMPLE_CHARACTERS - 100)
    header = next(csv.reader(io.StringIO(sample), delimiter=sep, quotechar=quote), [])
    padded = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    return Dialect(sep, quote, encoding, header_line, padded)


def _encoding(file: IO[bytes], given: str | None) -> str:
    if given is None:
        return recognised_encoding(file)
    if not decodes(file, given):
        raise TableError(f"not text in {given}; give another --encoding, or none")
    return given


def _quote(sample: str) -> str:
    """Single quotes if every name in the header has them, else double ones."""
    header = sample.lstrip().splitlines()[0]
    single = re.fullmatch(r"'[^']*'(\s*[,;\t|]\s*'[^']*')*\s*", header)
    return "'" if single else '"'


def _separator(sample: str, quote: str, is_cut: bool) -> str:
    """The mark that cuts all lines of a sample into as many cells as the header."""
    counts = {sep: _cell_counts(sample, sep, quote, is_cut) for sep in SEPARATORS}
    several = {sep: cells for sep, cells in counts.items() if cells[0] > 1}
    even = [sep for sep, cells in several.items() if len(set(cells)) == 1]
    found = even or list(several)
    if len(found) > 1:
        listed = " or ".join(SEPARATOR_TITLES.get(sep, repr(sep)) for sep in found)
        raise TableError(f"cells may be separated by {listed}; give --sep")
    return found[0] if found else ","


def _cell_counts(sample: str, sep: str, quote: str, is_cut: bool) -> list[int]:
    """How many cells each line of a sample has, with the last line left out if it is cut off."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=sep, quotechar=quote)
    try:
        counts = [len(row) for row in reader if row]
    except csv.Error:
        # A cell longer than the module takes, which the wrong quotes make.
        return [1]
    return counts[:-1] if is_cut and len(counts) > 1 else counts
