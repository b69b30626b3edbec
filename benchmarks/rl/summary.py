"""Means over the seeds of what `run.py` has stored, and the learning curves.

    python summary.py

Writes results/rl.json, from which `make docs` makes the tables, and the figure of the page,
docs/figures/learning-curves.svg.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from run import ENVIRONMENTS, HEADS, ROOT, SEEDS, STEPS, Run
from scipy import stats

from softbins._core.figures import picture, style

STORE = ROOT / "results" / "rl"
WINDOWS = 20  # parts of a training: the points of a curve
LAST = 2  # windows that count as its end
FEWEST = 3  # seeds from which an interval is made
COLORS = dict(zip(HEADS, ("#808080", "#E69F00", "#0072B2", "#009E73", "#CC79A7"), strict=True))

Array = NDArray[np.float64]
Record = dict[str, Any]


def curve(record: Record) -> Array:
    """The mean return of the episodes that ended in each of the windows."""
    ends, returns = np.asarray(record["ends"]), np.asarray(record["returns"])
    window = ((ends - 1) * WINDOWS // record["steps"]).clip(max=WINDOWS - 1)
    return np.array([returns[window == i].mean() for i in range(WINDOWS)])


def curves(algorithm: str, env: str, head: str, store: Path = STORE) -> Array:
    """A row for each seed that has been run."""
    paths = [store / Run(algorithm, env, head, seed).file_name for seed in SEEDS]
    found = [curve(json.loads(path.read_text())) for path in paths if path.exists()]
    return np.array(found).reshape(-1, WINDOWS)


def half_width(values: Array) -> Array:
    """Half of Student's 95% interval of the mean over the first dimension."""
    factor = stats.t.ppf(0.975, len(values) - 1) / np.sqrt(len(values))
    return factor * values.std(0, ddof=1)


def score(values: Array, baseline: Array) -> Record:
    """A mean over the seeds, its interval, and whether it is above (1) or below (-1) that of l2."""
    found = {"runs": len(values), "mean": round(float(values.mean()), 2)}
    if len(values) < FEWEST:
        return found
    return {
        **found,
        "half_width": round(float(half_width(values)), 2),
        "beside_l2": beyond_chance(values, baseline) if len(baseline) >= FEWEST else 0,
    }


def beyond_chance(values: Array, baseline: Array) -> int:
    """The sign of the difference of two means if Welch's test at 5% finds one, else 0."""
    spreads = values.std(ddof=1), baseline.std(ddof=1)
    difference = values.mean() - baseline.mean()
    if not any(spreads) or not difference:
        return int(np.sign(difference))
    parts = zip((values, baseline), spreads, strict=True)
    moments = [number for part, spread in parts for number in (part.mean(), spread, len(part))]
    test = stats.ttest_ind_from_stats(*moments, equal_var=False)
    return int(np.sign(difference)) if test.pvalue < 0.05 else 0


def summary(store: Path = STORE) -> Record:
    """The scores of every head: at the end, and over the whole training."""
    rows = []
    for algorithm, steps in STEPS.items():
        for env in ENVIRONMENTS:
            found = {head: curves(algorithm, env, head, store) for head in HEADS}
            made = {head: values for head, values in found.items() if len(values)}
            heads = {head: _scores(values, found["l2"]) for head, values in made.items()}
            rows.append({"algorithm": algorithm, "env": env, "steps": steps, "heads": heads})
    return {"seeds": len(SEEDS), "last": LAST / WINDOWS, "rows": rows}


def _scores(values: Array, baseline: Array) -> Record:
    return {
        "end": score(values[:, -LAST:].mean(1), baseline[:, -LAST:].mean(1)),
        "whole": score(values.mean(1), baseline.mean(1)),
    }


def draw(store: Path = STORE) -> bytes:
    """The learning curves with their 95% bands, as an SVG file."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with style():
        figure, grid = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
        for row, algorithm in zip(grid, STEPS, strict=True):
            for axes, env in zip(row, ENVIRONMENTS, strict=True):
                _draw_curves(axes, algorithm, env, store)
        _add_legend(figure, grid)
        svg = picture(figure, "svg")
        plt.close(figure)
    return re.sub(rb"(\d\.\d\d)\d+", rb"\1", svg)  # hundredths of a point are seen by nobody


def _add_legend(figure: Any, grid: Any) -> None:
    drawn: dict[str, Any] = {}
    for axes in grid.flat:
        drawn |= {line.get_label(): line for line in axes.get_lines()}
    lines = [drawn[head] for head in HEADS if head in drawn]
    figure.legend(handles=lines, loc="outside upper left", ncols=len(HEADS), frameon=False)


def _draw_curves(axes: Any, algorithm: str, env: str, store: Path) -> None:
    steps = STEPS[algorithm] * (np.arange(WINDOWS) + 0.5) / WINDOWS / 1000
    for head in HEADS:
        values = curves(algorithm, env, head, store)
        if not len(values):
            continue
        mean = values.mean(0)
        axes.plot(steps, mean, color=COLORS[head], linewidth=1.6, label=head)
        if len(values) >= FEWEST:
            ends = mean - half_width(values), mean + half_width(values)
            axes.fill_between(steps, *ends, color=COLORS[head], alpha=0.13, lw=0)
    lowest, highest = (0, 500) if env.startswith("CartPole") else (-500, -50)
    axes.set_ylim(lowest, highest)
    axes.set_title(f"{algorithm.upper()} on {env}", loc="left", fontsize=10)
    axes.set(xlabel="thousand steps", ylabel="return of an episode")


def main() -> None:
    """Write the summary and the figure."""
    record = json.dumps(summary(), indent=1)
    (ROOT / "results" / "rl.json").write_text(record + "\n")
    (ROOT / "docs" / "figures" / "learning-curves.svg").write_bytes(draw())
    print("wrote results/rl.json and docs/figures/learning-curves.svg")


if __name__ == "__main__":
    main()
