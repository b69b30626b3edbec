"""Numbers as people write them: 3,504 and 307,0 and 12.5% and € 12.

Either a point or a comma is the decimal mark, and the other one may stand between thousands, as may
a space or an apostrophe. Many cells tell which: 307,0 and 0,307 have a decimal comma, 1,234.5 has
a decimal point. 3,504 does not tell. A sign of a currency or of percent is left off, so that the
number is the one that is written: 12.5% is 12.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins.cli.reading import COMMA, POINT
from softbins.tabular.frames import MISSING_WORDS

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

OTHER_MARK = {POINT: COMMA, COMMA: POINT}
SPACES = " \u00a0\u2009\u202f"
APOSTROPHES = "'’"
MINUS_SIGNS = "−-"  # with the hyphen last, for classes of characters in patterns
UNIT = "[€$£¥%]|EUR|USD|GBP|CHF"
CELL = (
    rf"^(?P<sign>[+{MINUS_SIGNS}]?)[{SPACES}]*(?P<before>{UNIT})?[{SPACES}]*"
    rf"(?P<later_sign>[+{MINUS_SIGNS}]?)"
    rf"(?P<digits>[0-9.,](?:[0-9.,eE+{SPACES}{APOSTROPHES}-]*[0-9.,])?)"
    rf"[{SPACES}]*(?P<after>{UNIT})?$"
)
# Words with digits and marks alone, or nothing.
WITHOUT_UNIT = rf"^(?:[+{MINUS_SIGNS}]?[0-9.,][0-9.,eE+-]*)?$"


def _digits_pattern(decimal: str) -> str:
    """What the digits of a number look like with that decimal mark."""
    mark, group = rf"\{decimal}", rf"\{OTHER_MARK[decimal]}"
    plain = rf"[0-9]+{mark}?[0-9]*|{mark}[0-9]+"
    if decimal == COMMA:
        # 007,5 is rather two codes than a number.
        plain = rf"[0-9]+|(?:0|[1-9][0-9]*){mark}[0-9]*|{mark}[0-9]+"
    thousands = "|".join(f"(?:{g}[0-9]{{3}})+" for g in (group, f"[{SPACES}]", f"[{APOSTROPHES}]"))
    grouped = rf"[1-9][0-9]{{0,2}}(?:{thousands})(?:{mark}[0-9]*)?"
    return rf"^(?:(?:{plain})(?:[eE][+-]?[0-9]+)?|{grouped})$"


DIGITS = {decimal: _digits_pattern(decimal) for decimal in (POINT, COMMA)}


class NumberStyle(NamedTuple):
    """How the words of a column write numbers.

    `share` of them are numbers. `decimals` are the marks with which all of them are, and `doubtful`
    is one such as 3,504, which is another number with the other mark, or None.
    """

    share: float
    decimals: frozenset[str]
    doubtful: str | None


@dataclass(frozen=True)
class NumberCells:
    """The cells of a column of text taken apart.

    `words` is an Arrow array with null for a cell that is missing or no text, and `is_word` says
    which are not. `signs` and `digits` are Arrow arrays, empty for what is no number, and `fits`
    says for each decimal mark which words are numbers with it, all of them with the same `unit`.
    """

    words: Any
    is_word: Mask
    signs: Any
    digits: Any
    unit: str
    fits: dict[str, Mask]

    @property
    def best_decimal(self) -> str:
        """The decimal mark with which most words are numbers."""
        return max(self.fits, key=lambda mark: int(self.fits[mark].sum()))

    def style(self) -> NumberStyle:
        """How the words write numbers, in short."""
        counts = {mark: int(fits.sum()) for mark, fits in self.fits.items()}
        total = int(self.is_word.sum())
        decimals = frozenset(mark for mark, count in counts.items() if count == total)
        share = max(counts.values()) / total if total else 1.0
        return NumberStyle(share, decimals, self._doubtful_word())

    def _doubtful_word(self) -> str | None:
        """A word that either mark makes another number of: one with a comma, if there is one."""
        both = self.fits[POINT] & self.fits[COMMA]
        for mark in (COMMA, POINT):
            doubtful = both & self._have(rf"\{mark}")
            if doubtful.any():
                return str(self.words[int(doubtful.argmax())])
        return None

    def numbers(self, decimal: str) -> Array:
        """The numbers with that decimal mark, NaN where a cell is none."""
        arrow, compute = optional_import("pyarrow"), optional_import("pyarrow.compute")
        digits = compute.replace_substring_regex(self.digits, rf"[^0-9eE+\{decimal}-]", "")
        digits = compute.replace_substring(digits, decimal, POINT)
        digits = compute.if_else(arrow.array(self.fits[decimal]), digits, "nan")
        values: Array = _to_numpy(compute.cast(digits, arrow.float64()))
        negative = _to_numpy(compute.match_substring_regex(self.signs, f"[{MINUS_SIGNS}]"))
        values[negative] *= -1
        return values

    def spelling(self, decimal: str) -> list[str]:
        """What sets the words apart from plain numbers, in a few words each."""
        said = [f"{self.unit} left off"] if self.unit else []
        if decimal == COMMA and self._have(",").any():
            said.append("decimal comma")
        if self._have(rf"[{SPACES}{APOSTROPHES}\{OTHER_MARK[decimal]}]").any():
            said.append("thousands grouped")
        return said

    def _have(self, pattern: str) -> Mask:
        compute = optional_import("pyarrow.compute")
        found: Mask = _to_numpy(compute.match_substring_regex(self.digits, pattern))
        return found


def number_cells(column: Any) -> NumberCells:
    """Take the cells of a pandas column apart; those that are missing or no text are no words."""
    compute = optional_import("pyarrow.compute")
    words = _words(column)
    signs, digits, units = _parts(compute.fill_null(words, ""))
    unit = _most_frequent(units.filter(compute.not_equal(digits, "")))
    # A cell with two units or two signs is no number.
    usual = compute.and_(compute.equal(units, unit), compute.less(compute.utf8_length(signs), 2))
    fits = {
        mark: _to_numpy(compute.and_(usual, compute.match_substring_regex(digits, pattern)))
        for mark, pattern in DIGITS.items()
    }
    is_word = _to_numpy(compute.is_valid(words))
    return NumberCells(words, is_word, signs, digits, unit, fits)


def _parts(words: Any) -> tuple[Any, Any, Any]:
    """The signs, the digits and the units of words, empty for what is no number."""
    arrow, compute = optional_import("pyarrow"), optional_import("pyarrow.compute")
    empty = arrow.scalar("", words.type)
    # Most columns have no units, and this is much faster than to take cells apart.
    if compute.all(compute.match_substring_regex(words, WITHOUT_UNIT)).as_py() is not False:
        is_signed = compute.match_substring_regex(words, f"^[+{MINUS_SIGNS}]")
        signs = compute.if_else(is_signed, compute.utf8_slice_codeunits(words, 0, 1), empty)
        digits = compute.utf8_ltrim(words, f"+{MINUS_SIGNS}")
        return signs, digits, compute.if_else(is_signed, empty, empty)
    parts = compute.extract_regex(words, CELL)

    def joined(*names: str) -> Any:
        fields = [compute.fill_null(compute.struct_field(parts, name), "") for name in names]
        return compute.binary_join_element_wise(*fields, empty)

    return joined("sign", "later_sign"), joined("digits"), joined("before", "after")


def _words(column: Any) -> Any:
    """The text of a column without space around it, null for what is missing or no text."""
    arrow, compute = optional_import("pyarrow"), optional_import("pyarrow.compute")
    if column.dtype == object:
        column = [value if isinstance(value, str) else None for value in column]
    words = arrow.array(column, arrow.large_string(), from_pandas=True)
    if isinstance(words, arrow.ChunkedArray):
        words = words.combine_chunks()
    words = compute.utf8_trim_whitespace(words)
    missing = compute.is_in(compute.utf8_lower(words), arrow.array(MISSING_WORDS, words.type))
    return compute.if_else(missing, arrow.scalar(None, words.type), words)


def _most_frequent(units: Any) -> str:
    counts = optional_import("pyarrow.compute").value_counts(units).to_pylist()
    return str(max(counts, key=lambda row: row["counts"], default={"values": ""})["values"])


def _to_numpy(array: Any) -> Any:
    return np.array(array.to_numpy(zero_copy_only=False))
