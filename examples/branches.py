"""Train the same small network with l2 and with the Histogram Loss, and plot what each predicts.

    python examples/branches.py

The data is simulated: for x > 0 the target takes one of two branches, so that no single number
describes it. Writes branches.svg and branches.json to build/, or to the folder given as argument.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import matplotlib
import torch
from torch import Tensor, nn

from softbins import Bins, Gaussian, Histogram, HistogramLoss

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "softbins"  # the same picture from the same run

SEEDS = range(3)
EPOCHS, BATCH, ROWS = 100, 256, 6000


def simulate(seed: int, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """A wave that splits into two branches, with noise that grows from left to right."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 1, generator=generator) - 1
    branch = torch.sign(torch.rand(rows, 1, generator=generator) - 0.4)
    noise = (0.1 + 0.1 * (x > 0)) * torch.randn(rows, 1, generator=generator)
    y = torch.sin(5 * x) + 1.4 * branch * x.clamp_min(0) + noise
    return x, y.squeeze(-1)


def network(outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs)
    )


def train(net: nn.Module, loss: nn.Module, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss(net(x[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()


class Squared(nn.Module):
    """The l2 loss of a network with one output."""

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(output.squeeze(-1), y)


def fit_l2(x: Tensor, y: Tensor) -> nn.Module:
    net = network(1)
    train(net, Squared(), x, y)
    return net


def fit_histogram(x: Tensor, y: Tensor) -> tuple[nn.Module, HistogramLoss]:
    loss = HistogramLoss(Bins.covering(y, 100), Gaussian.of_bins(1.0))
    net = network(100)
    train(net, loss, x, y)
    return net, loss


def errors(mean: Tensor, median: Tensor, crps: Tensor, y: Tensor) -> dict[str, float]:
    return {
        "MAE": (median - y).abs().mean().item(),
        "RMSE": (mean - y).square().mean().sqrt().item(),
        "CRPS": crps.mean().item(),
    }


def scores_l2(prediction: Tensor, y: Tensor) -> dict[str, float]:
    """A number is a distribution without width: its CRPS is its absolute error."""
    return errors(prediction, prediction, (prediction - y).abs(), y)


def scores_histogram(predicted: Histogram, y: Tensor) -> dict[str, float]:
    low, high = predicted.interval(0.9)
    result = errors(predicted.mean, predicted.median, predicted.crps(y), y)
    inside = ((low <= y) & (y <= high)).float().mean().item()
    return result | {"90% interval covers": inside}


def run(seed: int) -> tuple[dict[str, dict[str, float]], nn.Module, nn.Module, HistogramLoss]:
    torch.manual_seed(seed)
    (x, y), (x_test, y_test) = simulate(2 * seed), simulate(2 * seed + 1)
    plain = fit_l2(x, y)
    net, loss = fit_histogram(x, y)
    with torch.no_grad():
        scores = {
            "l2": scores_l2(plain(x_test).squeeze(-1), y_test),
            "HL-Gaussian": scores_histogram(loss.distribution(net(x_test)), y_test),
        }
    return scores, plain, net, loss


def averages(runs: list[dict[str, dict[str, float]]]) -> list[dict[str, object]]:
    """Mean and standard error over the runs, one row for each method and score."""
    rows: list[dict[str, object]] = []
    for method, scores in runs[0].items():
        for score in scores:
            values = torch.tensor([r[method][score] for r in runs], dtype=torch.float64)
            spread = (values.std() / len(runs) ** 0.5).item()
            row = {"method": method, "score": score, "mean": values.mean().item()}
            rows.append(row | {"stderr": spread, "runs": len(runs)})
    return rows


@torch.no_grad()
def plot(plain: nn.Module, net: nn.Module, loss: HistogramLoss, path: Path) -> None:
    import matplotlib.pyplot as plt

    x, y = simulate(1, rows=500)
    grid = torch.linspace(-1, 1, 300).unsqueeze(-1)
    predicted = loss.distribution(net(grid))
    low, high = predicted.interval(0.9)
    density = (predicted.probs / loss.bins.widths).T.sqrt()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    left.plot(grid, plain(grid), color="tab:red", lw=2, label="l2: one number")
    extent = (-1, 1, loss.bins.low, loss.bins.high)
    right.imshow(density, origin="lower", aspect="auto", extent=extent, cmap="Blues")
    right.plot(grid, predicted.mean, color="tab:red", lw=2, label="softbins: mean")
    right.plot(grid, low, color="tab:blue", lw=1, ls="--", label="90% interval")
    right.plot(grid, high, color="tab:blue", lw=1, ls="--")
    for axes, title in ((left, "What l2 sees"), (right, "What the Histogram Loss sees")):
        axes.scatter(x, y, s=5, color="0.25", alpha=0.45, lw=0, label="test data", zorder=2)
        axes.set(title=title, xlabel="x", ylim=(-3.1, 2.4), xlim=(-1, 1))
        axes.legend(loc="lower left", fontsize=8, framealpha=0.9)
    left.set_ylabel("y")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    folder.mkdir(parents=True, exist_ok=True)
    start, runs = time.perf_counter(), []
    for seed in SEEDS:
        scores, plain, net, loss = run(seed)
        runs.append(scores)
        print(f"run {seed + 1} of {len(SEEDS)} after {time.perf_counter() - start:.0f} s")
    rows = averages(runs)
    for row in rows:
        print(f"{row['method']:12s} {row['score']:20s} {row['mean']:.4f} ± {row['stderr']:.4f}")
    plot(plain, net, loss, folder / "branches.svg")
    record = {"data": "simulated", "rows": ROWS, "epochs": EPOCHS, "scores": rows}
    (folder / "branches.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"picture: {folder / 'branches.svg'}")


if __name__ == "__main__":
    main()
