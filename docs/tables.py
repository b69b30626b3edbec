"""Write the tables in README.md and docs/ from the records in results/: `make docs`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->` and comes from results/NAME.json
or results/bike/, so that no figure is ever typed. A table whose record is not made yet says which
command makes it. The tests compare the pages with what this script would write.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import regressor_tables
from table_text import read_record, read_record_if_made, table

from softbins.paper.run.plan import SCALES
from softbins.paper.run.store import Store
from softbins.paper.show.cell_text import our_text, printed_text
from softbins.paper.show.paper_tables import main_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


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
    hours = read_record("paper_cost", results)["core_hours"]
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
    record = read_record("branches", results)
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
    record = read_record("loss_speed", results)
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
    rows = read_record("loss_speed", results)["rows"]
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
    rows = read_record("array_libraries", results)["rows"]
    names = list(rows[0]["microseconds"])

    def cell(times: dict[str, float], name: str) -> str:
        return f"{times[name]:.0f} µs ({times[name] / times['PyTorch']:.1f}x)"

    cells = [[str(row["batch"]), *(cell(row["microseconds"], n) for n in names)] for row in rows]
    return table(["batch", *names], cells)


def learnt_bins(results: Path) -> str:
    """Other bins and losses beside HL-Gaussian on equal bins: a row for each of them."""
    record = read_record("learnt_bins", results)
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
    record = read_record("moving_support", results)
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


def training_speed(results: Path) -> str:
    """Milliseconds per training step and model: a row for each contestant."""
    record = read_record("training_speed", results)
    names = list(record["rows"][0]["milliseconds"])
    rows = [
        [name, *(f"{row['milliseconds'][name]:.2f}" for row in record["rows"])] for name in names
    ]
    return table(["ms per step and model", *(row["shape"] for row in record["rows"])], rows)


def onnx(results: Path) -> str:
    """Size and time of one row: each estimator beside its ONNX graph."""
    record = read_record("onnx", results)
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
    record = read_record_if_made("serving", results)
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
    record = read_record_if_made("prediction_speed", results)
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
    record = read_record_if_made("prediction_speed", results)
    if record is None:
        return "The table is made by `make bench`.\n"
    rows = [[f"`{name}`", f"{seconds:.2f} s"] for name, seconds in record["starts"].items()]
    return table(["a new process has", "after"], rows)


def rl_end(results: Path) -> str:
    """Returns of every value head in the last part of training."""
    return _returns(read_record("rl", results), "end")


def rl_whole(results: Path) -> str:
    """Returns of every value head over the whole training: the sooner learnt, the higher."""
    return _returns(read_record("rl", results), "whole")


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
    "ablation": regressor_tables.ablation,
    "accuracy": regressor_tables.accuracy,
    "array_libraries": array_libraries,
    "bike": bike,
    "branches": branches,
    "calibration_map": regressor_tables.calibration_map,
    "coverage": regressor_tables.coverage,
    "coverage_of_tables": regressor_tables.coverage_of_tables,
    "drift": regressor_tables.drift,
    "few_rows": regressor_tables.few_rows,
    "heavy_tails": regressor_tables.heavy_tails,
    "heldout": regressor_tables.heldout,
    "jobs": regressor_tables.jobs,
    "large": regressor_tables.large,
    "learnt_bins": learnt_bins,
    "loss_speed": loss_speed,
    "many_categories": regressor_tables.many_categories,
    "moving_support": moving_support,
    "onnx": onnx,
    "other_bins_speed": other_bins_speed,
    "paper_cost": paper_cost,
    "prediction_speed": prediction_speed,
    "protocol": protocol,
    "rl_end": rl_end,
    "rl_whole": rl_whole,
    "scale": regressor_tables.scale,
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
