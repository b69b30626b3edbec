"""Scores of the forecasts that `run.py` has stored, and the table that is made of them.

    python table.py [--store build/accuracy]

New forecasts are scored and added to scores.json beside this file; table.md, and the summaries in
results/accuracy.json (development tables), results/heldout.json (tables that no choice was made on)
and results/few_rows.json (small and held-out tables) are written anew from all that is there, also
without a store.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import data
import numpy as np
import peers
from numpy.typing import NDArray

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "results"
OURS, FAST = "softbins", "softbins fast"
MEASURES = {"mae": "MAE", "rmse": "RMSE", "crps": "CRPS"}
TITLES = MEASURES | {"median_mae": "MAE of the median"}
NEAR = 1.02  # of the lowest error, within which ours counts as near
FINE = (np.arange(400) + 0.5) / 400  # levels at which pinball losses are averaged

Array = NDArray[np.float64]
Score = dict[str, Any]


# Scores


def crps(quantiles: Array, y: Array) -> float:
    """Twice the mean pinball loss of the quantile function, straight between its levels."""
    values = _quantile_function(np.sort(quantiles, 1), FINE)
    error = y[:, None] - values
    return float(2 * np.maximum(FINE * error, (FINE - 1) * error).mean())


def _quantile_function(quantiles: Array, levels: Array) -> Array:
    right = np.searchsorted(peers.LEVELS, levels).clip(1, len(peers.LEVELS) - 1)
    start, end = peers.LEVELS[right - 1], peers.LEVELS[right]
    share = ((levels - start) / (end - start)).clip(0, 1)
    return quantiles[:, right - 1] * (1 - share) + quantiles[:, right] * share


def intervals(quantiles: Array, y: Array) -> list[tuple[float, float]]:
    """Coverage and mean width of the central intervals between the levels, narrowest first."""
    ordered = np.sort(quantiles, 1)
    ends = [(i, len(peers.LEVELS) - 1 - i) for i in reversed(range(len(peers.LEVELS) // 2))]
    return [_coverage_and_width(ordered[:, list(pair)], y) for pair in ends]


def _coverage_and_width(interval: Array, y: Array) -> tuple[float, float]:
    low, high = interval.T
    return float(((low <= y) & (y <= high)).mean()), float((high - low).mean())


def scored(path: Path) -> Score:
    """What one stored forecast is worth."""
    stored = np.load(path)
    score: Score = json.loads(str(stored["about"]))
    if "y" not in stored:
        return score
    y = stored["y"]
    if "mean" in stored:
        error = stored["mean"] - y
        score |= {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}
    if "quantiles" in stored:
        quantiles = stored["quantiles"].astype(np.float64)
        score |= {"crps": crps(quantiles, y), "intervals": intervals(quantiles, y)}
        middle = quantiles[:, np.searchsorted(peers.LEVELS, 0.5)]
        score["median_mae"] = float(np.abs(middle - y).mean())
    if "interval" in stored:
        score["interval"] = _coverage_and_width(stored["interval"].astype(np.float64), y)
    return score


# Comparison


class Scores:
    """Scores on one set of tables, by measure, table and method; the fast preset is no competitor.

    `names` are the tables of the set, and `tables` those of them that have a result.
    """

    def __init__(self, scores: Iterable[Score], names: Sequence[str] = data.NAMES) -> None:
        self.names = names
        of_set = [score for score in scores if score["table"] in names]
        self.capped = [score for score in of_set if "capped" in score]
        self.scores = [score for score in of_set if "capped" not in score]
        methods = dict.fromkeys(score["method"] for score in self.scores)
        self.methods = [method for method in methods if method != FAST]
        known = {score["table"] for score in self.scores}
        self.tables = [name for name in names if name in known]

    def of(self, measure: str, table: str, method: str) -> dict[int, float]:
        """The value on each split."""
        return {
            score["split"]: score[measure]
            for score in self.scores
            if (score["table"], score["method"]) == (table, method) and measure in score
        }

    def means(self, measure: str, table: str) -> dict[str, float]:
        """Means over those splits that all methods with any result have."""
        found = {method: self.of(measure, table, method) for method in self.methods}
        found = {method: values for method, values in found.items() if values}
        common = set.intersection(*map(set, found.values())) if found else set()
        return {m: statistics.fmean(v[s] for s in common) for m, v in found.items() if common}

    def error(self, measure: str, table: str, method: str) -> float:
        """The standard error of a mean over splits."""
        values = list(self.of(measure, table, method).values())
        return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def verdict(scores: Scores, measure: str, table: str) -> bool | None:
    """Whether ours is the best or within one standard error of the best."""
    means = scores.means(measure, table)
    if OURS not in means:
        return None
    best = min(means, key=lambda method: means[method])
    return means[OURS] <= means[best] + scores.error(measure, table, best)


def mean_ranks(scores: Scores, measure: str, methods: Sequence[str]) -> dict[str, float]:
    """The mean place of each method among those that have a result."""
    places: dict[str, list[int]] = {method: [] for method in methods}
    for table in scores.tables:
        means = {m: v for m, v in scores.means(measure, table).items() if m in places}
        if OURS in means:
            for place, method in enumerate(sorted(means, key=lambda m: means[m]), 1):
                places[method].append(place)
    return {method: statistics.fmean(found) for method, found in places.items() if found}


def width_at(pairs: Sequence[Sequence[float]], coverage: float) -> float:
    """The mean width of intervals with that coverage, straight between those that are known."""
    covered, widths = np.array(pairs).T
    return float(np.interp(coverage, np.maximum.accumulate(covered), widths))


# The table


def measure_table(scores: Scores, measure: str) -> list[str]:
    """One line for each data table, with the best in bold, and what it comes to."""
    found = [m for m in scores.methods if any(scores.of(measure, t, m) for t in scores.tables)]
    methods = [OURS, *(m for m in found if m != OURS)]
    lines = [f"## {TITLES[measure]}", "", "| table | " + " | ".join(methods) + " | |"]
    lines.append("|---|" + "---:|" * len(methods) + "---|")
    verdicts = []
    for table in scores.tables:
        means = {m: v for m, v in scores.means(measure, table).items() if m in methods}
        if OURS not in means:
            continue
        best, verdict_here = min(means.values()), verdict(scores, measure, table)
        verdicts.append(verdict_here)
        cells = [_cell(means.get(method), best) for method in methods]
        lines.append(
            f"| {table} | " + " | ".join(cells) + f" | {'yes' if verdict_here else 'no'} |"
        )
    ranks = mean_ranks(scores, measure, methods)
    cells = [f"{ranks[m]:.2f}" if m in ranks else "" for m in methods]
    lines.append("| mean rank | " + " | ".join(cells) + " | |")
    share = f"{sum(map(bool, verdicts))} of {len(verdicts)}"
    return [*lines, "", f"Best, or within one standard error of the best, on {share} tables.", ""]


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if value < 10_000 else f"{value:.0f}"
    return f"**{text}**" if value == best else text


def interval_table(scores: Scores) -> list[str]:
    """Our 90% intervals, and the widths of the others' at the same coverage."""
    others = [m for m in scores.methods if m != OURS]
    others = [m for m in others if any(scores.of("intervals", t, m) for t in scores.tables)]
    head = f"| table | coverage (splits) | width | {' | '.join(others)} |"
    lines = ["## 90% intervals", "", head]
    lines.append("|---|---:|---:|" + "---:|" * len(others))
    for table in scores.tables:
        ours = scores.of("interval", table, OURS)
        if not ours:
            continue
        coverage = statistics.fmean(pair[0] for pair in ours.values())  # type: ignore[index]
        theirs = [found for m in others if (found := scores.of("intervals", table, m))]
        compared = {s: pair for s, pair in ours.items() if all(s in found for found in theirs)}
        width = statistics.fmean(pair[1] for pair in compared.values())  # type: ignore[index]
        cells = [_width(scores, table, method, compared) for method in others]
        covered = f"{coverage:.1%} ({len(ours)})"
        lines.append(f"| {table} | {covered} | {width:.4g} | " + " | ".join(cells) + " |")
    notes = (
        "The others' widths are those of their central intervals at our coverage, split by split.",
    )
    return [*lines, "", *notes, ""]


def _width(scores: Scores, table: str, method: str, ours: dict[int, Any]) -> str:
    theirs: dict[int, Any] = scores.of("intervals", table, method)
    common = sorted(set(ours) & set(theirs))
    if not common:
        return ""
    return f"{statistics.fmean(width_at(theirs[s], ours[s][0]) for s in common):.4g}"


def time_table(scores: Scores) -> list[str]:
    """Seconds of one core, and what was capped."""
    methods = [*scores.methods, FAST]
    lines = ["## Seconds", "", "| table | " + " | ".join(methods) + " |"]
    lines.append("|---|" + "---:|" * len(methods))
    for table in scores.tables:
        cells = [_seconds(scores, table, method) for method in methods]
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    if any("+" in line for line in lines):
        lines += ["", *OLDER]
    notes = [f"- {s['method']} on {s['table']}, split {s['split']}: ended" for s in scores.capped]
    return [*lines, "", *(["Fits that were ended at the limit:", *notes, ""] if notes else [])]


def _seconds(scores: Scores, table: str, method: str) -> str:
    found = scores.of("seconds", table, method)
    warm = scores.of("warm", table, method)
    used = [found[split] for split in (warm or found)]
    return f"{statistics.fmean(used):.0f}{'' if warm else '+'}" if used else ""


def fast_table(scores: Scores) -> list[str]:
    """What the fast preset saves and costs."""
    rows = {table: _fast(scores, table) for table in scores.tables}
    rows = {table: shares for table, shares in rows.items() if len(shares) == 2}
    parts = list(zip(*rows.values(), strict=True))  # of all tables: MAE, and time
    if rows:
        rows["median"] = [statistics.median(part) for part in parts]
        rows["geometric mean"] = [statistics.geometric_mean(part) for part in parts]
    lines = [f"| {name} | {mae:.2f} | {time:.2f} |" for name, (mae, time) in rows.items()]
    head = ["## The fast preset", "", "| table | MAE | time |", "|---|---:|---:|"]
    return [*head, *lines, "", "Both as shares of the default's, on the same splits.", ""]


def _fast(scores: Scores, table: str) -> list[float]:
    """The fast preset's MAE and seconds over the default's, where both have been run."""
    shares = []
    for measure in ("mae", "seconds"):
        fast, usual = (scores.of(measure, table, method) for method in (FAST, OURS))
        if common := set(fast) & set(usual):
            shares.append(sum(fast[s] for s in common) / sum(usual[s] for s in common))
    return shares


def summary(scores: Scores) -> dict[str, Any]:
    """For each method, medians over tables of its errors as multiples of ours, and mean ranks."""
    methods = [OURS, *(method for method in scores.methods if method != OURS)]
    return {
        "tables": len(scores.tables),
        "best": {m: sum(bool(verdict(scores, m, t)) for t in scores.tables) for m in MEASURES},
        "rows": [{"method": method} | _summary_of(scores, method) for method in methods],
    }


def _summary_of(scores: Scores, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure in MEASURES:
        means = [scores.means(measure, table) for table in scores.tables]
        ratios = [m[method] / m[OURS] for m in means if method in m and OURS in m]
        if ratios:
            rank = mean_ranks(scores, measure, scores.methods)[method]
            ratio = statistics.median(ratios)
            found[measure] = {"tables": len(ratios), "ratio": ratio, "rank": rank}
    return found


def heldout_summary(scores: Scores) -> dict[str, Any]:
    """The figures of `summary`: medians over tables of a method's errors as multiples of ours.

    An error of a method on a table is its mean over splits. `ours_best` counts the tables on which
    ours is best or within one standard error of the best.
    """
    found = summary(scores)
    rows = [
        {"method": row["method"]}
        | {measure: row[measure]["ratio"] if measure in row else None for measure in MEASURES}
        | {"tables": max(row[measure]["tables"] for measure in MEASURES if measure in row)}
        for row in found["rows"]
    ]
    return {"tables": found["tables"], "rows": rows, "ours_best": found["best"]}


def few_rows_summary(scores: Scores) -> dict[str, Any]:
    """For each method the geometric means over tables of its errors as multiples of ours.

    `ours_near` counts the tables on which ours is the lowest error or within 2% of it.
    """
    means = {m: [scores.means(m, table) for table in scores.tables] for m in MEASURES}
    near = {m: sum(found[OURS] <= NEAR * min(found.values()) for found in means[m]) for m in means}
    methods = [OURS, *(method for method in scores.methods if method != OURS)]
    rows = [{"method": method} | _mean_ratios(means, method) for method in methods]
    return {"tables": len(scores.tables), "rows": rows, "ours_near": near}


def _mean_ratios(means: dict[str, list[dict[str, float]]], method: str) -> dict[str, Any]:
    ratios = {m: [one[method] / one[OURS] for one in means[m] if method in one] for m in means}
    found = {m: statistics.geometric_mean(each) if each else None for m, each in ratios.items()}
    return found | {"tables": max(map(len, ratios.values()))}


def main() -> None:
    """Score what is new, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("build/accuracy"))
    store = parser.parse_args().store
    record = HERE / "scores.json"
    known: list[Score] = json.loads(record.read_text()) if record.exists() else []
    found = [scored(path) for path in sorted(store.glob("*.npz"))]
    merged = {_key(score): score for score in [*known, *found]}
    everything = [merged[name] for name in sorted(merged)]
    record.write_text(json.dumps(everything, indent=0) + "\n")
    (HERE / "table.md").write_text("\n".join(page(everything)).rstrip() + "\n")
    _write("accuracy.json", summary(Scores(everything)))
    if (heldout := Scores(everything, data.HELDOUT)).tables:
        _write("heldout.json", heldout_summary(heldout))
    sets = {name: Scores(everything, data.SETS[name]) for name in ("small", "heldout")}
    few = {name: few_rows_summary(scores) for name, scores in sets.items() if scores.tables}
    _write("few_rows.json", few)


def _key(score: Score) -> tuple[int, str, str, int]:
    """What a score is of, in the order of the record: one set of tables after the other."""
    table = score["table"]
    place = next(place for place, names in enumerate(data.SETS.values()) if table in names)
    return place, table, score["method"], score["split"]


def _write(name: str, record: dict[str, Any]) -> None:
    (RESULTS / name).write_text(json.dumps(record, indent=1) + "\n")


def page(everything: Sequence[Score]) -> list[str]:
    """The whole table in Markdown."""
    lines: list[str] = []
    for name, head in HEADS.items():
        if (scores := Scores(everything, data.SETS[name])).tables or not lines:
            lines += [*head, "", *section(scores)]
    return lines


def section(scores: Scores) -> list[str]:
    """All about one set of tables."""
    lines = [*progress(scores), ""]
    for measure in TITLES:
        lines += measure_table(scores, measure)
    return lines + interval_table(scores) + fast_table(scores) + time_table(scores)


def progress(scores: Scores) -> list[str]:
    """On how many splits each table's means rest, and what is left to run."""
    ours = {table: len(scores.of("mae", table, OURS)) for table in scores.names}
    methods = [m for m in scores.methods if m != OURS]
    common = {t: [len(scores.of("mae", t, m)) for m in methods] for t in ours}
    counts = {t: min([n, *(c for c in common[t] if c)]) for t, n in ours.items() if n}
    used = ", ".join(f"{table} {count}" for table, count in counts.items())
    left = ", ".join(table for table, count in ours.items() if not count)
    absent = ", ".join(method for method in peers.PEERS if method not in scores.methods)
    return [
        f"Splits that all methods with a result have: {used}.",
        f"Not run yet: {left or 'none'}.",
        *([f"Methods that were not run: {absent}."] if absent else []),
    ]


OLDER = (
    "+ of an earlier machine, which was slower by about a half, and most with the time in which",
    "libraries are loaded, 1 to 6 seconds.",
)
HEAD = (
    "# Accuracy at the defaults",
    "",
    "Made by `table.py` from scores.json; `run.py` fits the models. Means over random 80/20",
    "splits, without the test rows that also stand in the training part. Every method is at its",
    "defaults; LightGBM 500 has 500 trees at a rate of 0.05, and RealMLP quantiles is RealMLP with",
    "pinball losses. The MAE is that of the predicted mean; where a median is predicted as well,",
    "its own is given after the CRPS.",
)

HEAD_OF_SMALL = (
    "# Small tables",
    "",
    "Tables of 55 to 625 rows, on which settings for few rows were chosen. RealMLP with quantiles",
    "and TabM were not run on them.",
)

HEAD_OF_HELDOUT = (
    "# Tables that no choice was made on",
    "",
    "No setting was chosen on these tables. Two of them have columns of text, and four have gaps.",
    "softbins gets both as they are. LightGBM, XGBoost and HistGradientBoosting get text as",
    "categories, and CatBoost gets it as its `cat_features`. RealMLP gets categories, and medians",
    "for gaps in numbers, which it refuses. NGBoost and quantile-forest get one column for each",
    "text, and medians.",
)

HEADS = {"development": HEAD, "small": HEAD_OF_SMALL, "heldout": HEAD_OF_HELDOUT}

if __name__ == "__main__":
    main()
