"""Write the tables in README.md and docs/ from the records in results/: `make docs`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->` and comes from results/NAME.json
or results/bike/, so that no figure is ever typed. The tests compare the pages with what this
script would write.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from softbins.paper.run.plan import SCALES
from softbins.paper.run.store import Store
from softbins.paper.show.cell_text import our_text, printed_text
from softbins.paper.show.paper_tables import main_table

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text())
    return record


def bike() -> str:
    """Test errors of all methods on Bike Sharing, beside the paper's."""
    found = main_table("bike", SCALES["paper"], Store(ROOT / "results"), "honest")
    rows = []
    for row in found.rows:
        cells = [row.cells[metric] for metric in ("test_mae", "test_rmse")]
        figures = [
            text for cell in cells for text in (our_text(cell), printed_text(cell.published))
        ]
        rows.append([row.labels[0], *(text.strip("()") for text in figures)])
    head = ["Bike Sharing, 5 runs", "test MAE", "paper's", "test RMSE", "paper's"]
    return table(head, rows)


def paper_cost() -> str:
    """Predicted core-hours of every artefact."""
    hours = _record("paper_cost")["core_hours"]
    names = list(next(iter(hours.values())))
    rows = [
        [dataset, *(f"{found[name]:.1f}" for name in names), f"{sum(found.values()):.0f}"]
        for dataset, found in hours.items()
    ]
    return table(["core-hours", *names, "sum"], rows)


def protocol() -> str:
    """How the experiments are run where the paper leaves it open."""
    text = (ROOT / "src/softbins/paper/show/deviations.toml").read_text()
    entries = tomllib.loads(text)["deviation"]
    rows = [[e["point"], e.get("dataset", "all"), e["here"], e["reason"]] for e in entries]
    return table(["point", "dataset", "here", "reason"], rows)


def branches() -> str:
    """Scores of the example: a row for each method, a column for each score."""
    record = _record("branches")
    scores = list(dict.fromkeys(row["score"] for row in record["scores"]))
    methods = list(dict.fromkeys(row["method"] for row in record["scores"]))
    cells = {(row["method"], row["score"]): row for row in record["scores"]}

    def cell(method: str, score: str) -> str:
        row = cells.get((method, score))
        return f"{row['mean']:.3f} ± {row['stderr']:.3f}" if row else ""

    rows = [[method, *(cell(method, score) for score in scores)] for method in methods]
    return table([f"{record['data']}, {record['scores'][0]['runs']} runs", *scores], rows)


def loss_speed() -> str:
    """Times of the loss and its peers: a row for each batch size."""
    record = _record("loss_speed")
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


def accuracy() -> str:
    """HistogramRegressor beside other regressors: a row for each of them."""
    record = _record("accuracy")
    measures = {"mae": "MAE", "rmse": "RMSE", "crps": "CRPS"}

    def cells(row: dict[str, Any]) -> list[str]:
        found = [row.get(measure) for measure in measures]
        ratios = [f"{f['ratio']:.2f}" if f else "" for f in found]
        ranks = [f"{f['rank']:.1f}" if f else "" for f in found]
        return [str(max(f["tables"] for f in found if f)), *ratios, *ranks]

    rows = [[row["method"], *cells(row)] for row in record["rows"]]
    best = [f"{record['best'][measure]} of {record['tables']}" for measure in measures]
    last = ["softbins is best, or within one standard error", "", *best, "", "", ""]
    names = list(measures.values())
    return table(["", "tables", *names, *(f"rank by {name}" for name in names)], [*rows, last])


def training_speed() -> str:
    """Milliseconds per training step and model: a row for each contestant."""
    record = _record("training_speed")
    names = list(record["rows"][0]["milliseconds"])
    rows = [
        [name, *(f"{row['milliseconds'][name]:.2f}" for row in record["rows"])] for name in names
    ]
    return table(["ms per step and model", *(row["shape"] for row in record["rows"])], rows)


RENDER = {
    "accuracy": accuracy,
    "bike": bike,
    "branches": branches,
    "loss_speed": loss_speed,
    "paper_cost": paper_cost,
    "protocol": protocol,
    "training_speed": training_speed,
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rendered(text: str) -> str:
    """`text` with every table made anew from its record."""

    def fill(match: re.Match[str]) -> str:
        return match[1] + RENDER[match[2]]() + match[3]

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rendered(page.read_text()))
    print("wrote the tables of", ", ".join(page.name for page in PAGES))
