"""What the columns of a table are taken for, as a table of text, with a remark on odd ones."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from softbins._core.extras import optional_import
from softbins._core.text import number_text, shortened, wrapped
from softbins.cli.table_columns import TakenColumn
from softbins.cli.table_errors import ColumnError

HEADER = ("column", "taken for", "distinct", "gaps", "remark")
MIN_WIDTH, MAX_NAME = 80, 24
# Columns beyond this number are counted and not listed, before a training.
MAX_LISTED = 40
# When a remark is made.
MIN_ROWS = 20
MIN_SHARE_OF_DIFFERENT_TEXTS = 0.9
MIN_SHARE_OF_NUMBERS_AMONG_WORDS = 0.1
MAX_VALUES_OF_A_CODE = 10
MIN_ROWS_FOR_EACH_CODE = 10
MIN_SKEW = 3.0
MIN_SHARE_OF_GAPS = 0.5


@dataclass(frozen=True)
class ColumnSummary:
    """One line of the summary; `remark` is empty if there is nothing odd."""

    column: str
    taken_for: str
    distinct: int
    gaps: int
    remark: str


def column_summary(column: TakenColumn, rows: Any = slice(None)) -> ColumnSummary:
    """The summary of a column, of these rows."""
    values = optional_import("pandas").Series(column.values)[rows]
    distinct, gaps = int(values.nunique()), int(values.isna().sum())
    remark = _remark(column, values.dropna(), distinct, gaps)
    return ColumnSummary(column.name, column.kind, distinct, gaps, remark)


def refused_summary(error: ColumnError, frame: Any) -> ColumnSummary:
    """The summary of a column that cannot be taken."""
    values = frame[error.name].astype("str")
    gaps = int((frame[error.name].isna() | (values.str.strip() == "")).sum())
    return ColumnSummary(error.name, "refused", int(values.nunique()), gaps, error.brief)


def summary_text(summaries: Sequence[ColumnSummary], limit: int | None = None) -> str:
    """The summary as lines of at most the width of a terminal."""
    cells = [_line(summary) for summary in summaries[:limit]]
    width = min(shutil.get_terminal_size((MIN_WIDTH, 24)).columns, 2 * MIN_WIDTH)
    text = wrapped([HEADER, *cells], max(width, MIN_WIDTH), HEADER.index("remark"))
    if limit is None or len(summaries) <= limit:
        return text
    return f"{text}\nand {len(summaries) - limit} more columns; softbins look lists all"


def summary_json(summaries: Sequence[ColumnSummary]) -> list[dict[str, Any]]:
    """The summary as plain data."""
    return [asdict(summary) for summary in summaries]


def _line(summary: ColumnSummary) -> list[str]:
    name = " ".join(summary.column.split())
    counts = (
        f"{summary.distinct:,}".rjust(len(HEADER[2])),
        f"{summary.gaps:,}".rjust(len(HEADER[3])),
    )
    return [shortened(name, MAX_NAME), summary.taken_for, *counts, summary.remark]


def _remark(column: TakenColumn, known: Any, distinct: int, gaps: int) -> str:
    """What looks odd about a column, in a few words."""
    if not len(known):
        return "nothing but gaps"
    if distinct == 1:
        return "always the same"
    special = {"category": _text_remark, "number": _number_remark, "target": _target_remark}
    remark = special[column.kind](column, known, distinct) if column.kind in special else ""
    spelling = ", ".join([*column.spelling, *filter(None, [column.remark])])
    mostly_gaps = "mostly gaps" if gaps > MIN_SHARE_OF_GAPS * (len(known) + gaps) else ""
    return "; ".join(filter(None, (remark, spelling, mostly_gaps)))


def _text_remark(column: TakenColumn, known: Any, distinct: int) -> str:
    if column.share_of_numbers >= MIN_SHARE_OF_NUMBERS_AMONG_WORDS:
        return f"{column.share_of_numbers:.0%} of the words are numbers"
    many = len(known) >= MIN_ROWS and distinct > MIN_SHARE_OF_DIFFERENT_TEXTS * len(known)
    return "almost all different: a name or an id?" if many else ""


def _number_remark(column: TakenColumn, known: Any, distinct: int) -> str:
    values = known.to_numpy(np.float64)
    if len(values) < MIN_ROWS or not (values == np.round(values)).all():
        return ""
    if (np.diff(values) == 1).all():
        return "counts the rows: an index?"
    few = 2 < distinct <= MAX_VALUES_OF_A_CODE and distinct * MIN_ROWS_FOR_EACH_CODE <= len(values)
    return "few whole numbers: a code?" if few else ""


def _target_remark(column: TakenColumn, known: Any, distinct: int) -> str:
    skew = float(known.skew()) if len(known) >= MIN_ROWS else 0.0
    if abs(skew) < MIN_SKEW:
        return ""
    end = f"up to {number_text(known.max())}" if skew > 0 else f"down to {number_text(known.min())}"
    return f"far from even: median {number_text(known.median())}, {end}"
