"""Targets whose scale or place changes in training: a support that moves beside other remedies.

    python benchmarks/moving_support.py     prints a table, writes results/moving_support.json
                                            and draws results/moving_support.svg from it

A small network sees new rows at every step. In "grows" the target becomes a thousand times as large
over two thirds of the steps; in "jumps" it is moved by a hundred of its standard deviations half of
the way. The error of a step is that of its rows before they are learnt from, as a share of the
target's present standard deviation. Also kept is how far the mean of a row moved at most when the
support did, as a share of its length.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from softbins import Bins, Gaussian, HistogramHead

STEPS, BATCH, SEEDS, LEARNING_RATE = 2100, 128, 3, 2e-3
BLOCKS = 21  # of steps, the mean error of each of which is kept
GROWTH, JUMP = 1000.0, 100.0
SIGMA = Gaussian.of_bins(0.75)
WIDTH, BINS = 64, 100
RESULTS = Path(__file__).parent.parent / "results"


class Normalized(nn.Module):
    """A single number, learnt by squared error on targets that are standardized as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 1)
        self.mean, self.variance = 0.0, 1.0

    def predict(self, x: Tensor) -> Tensor:
        """The number, in the target's unit."""
        return self.linear(x).squeeze(-1) * self.variance**0.5 + self.mean

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The squared error of standardized targets."""
        self.mean += 0.01 * (y.mean().item() - self.mean)
        self.variance += 0.01 * ((y - self.mean).square().mean().item() - self.variance)
        return (self.linear(x).squeeze(-1) - (y - self.mean) / self.variance**0.5).square().mean()


def head(bins: Bins, spare: int = 0) -> HistogramHead:
    return HistogramHead(WIDTH, bins, SIGMA, spare=spare, zero_init=True)


# All histograms have as many outputs. The fixed range has to be known, and fits both experiments.
METHODS: dict[str, Callable[[], nn.Module]] = {
    "moving support": lambda: head(Bins.uniform(-2.0, 2.0, BINS), spare=BINS),
    "fixed wide range": lambda: head(Bins.uniform(-2.5 * GROWTH, 2.5 * GROWTH, 2 * BINS)),
    "symlog bins": lambda: head(Bins.symlog(20.0, 2 * BINS + 1)),
    "l2, running normalization": Normalized,
}


def target(x: Tensor, experiment: str, step: int) -> tuple[Tensor, float]:
    """The targets of some rows at a step, and their standard deviation."""
    plain, deviation = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2], 0.81
    if experiment == "jumps":
        return plain + (JUMP * deviation if step >= STEPS // 2 else 0.0), deviation
    scale = GROWTH ** min(1.0, 1.5 * step / STEPS)
    return plain * scale, deviation * scale


@torch.no_grad()
def change(head: HistogramHead, features: Tensor, y: Tensor) -> float:
    """How far the means of some rows move with the support, if that moves for these targets."""
    before = head(features).mean
    if not head.observe(y):
        return 0.0
    return ((head(features).mean - before).abs().max() / (head.bins.high - head.bins.low)).item()


def run(method: str, experiment: str, seed: int) -> tuple[list[float], float]:
    """The mean error of each block of steps, and the largest change when a support moved."""
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    last = METHODS[method]()
    optimizer = torch.optim.Adam([*body.parameters(), *last.parameters()], lr=LEARNING_RATE)
    found, most = [], 0.0
    for step in range(STEPS):
        x = 2 * torch.rand(BATCH, 4) - 1
        y, deviation = target(x, experiment, step)
        features = body(x)
        with torch.no_grad():
            plain = isinstance(last, Normalized)
            predicted = last.predict(features) if plain else last(features).mean
            found.append((predicted - y).abs().mean().item() / deviation)
        if method == "moving support":
            most = max(most, change(last, features, y))
        optimizer.zero_grad()
        last.loss(features, y).backward()
        optimizer.step()
    return torch.tensor(found).view(BLOCKS, -1).mean(-1).tolist(), most


def measured() -> dict[str, object]:
    curves, changes = {}, {}
    for experiment in ("grows", "jumps"):
        runs = {
            method: [run(method, experiment, seed) for seed in range(SEEDS)] for method in METHODS
        }
        curves[experiment] = {name: [errors for errors, _ in each] for name, each in runs.items()}
        changes[experiment] = [most for _, most in runs["moving support"]]
    return {"steps": STEPS, "seeds": SEEDS, "curves": curves, "changes": changes}


def draw(record: dict[str, object], path: Path) -> None:
    import matplotlib.pyplot as plt

    from softbins._core.figures import style

    with style():
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.3), sharey=True, layout="constrained")
        for axis, (experiment, curves) in zip(axes, record["curves"].items(), strict=True):
            for (method, runs), line in zip(curves.items(), ("-", "--", ":", "-."), strict=True):
                mean = torch.tensor(runs).mean(0)
                places = (torch.arange(len(mean)) + 0.5) * record["steps"] / len(mean)
                axis.plot(places, mean, line, label=method)
            axis.set(yscale="log", xlabel="step", title=f"the target {experiment}")
        axes[0].set_ylabel("error / standard deviation")
        axes[0].legend(fontsize=8)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def main() -> None:
    path = RESULTS / "moving_support.json"
    if sys.argv[1:] != ["--draw"]:
        path.write_text(json.dumps(measured()) + "\n")
    record = json.loads(path.read_text())
    for experiment, curves in record["curves"].items():
        for method, runs in curves.items():
            mean = torch.tensor(runs).mean(0)
            figures = f"{mean.mean():8.3f} on average {mean[-1]:8.3f} at last"
            print(f"{experiment:8s}{method:28s}{figures}")
    draw(record, RESULTS / "moving_support.svg")


if __name__ == "__main__":
    main()
