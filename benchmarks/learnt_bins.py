"""Whether learnt bins, a chosen sigma, or other losses beat HL-Gaussian on equal bins.

    python benchmarks/learnt_bins.py DATA     prints a summary, writes results/learnt_bins.json

DATA is the folder of tables that benchmarks/accuracy/data.py describes; only development tables are
read. All methods train the same small network with the same 50 outputs on the same rows. What is
kept is the network of that epoch whose CRPS is best on validation rows. The first and last edge are
the same for all, and targets beyond them count as the end in the log score, so that densities can
be compared.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parent / "accuracy"))
import data

from softbins import Bins, Gaussian, Histogram, HistogramLoss

TABLES = ("bike", "california", "parkinsons", "songs", "pol", "kin40k")
ROWS = (3000, 1000, 2000)  # at most, for training, validation and test
SEEDS, EPOCHS, BATCH, LEARNING_RATE, WIDTH, COUNT = 3, 60, 128, 1e-3, 128, 50
EDGES_RATE = 1e-2
SIGMAS = (0.5, 2.0, 4.0)  # beside 1, in bins, for the choice by validation
SCORES = ("mae", "rmse", "crps", "log_score")
RECORD = Path(__file__).parent.parent / "results" / "learnt_bins.json"

Loss = Callable[[Tensor, Tensor], Tensor]


class Part(NamedTuple):
    """Features and targets, both standardized by the training rows."""

    x: Tensor
    y: Tensor


# Bins


def equal(y: Tensor) -> Bins:
    return Bins.covering(y, COUNT)


def quantile(y: Tensor) -> Bins:
    """As many targets in each bin, between the ends of the equal bins."""
    edges, ends = Bins.quantile(y, COUNT).edges.clone(), equal(y)
    edges[0], edges[-1] = ends.low, ends.high
    return Bins(edges)


class LearntEdges(nn.Module):
    """Edges in order by construction: the widths are shares of the range, by a softmax.

    The loss is -sum_i p_i log(f_i / w_i) of Section 2.2, with the widths that are a constant there.
    The target is a Gaussian of one sigma in the target's unit, whose masses p follow the edges.
    """

    def __init__(self, start: Bins, sigma: float) -> None:
        super().__init__()
        self.low, self.high, self.sigma = start.low, start.high, sigma
        self.logits = nn.Parameter((start.widths / (start.high - start.low)).log())

    def edges(self) -> Tensor:
        """The edges as they are now."""
        inner = self.low + (self.high - self.low) * torch.softmax(self.logits, 0).cumsum(0)[:-1]
        return torch.cat([inner.new_tensor([self.low]), inner, inner.new_tensor([self.high])])

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        """The mean loss of a batch."""
        edges = self.edges()
        y = y.double().clamp(self.low, self.high).unsqueeze(-1)
        masses = torch.special.ndtr((edges - y) / self.sigma).diff()
        masses = masses / masses.sum(-1, keepdim=True)
        log_density = torch.log_softmax(logits, -1) - edges.diff().log()
        return -(masses * log_density).sum(-1).mean()


# Losses on equal bins


def ordinal(bins: Bins) -> Loss:
    """Cross-entropy of the cumulative probabilities at each inner edge."""
    target = Gaussian.of_bins(1.0)

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        wanted = target.weights(y, bins).cumsum(-1)[:, :-1].clamp(0, 1)
        found = torch.softmax(logits, -1).cumsum(-1)[:, :-1].clamp(1e-6, 1 - 1e-6)
        return nn.functional.binary_cross_entropy(found, wanted)

    return loss


def crps(bins: Bins) -> Loss:
    return lambda logits, y: Histogram(bins, logits=logits).crps(y).mean()


def with_crps(bins: Bins, share: float) -> Loss:
    plain, more = HistogramLoss(bins), crps(bins)
    return lambda logits, y: plain(logits, y) + share * more(logits, y)


def with_mean(bins: Bins) -> Loss:
    plain = HistogramLoss(bins)
    return lambda logits, y: (
        plain(logits, y) + (Histogram(bins, logits=logits).mean - y).square().mean()
    )


METHODS: dict[str, Callable[[Tensor], tuple[Bins, Loss]]] = {
    "equal bins": lambda y: (equal(y), HistogramLoss(equal(y))),
    **{
        f"sigma of {sigma:g} bins": lambda y, sigma=sigma: (
            equal(y),
            HistogramLoss(equal(y), Gaussian.of_bins(sigma)),
        )
        for sigma in SIGMAS
    },
    "quantile bins": lambda y: (quantile(y), HistogramLoss(quantile(y))),
    "quantile bins, one sigma": lambda y: (
        quantile(y),
        HistogramLoss(quantile(y), Gaussian(equal(y).step)),
    ),
    "learnt bins, equal at first": lambda y: (equal(y), LearntEdges(equal(y), equal(y).step)),
    "learnt bins, quantiles at first": lambda y: (
        quantile(y),
        LearntEdges(quantile(y), equal(y).step),
    ),
    "cumulative cross-entropy": lambda y: (equal(y), ordinal(equal(y))),
    "CRPS": lambda y: (equal(y), crps(equal(y))),
    "cross-entropy + CRPS": lambda y: (equal(y), with_crps(equal(y), 1.0)),
    "cross-entropy + 10 CRPS": lambda y: (equal(y), with_crps(equal(y), 10.0)),
    "cross-entropy + squared error": lambda y: (equal(y), with_mean(equal(y))),
}


# Training


def parts(folder: Path, name: str, seed: int) -> tuple[list[Part], float]:
    """Training, validation and test rows, and the unit of the target."""
    x, y = data.load(folder, name)
    order = np.random.default_rng(seed).permutation(len(y))
    ends = np.cumsum([min(most, len(y) * most // sum(ROWS)) for most in ROWS])
    rows = np.split(order[: ends[-1]], ends[:-1])
    center, scale = x[rows[0]].mean(0), x[rows[0]].std(0) + 1e-12
    middle, unit = y[rows[0]].mean(), y[rows[0]].std()
    return [
        Part(
            torch.from_numpy((x[part] - center) / scale).float().clamp(-5, 5),
            torch.from_numpy((y[part] - middle) / unit).float(),
        )
        for part in rows
    ], float(unit)


def scores(bins: Bins, logits: Tensor, y: Tensor) -> dict[str, float]:
    predicted = Histogram(bins, logits=logits)
    miss = predicted.mean - y
    return {
        "mae": miss.abs().mean().item(),
        "rmse": miss.square().mean().sqrt().item(),
        "crps": predicted.crps(y).mean().item(),
        "log_score": -predicted.log_prob(y.clamp(bins.low, bins.high)).mean().item(),
    }


def fitted(
    method: str, seed: int, train: Part, validation: Part, test: Part
) -> tuple[dict[str, float], dict[str, float]]:
    """Scores on the validation and test rows, of the epoch that is best on the former."""
    torch.manual_seed(seed)
    bins, loss = METHODS[method](train.y)
    net = nn.Sequential(
        *(nn.Linear(train.x.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, COUNT),
    )
    groups = [{"params": net.parameters()}]
    if isinstance(loss, LearntEdges):
        groups.append({"params": loss.parameters(), "lr": EDGES_RATE})
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)
    best = dict.fromkeys(SCORES, math.inf)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(train.y)).split(BATCH):
            optimizer.zero_grad()
            loss(net(train.x[rows]), train.y[rows]).backward()
            optimizer.step()
        now = Bins(loss.edges().detach()) if isinstance(loss, LearntEdges) else bins
        with torch.no_grad():
            found = scores(now, net(validation.x), validation.y)
        if found["crps"] < best["crps"]:
            best, kept = found, (now, copy.deepcopy(net))
    with torch.no_grad():
        return best, scores(kept[0], kept[1](test.x), test.y)


def measured(folder: Path) -> dict[str, object]:
    rows = []
    for table in TABLES:
        for seed in range(SEEDS):
            (train, validation, test), unit = parts(folder, table, seed)
            found = {name: fitted(name, seed, train, validation, test) for name in METHODS}
            chosen = with_best_sigma(found)
            rows += [
                {"table": table, "seed": seed, "method": method, **in_unit(both[1], unit)}
                for method, both in chosen.items()
            ]
            print(table, seed, {name: round(both[1]["crps"], 4) for name, both in chosen.items()})
    return {"training_rows": ROWS[0], "bins": COUNT, "seeds": SEEDS, "rows": rows}


def with_best_sigma(found: dict[str, tuple]) -> dict[str, tuple]:
    """One method in the place of those that differ in sigma, by the validation's CRPS."""
    sigmas = [f"sigma of {sigma:g} bins" for sigma in SIGMAS]
    best = min(["equal bins", *sigmas], key=lambda name: found[name][0]["crps"])
    others = {name: both for name, both in found.items() if name not in sigmas}
    return {**others, "equal bins, sigma by validation": found[best]}


def in_unit(found: dict[str, float], unit: float) -> dict[str, float]:
    """Scores in the target's own unit."""
    own = {name: unit * found[name] for name in ("mae", "rmse", "crps")}
    own["log_score"] = found["log_score"] + math.log(unit)
    return {name: float(f"{value:.6g}") for name, value in own.items()}


def summary(record: dict[str, object]) -> dict[str, dict[str, float]]:
    """Each method beside equal bins over all tables: ratios, and differences of log scores.

    The spread is the standard error over tables of the mean over a table's runs.
    """
    by_table: dict[tuple[str, str], list[list[float]]] = {}
    for row in record["rows"]:
        key = row["method"], row["table"]
        by_table.setdefault(key, []).append([row[name] for name in SCORES])
    tables = list(dict.fromkeys(table for _, table in by_table))
    found = {}
    for method in dict.fromkeys(method for method, _ in by_table):
        change = np.array([beside(by_table, method, table) for table in tables])
        mean, error = change.mean(0), change.std(0, ddof=1) / math.sqrt(len(tables))
        found[method] = {
            **{name: float(value) for name, value in zip(SCORES, mean, strict=True)},
            **{f"{name}_error": float(value) for name, value in zip(SCORES, error, strict=True)},
            **{
                f"{name}_better": int(n)
                for name, n in zip(SCORES, (change < 0).sum(0), strict=True)
            },
        }
    return found


def beside(by_table: dict, method: str, table: str) -> np.ndarray:
    """Logarithms of ratios of the mean scores, and the difference of the log scores."""
    ours, base = (np.mean(by_table[name, table], 0) for name in (method, "equal bins"))
    return np.append(np.log(ours[:3] / base[:3]), ours[3] - base[3])


def main() -> None:
    torch.set_num_threads(1)
    record = measured(Path(sys.argv[1]))
    record["summary"] = summary(record)
    RECORD.write_text(json.dumps(record) + "\n")
    for method, row in record["summary"].items():
        print(f"{method:34s}", *(f"{name} {row[name]:+.4f}" for name in SCORES))


if __name__ == "__main__":
    main()
