"""Tables of the regressor: its errors, its honesty, its time, beside others and without parts."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from table_text import read_record, read_record_if_made, table, thousands

MEASURES = {"mae": "MAE", "rmse": "RMSE", "crps": "CRPS"}
BEST = "softbins is best, or within one standard error"


def accuracy(results: Path) -> str:
    """HistogramRegressor beside other regressors: a row for each of them."""
    record = read_record("accuracy", results)

    def cells(row: dict[str, Any]) -> list[str]:
        found = [row.get(measure) for measure in MEASURES]
        ratios = [f"{f['ratio']:.2f}" if f else "" for f in found]
        ranks = [f"{f['rank']:.1f}" if f else "" for f in found]
        return [str(max(f["tables"] for f in found if f)), *ratios, *ranks]

    rows = [[row["method"], *cells(row)] for row in record["rows"]]
    best = [f"{record['best'][measure]} of {record['tables']}" for measure in MEASURES]
    last = [BEST, "", *best, "", "", ""]
    names = list(MEASURES.values())
    return table(["", "tables", *names, *(f"rank by {name}" for name in names)], [*rows, last])


def heldout(results: Path) -> str:
    """Errors as multiples of ours on tables that no setting was chosen on, beside the others."""
    chosen, record = read_record("accuracy", results), read_record_if_made("heldout", results)
    sets = {"held-out": record} if record is not None else {}
    sets["development"] = {
        "tables": chosen["tables"],
        "rows": [_flat(row) for row in chosen["rows"]],
        "ours_best": chosen["best"],
    }
    methods = dict.fromkeys(row["method"] for found in sets.values() for row in found["rows"])
    head = [f"{name} {measure}" for name in sets for measure in MEASURES.values()]
    best = [f"{s['ours_best'][name]} of {s['tables']}" for s in sets.values() for name in MEASURES]
    rows = [_beside_each_other(method, sets) for method in methods]
    note = "" if record else "\nThe tables that no setting was chosen on are yet to be run.\n"
    return table(["", *head], [*rows, [BEST, *best]]) + note


def few_rows(results: Path) -> str:
    """Geometric means of errors as multiples of ours on small and on held-out tables."""
    sets = read_record("few_rows", results)
    methods = dict.fromkeys(row["method"] for found in sets.values() for row in found["rows"])
    head = [f"{name} {measure}" for name in sets for measure in MEASURES.values()]
    near = [f"{s['ours_near'][name]} of {s['tables']}" for s in sets.values() for name in MEASURES]
    rows = [_beside_each_other(method, sets) for method in methods]
    return table(["", *head], [*rows, ["softbins is best, or within 2%", *near]])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A method's ratios by measure, and on how many tables it was run."""
    known = {name: row[name] for name in MEASURES if row.get(name)}
    ratios = {name: found["ratio"] for name, found in known.items()}
    tables = max(found["tables"] for found in known.values())
    return {"method": row["method"], "tables": tables, **ratios}


def _beside_each_other(method: str, sets: dict[str, dict[str, Any]]) -> list[str]:
    """A method's ratios on each set, and a note if it was not run on all tables."""
    cells, notes = list[str](), list[str]()
    for name, found in sets.items():
        row = next((row for row in found["rows"] if row["method"] == method), {})
        cells += _ratios(row)
        if row.get("tables", found["tables"]) < found["tables"]:
            notes.append(f"{row['tables']} of {found['tables']} {name} tables")
    return [f"{method} ({', '.join(notes)})" if notes else method, *cells]


def _ratios(found: dict[str, Any]) -> list[str]:
    values = [found.get(name) for name in MEASURES]
    return ["" if value is None else f"{value:.2f}" for value in values]


def ablation(results: Path) -> str:
    """What grows without each part of HistogramRegressor, on both sets of tables."""
    record = read_record_if_made("ablation", results)
    if record is None:
        return "The table is made by `make bench-ablation`.\n"
    sets = {"development": "development tables", "heldout": "held-out tables"}
    blocks = [_ablation_of(record[name], title) for name, title in sets.items() if name in record]
    return "\n".join(blocks)


def _ablation_of(found: dict[str, Any], title: str) -> str:
    columns = {**MEASURES, "width": "width of 90% intervals", "seconds": "time"}
    rows = [
        [row["part"], *(_growth(row[name]) for name in columns), _points(row.get("coverage"))]
        for row in found["rows"]
    ]
    head = [f"without, {found['tables']} {title}", *columns.values(), "farther from 90%"]
    return table(head, rows)


def _points(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f} points".replace("-", "−")


def _growth(ratio: float | None) -> str:
    """1.012 as +1.2%."""
    return "" if ratio is None else f"{100 * (ratio - 1):+.1f}%".replace("-", "−")


def drift(results: Path) -> str:
    """What 90% intervals hold on new groups and later rows."""
    names = {"groups": "new groups, simulated", "pm25": "PM2.5"}
    ways = [("random folds",), ("time folds", "grouped folds"), ("day by day",)]
    rows = [
        [names.get(name, name), *(_first_share(found, way) for way in ways)]
        for name, found in read_record("drift", results).items()
    ]
    head = ["90% intervals", "random folds", "folds of groups or time", "recalibrated day by day"]
    return table(head, rows)


def coverage(results: Path) -> str:
    """What central intervals hold on simulated tables: a row for each noise and number of rows."""
    record = read_record("coverage", results)
    head = ["noise", "rows", "preset", "fits", *_levels(record)]
    about = ("noise", "rows", "preset", "repetitions")
    rows = [
        [*(str(row[name]) for name in about), *_shares(row["held"])] for row in record["simulated"]
    ]
    return table(head, rows)


def coverage_of_tables(results: Path) -> str:
    """The same on the tables of benchmarks/accuracy with rows enough to judge by."""
    record = read_record("coverage", results)
    head = ["table", "test rows", "preset", *_levels(record)]
    rows = [
        [
            row["table"] + (" (held out)" if row["is held out"] else ""),
            *(str(row[name]) for name in ("test rows", "preset")),
            *_shares(row["held"]),
        ]
        for row in record["tables"]
    ]
    return table(head, rows)


def calibration_map(results: Path) -> str:
    """What each number of the calibrating map brings, for several numbers of held-out rows."""
    found = read_record("calibration_map", results)
    rows = [f"{thousands(count)} rows" for count in found["rows"]]
    cells = [
        [
            change["map"],
            *(f"{100 * gap:.1f}" for gap in change["coverage"]),
            *(f"{ratio:.3f}" for ratio in change["crps"]),
        ]
        for change in found["changes"]
    ]
    return table(["map", *(f"points, {n}" for n in rows), *(f"CRPS, {n}" for n in rows)], cells)


def _levels(record: dict[str, Any]) -> list[str]:
    return [f"{level:.0%}" for level in record["levels"]]


def _shares(shares: list[float]) -> list[str]:
    return [f"{share:.1%}" for share in shares]


def _first_share(found: dict[str, float], names: tuple[str, ...]) -> str:
    return next((f"{found[name]:.1%}" for name in names if name in found), "")


HEAVY_TAILS = {"mae": "MAE", "rmse": "RMSE", "median_mae": "MAE of the median"}


def heavy_tails(results: Path) -> str:
    """Our errors on each kind of table as multiples of the best peer's, and who that is."""
    record = read_record("heavy_tails", results)
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in record):
        errors: dict[str, dict[int, dict[str, float]]] = {}
        for one in record:
            if one["kind"] == kind:
                errors.setdefault(one["method"], {})[one["table"]] = one
        common = sorted(set.intersection(*map(set, errors.values())))
        cells = [_beside_the_best(errors, common, measure) for measure in HEAVY_TAILS]
        rows.append([kind, str(len(common)), *cells])
    return table(["ours over the best peer's", "tables", *HEAVY_TAILS.values()], rows)


def _beside_the_best(
    errors: dict[str, dict[int, dict[str, float]]], tables: list[int], measure: str
) -> str:
    """Of geometric means over tables; who predicts no median is judged by the mean instead."""
    means = {
        method: statistics.geometric_mean(own[t].get(measure, own[t]["mae"]) for t in tables)
        for method, own in errors.items()
    }
    ours = means.pop("softbins")
    best = min(means, key=lambda method: means[method])
    return f"{ours / means[best]:.2f} ({best})"


def many_categories(results: Path) -> str:
    """RMSE on tables with many categories, with and without what targets say of them."""
    record = read_record("many_categories", results)
    names = list(next(iter(record.values())))
    rows = [[kind, *(f"{found[name]:.2f}" for name in names)] for kind, found in record.items()]
    return table(["RMSE", *names], rows)


def large(results: Path) -> str:
    """Errors, time and memory on large and wide tables: a row for each method on each."""
    head = ["table", "method", "rows learnt from", "MAE", "RMSE", "CRPS", "processor", "memory"]
    rows = [
        [
            row["table"],
            row["method"],
            thousands(row["rows"]),
            *("" if row[name] is None else f"{row[name]:.2f}" for name in MEASURES),
            f"{row['seconds']:.0f} s",
            "" if row["megabytes"] is None else f"{thousands(row['megabytes'])} MB",
        ]
        for row in read_record("large", results)
    ]
    return table(head, rows)


def scale(results: Path) -> str:
    """Seconds and megabytes of each fit, and as multiples of LightGBM's."""
    rows = read_record_if_made("scale", results)
    if rows is None:
        return "The table is made by `make bench-scale`.\n"
    peers = {(r["axis"], r["value"]): r for r in rows if r["method"] == "LightGBM"}
    cells = [
        [
            f"{thousands(row['value'])} {row['axis']}",
            f"{row['seconds']:.1f} s",
            f"{thousands(row['megabytes'])} MB",
            *_beside_lightgbm(row, peers.get((row["axis"], row["value"]))),
        ]
        for row in rows
        if row["method"] != "LightGBM"
    ]
    return table(["", "time", "memory", "LightGBM's time", "and memory"], cells)


def _beside_lightgbm(row: dict[str, Any], peer: dict[str, Any] | None) -> list[str]:
    if peer is None:
        return ["", ""]
    ratio = row["seconds"] / peer["seconds"]
    memory = f"{thousands(peer['megabytes'])} MB"
    return [f"{peer['seconds']:.1f} s: {ratio:.1f} times as much here", memory]


def jobs(results: Path) -> str:
    """How much faster two jobs are: a row for each table."""
    record = read_record_if_made("jobs", results)
    if record is None:
        return "The table is made by `make bench-jobs`.\n"
    ones = {row["table"]: row for row in record["rows"] if row["jobs"] == 1}
    cells = [
        [
            row["table"],
            str(row["jobs"]),
            f"{row['wall']:.1f} s",
            f"{row['processor']:.1f} s",
            f"{ones[row['table']]['wall'] / row['wall']:.2f}",
        ]
        for row in record["rows"]
    ]
    return table(["", "jobs", "clock", "processor", "times as fast"], cells)
