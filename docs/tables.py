"""Write the tables in README.md from the records in results/: `make docs`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->` and comes from results/NAME.json,
so that no figure is ever typed. The tests compare README.md with what this script would write.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def demo(record: dict[str, Any]) -> str:
    """Scores of the demo: a row for each method, a column for each score."""
    scores = list(dict.fromkeys(row["score"] for row in record["scores"]))
    methods = list(dict.fromkeys(row["method"] for row in record["scores"]))
    cells = {(row["method"], row["score"]): row for row in record["scores"]}

    def cell(method: str, score: str) -> str:
        row = cells.get((method, score))
        return f"{row['mean']:.3f} ± {row['stderr']:.3f}" if row else ""

    rows = [[method, *(cell(method, score) for score in scores)] for method in methods]
    return table([f"{record['data']}, {record['scores'][0]['runs']} runs", *scores], rows)


def loss_speed(record: dict[str, Any]) -> str:
    """Times of the loss and its peers: a row for each batch size."""
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


def training_speed(record: dict[str, Any]) -> str:
    """Milliseconds per training step and model: a row for each contestant."""
    names = list(record["rows"][0]["milliseconds"])
    rows = [
        [name, *(f"{row['milliseconds'][name]:.2f}" for row in record["rows"])] for name in names
    ]
    return table(["ms per step and model", *(row["shape"] for row in record["rows"])], rows)


RENDER = {"demo": demo, "loss_speed": loss_speed, "training_speed": training_speed}


def rendered(text: str) -> str:
    """`text` with every table made anew from its record."""

    def fill(match: re.Match[str]) -> str:
        record = json.loads((ROOT / "results" / f"{match[2]}.json").read_text())
        return match[1] + RENDER[match[2]](record) + match[3]

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(rendered(readme.read_text()))
    print(f"wrote the tables of {readme.name}")
