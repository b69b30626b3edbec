"""Write the tables in README.md and docs/ from the records in results/: `make docs`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->` and comes from results/NAME.json
or results/bike/, so that no figure is ever typed. A table whose record is not made yet says which
command makes it. The tests compare the pages with what this script would write.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softbins.paper.run.plan import SCALES
from softbins.paper.run.store import Store
from softbins.paper.show.cell_text import our_text, printed_text
from softbins.paper.show.paper_tables import main_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
MEASURES = {"mae": "MAE", "rmse": "RMSE", "crps": "CRPS"}
BEST = "softbins is best, or within one standard error"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _record(name: str, results: Path) -> Any:
    return json.loads((results / f"{name}.json").read_text())


def _record_if_made(name: str, results: Path) -> Any:
    return _record(name, results) if (results / f"{name}.json").exists() else None


def bike(results: Path) -> str:
    """Test errors of all methods on Bike Sharing, beside the paper's."""
    found = main_table("bike", SCALES["paper"], Store(results), "honest")
    rows = []
    for row in found.rows:
        cells = [row.cells[metric] for metric in ("test_mae", "test_rmse")]
        figures = [
            text for cell in cells for text in (our_text(cell), printed_text(cell.published))
        ]
        rows.append([row.labels[0], *(text.strip("()") for text in figures)])
    head = ["Bike Sharing, 5 runs", "test MAE", "paper's", "test RMSE", "paper's"]
    return table(head, rows)


def paper_cost(results: Path) -> str:
    """Predicted core-hours of every artefact."""
    hours = _record("paper_cost", results)["core_hours"]
    names = list(next(iter(hours.values())))
    rows = [
        [dataset, *(f"{found[name]:.1f}" for name in names), f"{sum(found.values()):.0f}"]
        for dataset, found in hours.items()
    ]
    return table(["core-hours", *names, "sum"], rows)


def protocol(_results: Path) -> str:
    """How the experiments are run where the paper leaves it open."""
    text = (ROOT / "src/softbins/paper/show/deviations.toml").read_text()
    entries = tomllib.loads(text)["deviation"]
    rows = [[e["point"], e.get("dataset", "all"), e["here"], e["reason"]] for e in entries]
    return table(["point", "dataset", "here", "reason"], rows)


def branches(results: Path) -> str:
    """Scores of the example: a row for each method, a column for each score."""
    record = _record("branches", results)
    scores = list(dict.fromkeys(row["score"] for row in record["scores"]))
    methods = list(dict.fromkeys(row["method"] for row in record["scores"]))
    cells = {(row["method"], row["score"]): row for row in record["scores"]}

    def cell(method: str, score: str) -> str:
        row = cells.get((method, score))
        return f"{row['mean']:.3f} ± {row['stderr']:.3f}" if row else ""

    rows = [[method, *(cell(method, score) for score in scores)] for method in methods]
    return table([f"{record['data']}, {record['scores'][0]['runs']} runs", *scores], rows)


def loss_speed(results: Path) -> str:
    """Times of the loss and its peers: a row for each batch size."""
    record = _record("loss_speed", results)
    names = list(record["rows"][0]["microseconds"])
    rows = [
        [
            str(row["batch"]),
            *(f"{row['microseconds'][name]:.0f} µs" for name in names),
            f"{row['times_floor']:.2f}x the floor, "
            f"{row['times_faster_than_peer']:.2f}x faster than hl-gauss-pytorch",
        ]
        for row in record["rows"]
    ]
    return table(["batch", *names, "softbins is"], rows)


def other_bins_speed(results: Path) -> str:
    """Times of the loss with other bins and sigmas, as multiples: a row for each batch size."""
    rows = _record("loss_speed", results)["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["times_softbins"]))

    def cell(ratio: float | None) -> str:
        return "" if ratio is None else f"{ratio:.2f}x"

    cells = [
        [str(row["batch"]), *(cell(row["times_softbins"].get(name)) for name in names)]
        for row in rows
    ]
    return table(["batch", *names], cells)


def array_libraries(results: Path) -> str:
    """Times of the loss in other libraries: a row for each batch size."""
    rows = _record("array_libraries", results)["rows"]
    names = list(rows[0]["microseconds"])

    def cell(times: dict[str, float], name: str) -> str:
        return f"{times[name]:.0f} µs ({times[name] / times['PyTorch']:.1f}x)"

    cells = [[str(row["batch"]), *(cell(row["microseconds"], n) for n in names)] for row in rows]
    return table(["batch", *names], cells)


def learnt_bins(results: Path) -> str:
    """Other bins and losses beside HL-Gaussian on equal bins: a row for each of them."""
    record = _record("learnt_bins", results)
    tables = len({row["table"] for row in record["rows"]})

    def cells(row: dict[str, float]) -> list[str]:
        ratios = [
            f"{100 * math.expm1(row[name]):+.1f}% ({row[f'{name}_better']})"
            for name in ("mae", "rmse", "crps")
        ]
        return [*ratios, f"{row['log_score']:+.3f} ({row['log_score_better']})"]

    rows = [
        [method, *cells(row)] for method, row in record["summary"].items() if method != "equal bins"
    ]
    return table([f"{tables} tables", "MAE", "RMSE", "CRPS", "log score"], rows)


def moving_support(results: Path) -> str:
    """Errors while a target grows or jumps: a row for each method."""
    record = _record("moving_support", results)
    curves = record["curves"]

    def figures(runs: list[list[float]]) -> list[str]:
        means = [sum(block) / len(runs) for block in zip(*runs, strict=True)]
        return [f"{sum(means) / len(means):.3f}", f"{means[-1]:.3f}"]

    rows = [
        [method, *(text for found in curves.values() for text in figures(found[method]))]
        for method in curves["grows"]
    ]
    head = [f"the target {name}: {part}" for name in curves for part in ("all steps", "at last")]
    changes = max(max(runs) for runs in record["changes"].values())
    note = (
        f"When the support moved, no mean of a row moved by more than {changes:.0e} of its length."
    )
    return table([f"{record['seeds']} runs", *head], rows) + f"\n{note}\n"


def accuracy(results: Path) -> str:
    """HistogramRegressor beside other regressors: a row for each of them."""
    record = _record("accuracy", results)

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
    chosen, record = _record("accuracy", results), _record_if_made("heldout", results)
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
    sets = _record("few_rows", results)
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
    record = _record_if_made("ablation", results)
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
        for name, found in _record("drift", results).items()
    ]
    head = ["90% intervals", "random folds", "folds of groups or time", "recalibrated day by day"]
    return table(head, rows)


def coverage(results: Path) -> str:
    """What central intervals hold on simulated tables: a row for each noise and number of rows."""
    record = _record("coverage", results)
    head = ["noise", "rows", "preset", "fits", *_levels(record)]
    about = ("noise", "rows", "preset", "repetitions")
    rows = [
        [*(str(row[name]) for name in about), *_shares(row["held"])] for row in record["simulated"]
    ]
    return table(head, rows)


def coverage_of_tables(results: Path) -> str:
    """The same on the tables of benchmarks/accuracy with rows enough to judge by."""
    record = _record("coverage", results)
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


def _levels(record: dict[str, Any]) -> list[str]:
    return [f"{level:.0%}" for level in record["levels"]]


def _shares(shares: list[float]) -> list[str]:
    return [f"{share:.1%}" for share in shares]


def _first_share(found: dict[str, float], names: tuple[str, ...]) -> str:
    return next((f"{found[name]:.1%}" for name in names if name in found), "")


HEAVY_TAILS = {"mae": "MAE", "rmse": "RMSE", "median_mae": "MAE of the median"}


def heavy_tails(results: Path) -> str:
    """Our errors on each kind of table as multiples of the best peer's, and who that is."""
    record = _record("heavy_tails", results)
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
    record = _record("many_categories", results)
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
            _thousands(row["rows"]),
            *("" if row[name] is None else f"{row[name]:.2f}" for name in MEASURES),
            f"{row['seconds']:.0f} s",
            "" if row["megabytes"] is None else f"{_thousands(row['megabytes'])} MB",
        ]
        for row in _record("large", results)
    ]
    return table(head, rows)


def scale(results: Path) -> str:
    """Seconds and megabytes of each fit, and as multiples of LightGBM's."""
    rows = _record_if_made("scale", results)
    if rows is None:
        return "The table is made by `make bench-scale`.\n"
    peers = {(r["axis"], r["value"]): r for r in rows if r["method"] == "LightGBM"}
    cells = [
        [
            f"{_thousands(row['value'])} {row['axis']}",
            f"{row['seconds']:.1f} s",
            f"{_thousands(row['megabytes'])} MB",
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
    memory = f"{_thousands(peer['megabytes'])} MB"
    return [f"{peer['seconds']:.1f} s: {ratio:.0f} times as much here", memory]


def jobs(results: Path) -> str:
    """How much faster two jobs are: a row for each table."""
    record = _record_if_made("jobs", results)
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


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def training_speed(results: Path) -> str:
    """Milliseconds per training step and model: a row for each contestant."""
    record = _record("training_speed", results)
    names = list(record["rows"][0]["milliseconds"])
    rows = [
        [name, *(f"{row['milliseconds'][name]:.2f}" for row in record["rows"])] for name in names
    ]
    return table(["ms per step and model", *(row["shape"] for row in record["rows"])], rows)


def onnx(results: Path) -> str:
    """Size and time of one row: each estimator beside its ONNX graph."""
    record = _record("onnx", results)
    rows = [
        [
            f"`{row['model']}`",
            f"{row['model_kilobytes']:.0f} kB",
            f"{row['onnx_kilobytes']:.0f} kB",
            f"{row['estimator_milliseconds']:.1f} ms",
            f"{row['onnxruntime_milliseconds']:.2f} ms",
            f"{row['difference']:.0e}",
        ]
        for row in record["rows"]
    ]
    head = ["model file", "ONNX file", "estimator", "onnxruntime", "difference / deviation"]
    return table([record["data"], *head], rows)


def serving(results: Path) -> str:
    """What a service held: one row for each figure."""
    record = _record_if_made("serving", results)
    if record is None:
        return "The table is made by `make bench-serving`.\n"
    head = f"{record['clients']} clients, {record['seconds']:.0f} s, {record['cores']} cores"
    rows = [
        ["requests", f"{record['requests']}"],
        ["errors", f"{record['errors']}"],
        ["requests per second", f"{record['requests_per_second']:.0f}"],
        ["median latency", f"{record['median_ms']:.0f} ms"],
        ["99% of latencies below", f"{record['p99_ms']:.0f} ms"],
        [
            "processor time per request",
            f"{record['processor_ms_per_request']:.1f} ms",
        ],
        ["memory at the start", f"{record['megabytes_at_start']:.0f} MB"],
        ["memory at the end", f"{record['megabytes_at_end']:.0f} MB"],
        ["from SIGTERM to the end", f"{record['seconds_to_end']:.1f} s"],
        ["load of the machine just before", f"{record['load_before']:.1f} processes"],
    ]
    return table([head, ""], rows)


def prediction_speed(results: Path) -> str:
    """Predictions in a second, and the time for one row, beside LightGBM."""
    record = _record_if_made("prediction_speed", results)
    if record is None:
        return "The table is made by `make bench`.\n"
    rows = [
        [
            row["model"],
            row["what"],
            f"{row['rows_per_second']:,}".replace(",", " "),
            f"{row['one_row_milliseconds']:.2f} ms",
        ]
        for row in record["rows"]
    ]
    return table(["model", "what", "rows in a second", "one row"], rows)


def start_speed(results: Path) -> str:
    """Seconds until a new process has the estimator, beside what it needs in any case."""
    record = _record_if_made("prediction_speed", results)
    if record is None:
        return "The table is made by `make bench`.\n"
    rows = [[f"`{name}`", f"{seconds:.2f} s"] for name, seconds in record["starts"].items()]
    return table(["a new process has", "after"], rows)


def rl_end(results: Path) -> str:
    """Returns of every value head in the last part of training."""
    return _returns(_record("rl", results), "end")


def rl_whole(results: Path) -> str:
    """Returns of every value head over the whole training: the sooner learnt, the higher."""
    return _returns(_record("rl", results), "whole")


def _returns(record: dict[str, Any], score: str) -> str:
    heads = list(dict.fromkeys(head for row in record["rows"] for head in row["heads"]))
    rows = []
    for row in record["rows"]:
        steps = f"{row['steps']:,}".replace(",", " ")
        found = [row["heads"].get(head, {}).get(score) for head in heads]
        cells = [_return(cell, record["seeds"]) if cell else "" for cell in found]
        rows.append([f"{row['algorithm'].upper()}, {row['env']}, {steps} steps", *cells])
    return table(["", *(f"`{head}`" for head in heads)], rows)


def _return(found: dict[str, Any], seeds: int) -> str:
    """A mean and its interval, with an arrow if it is above or below that of l2 beyond chance."""
    arrow = {1: " ▲", 0: "", -1: " ▼"}[found.get("beside_l2", 0)]
    spread = f" ± {found['half_width']:.0f}" if "half_width" in found else ""
    runs = f" ({found['runs']} of {seeds} seeds)" if found["runs"] < seeds else ""
    return f"{found['mean']:.0f}{spread}{arrow}{runs}".replace("-", "−")


RENDER: dict[str, Callable[[Path], str]] = {
    "ablation": ablation,
    "accuracy": accuracy,
    "array_libraries": array_libraries,
    "bike": bike,
    "branches": branches,
    "coverage": coverage,
    "coverage_of_tables": coverage_of_tables,
    "drift": drift,
    "few_rows": few_rows,
    "heavy_tails": heavy_tails,
    "heldout": heldout,
    "jobs": jobs,
    "large": large,
    "learnt_bins": learnt_bins,
    "loss_speed": loss_speed,
    "many_categories": many_categories,
    "moving_support": moving_support,
    "onnx": onnx,
    "other_bins_speed": other_bins_speed,
    "paper_cost": paper_cost,
    "prediction_speed": prediction_speed,
    "protocol": protocol,
    "rl_end": rl_end,
    "rl_whole": rl_whole,
    "scale": scale,
    "serving": serving,
    "start_speed": start_speed,
    "training_speed": training_speed,
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rendered(text: str, results: Path = RESULTS) -> str:
    """`text` with every table made anew from its record."""

    def fill(match: re.Match[str]) -> str:
        return match[1] + RENDER[match[2]](results) + match[3]

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rendered(page.read_text()))
    print("wrote the tables of", len(PAGES), "pages")
