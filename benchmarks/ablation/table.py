"""What each part of HistogramRegressor brings: results/ablation.json from the records of run.py.

    python table.py

Numbers are ratios without the part to with it: of the geometric means, over the tables, of errors,
of the mean width of 90% intervals at equal coverage, and of processor time. For coverage it is the
difference of the mean distances from 90%, as a share of rows.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tables
from run import recorded
from variants import BY_NAME, NOTHING, Variant

SUMMARY = Path(__file__).parents[2] / "results" / "ablation.json"
MEASURES = ("mae", "rmse", "crps", "width", "seconds")
COVERAGE = 0.9
MIN_TEST_ROWS_FOR_WIDTH = 100  # fewer do not tell what intervals cover

Record = dict[str, Any]


def main() -> None:
    """Write the summary of all records."""
    records = recorded()
    summary = {name: _summary(records, name) for name in ("development", "heldout")}
    SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")


def _summary(records: Sequence[Record], which: str) -> dict[str, Any]:
    own = [r for r in records if (r["table"] in tables.HELDOUT) == (which == "heldout")]
    rows = [_row(own, variant) for variant in BY_NAME.values() if variant.part != NOTHING]
    whole = [r for r in own if r["part"] == NOTHING]
    return {
        "tables": len({r["table"] for r in whole}),
        "tables_for_width": len({r["table"] for r in whole if width(r) is not None}),
        "rows": rows,
    }


def _row(records: Sequence[Record], variant: Variant) -> dict[str, Any]:
    base = next(
        v.name for v in BY_NAME.values() if v.part == NOTHING and v.preset == variant.preset
    )
    known = {(r["table"], r["split"]): r for r in records if r["part"] == base}
    pairs = [
        (known[place], r)
        for r in records
        if r["part"] == variant.name and (place := (r["table"], r["split"])) in known
    ]
    ratios = {measure: _ratio(pairs, measure) for measure in MEASURES}
    return {"part": variant.name} | ratios | {"coverage": _lost_coverage(pairs)}


def _ratio(pairs: Sequence[tuple[Record, Record]], measure: str) -> float | None:
    """Geometric mean over tables; the splits of a table count as one."""
    logs: dict[str, list[float]] = {}
    for whole, without in pairs:
        values = [width(r) if measure == "width" else r[measure] for r in (whole, without)]
        if None not in values and min(values) > 0:
            logs.setdefault(whole["table"], []).append(math.log(values[1] / values[0]))
    means = [statistics.fmean(found) for found in logs.values()]
    return round(math.exp(statistics.fmean(means)), 4) if means else None


def width(record: Record) -> float | None:
    """The mean width of intervals that hold nine in ten test rows, between those that were made."""
    if record["test_rows"] < MIN_TEST_ROWS_FOR_WIDTH or len(record["intervals"]) < 2:
        return None
    covered, widths = zip(*sorted(tuple(each[1:]) for each in record["intervals"]), strict=True)
    return float(np.interp(COVERAGE, covered, widths))


def _lost_coverage(pairs: Sequence[tuple[Record, Record]]) -> float | None:
    """How much farther from nominal 90% intervals are without the part, on average."""
    gaps: dict[str, list[float]] = {}
    for whole, without in pairs:
        distances = [_distance(record) for record in (without, whole)]
        if None not in distances:
            gaps.setdefault(whole["table"], []).append(distances[0] - distances[1])
    means = [statistics.fmean(found) for found in gaps.values()]
    return round(statistics.fmean(means), 4) if means else None


def _distance(record: Record) -> float | None:
    """Between nominal 90% and the share of test rows in these intervals."""
    if record["test_rows"] < MIN_TEST_ROWS_FOR_WIDTH:
        return None
    found = [covered for nominal, covered, _ in record["intervals"] if nominal == COVERAGE]
    return abs(found[0] - COVERAGE) if found else None


if __name__ == "__main__":
    main()
