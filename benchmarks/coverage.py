"""What predicted quantiles hold: the share of new targets between them, beside what they promise.

    python benchmarks/coverage.py --repetitions 40      simulated tables, hours
    python benchmarks/coverage.py --data FOLDER         the tables of benchmarks/accuracy

Each simulated table is one of six kinds of noise, with 100, 300 or 2000 rows to learn from and 2000
to judge by. Where a value has a probability of its own, such as whole numbers have, no interval can
hold exactly 90%: the share of its probability that lies between the two levels counts then
(`scores.reliability`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softbins import HistogramRegressor, scores

Array = NDArray[np.float64]

KINDS = ("even", "uneven", "heavy-tailed", "zero-inflated", "counts", "bimodal")
ROWS, NEW_ROWS = (100, 300, 2000), 2000
PRESETS = ("default", "fast")
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MIN_TEST_ROWS = 500


def simulated(kind: str, rows: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Features (rows, 4) and targets (rows,) with one of the kinds of noise."""
    x = random.uniform(-1, 1, (rows, 4))
    signal, noise = np.sin(3 * x[:, 0]) + x[:, 1] ** 2, random.normal(size=rows)
    if kind == "even":
        return x, signal + 0.5 * noise
    if kind == "uneven":
        return x, signal + (0.1 + 0.9 * (x[:, 2] > 0) * np.abs(x[:, 0])) * noise
    if kind == "heavy-tailed":
        return x, signal + 0.3 * random.standard_t(2, size=rows)
    if kind == "zero-inflated":
        is_zero = random.uniform(size=rows) < 0.6 - 0.2 * x[:, 2]
        return x, np.where(is_zero, 0.0, np.exp(signal + 0.5 * noise))
    if kind == "counts":
        return x, random.poisson(np.exp(signal)).astype(float)
    side = np.where(random.uniform(size=rows) < 0.5, 2, -2) * (x[:, 2] > -0.5)
    return x, signal + side + 0.2 * noise


def coverage(
    kind: str, rows: int, preset: str, repetitions: int, levels: Sequence[float] = LEVELS
) -> Array:
    """The mean coverage at each level over fits to tables of their own."""
    found = []
    for repetition in range(repetitions):
        random = np.random.default_rng([KINDS.index(kind), rows, repetition])
        x, y = simulated(kind, rows, random)
        model = HistogramRegressor(preset=preset, random_state=repetition).fit(x, y)
        x, y = simulated(kind, NEW_ROWS, random)
        found.append(scores.reliability(model.predict_distribution(x), y, levels).observed)
    result: Array = np.mean(found, axis=0)
    return result


def simulated_lines(repetitions: int) -> Iterator[str]:
    """A table in Markdown, line by line."""
    yield _line("noise", "rows", "preset", *(f"{level:.0%}" for level in LEVELS))
    yield _line(*["---"] * (3 + len(LEVELS)))
    for preset in PRESETS:
        for rows in ROWS:
            for kind in KINDS:
                found = coverage(kind, rows, preset, repetitions)
                yield _line(kind, rows, preset, *(f"{share:.1%}" for share in found))


def table_lines(folder: Path) -> Iterator[str]:
    """The same for the development and the held-out tables with rows enough to judge by."""
    sys.path.insert(0, str(Path(__file__).parent / "accuracy"))
    import data

    yield _line("table", "test rows", *(f"{level:.0%}" for level in LEVELS))
    yield _line(*["---"] * (2 + len(LEVELS)))
    for name in (*data.NAMES, *data.HELDOUT):
        split = data.split(*data.load(folder, name), 0)
        if len(split.y_test) >= MIN_TEST_ROWS:
            model = HistogramRegressor(random_state=0).fit(split.x, split.y)
            predicted = model.predict_distribution(split.x_test)
            found = scores.reliability(predicted, split.y_test, LEVELS).observed
            yield _line(name, len(split.y_test), *(f"{share:.1%}" for share in found))


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=40, help="tables of each kind")
    parser.add_argument("--data", type=Path, help="folder of the tables of benchmarks/accuracy")
    chosen = parser.parse_args()
    lines = table_lines(chosen.data) if chosen.data else simulated_lines(chosen.repetitions)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
