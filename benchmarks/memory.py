"""Peak memory of fitting a table as large as Song Year: 463715 rows, 90 features, 100 bins.

    python benchmarks/memory.py

Memory should grow with the batch, not with rows times bins: the weights of all targets alone
would take 185 MB here in float32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softbins import NeuralRegressor

ROWS, FEATURES = 463_715, 90
LIMIT = 1200  # MB over the data itself


def megabytes(what: str) -> float:
    """A line of this process's status, such as VmRSS (now) or VmHWM (the peak so far)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def main() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((ROWS, FEATURES))
    y = 1922 + 89 * generator.random(ROWS)
    before = megabytes("VmRSS")
    NeuralRegressor("hl-gaussian", (45,) * 4, max_epochs=1, random_state=0).fit(x, y)
    peak = megabytes("VmHWM") - before
    kept = "ok" if peak <= LIMIT else "MISSED"
    print(f"data {x.nbytes / 2**20:.0f} MB, peak of fit over it {peak:.0f} MB  <= {LIMIT}  {kept}")


if __name__ == "__main__":
    main()
