"""Targets that arrive in a stream, read by two workers of a DataLoader: python stream.py."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from softbins import Bins, Gaussian, HistogramLoss

BATCH, STEPS, BINS = 64, 300, 64


class Sensor(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """An endless stream; each worker reads a part of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        worker = get_worker_info()
        generator = torch.Generator().manual_seed(self.seed + (worker.id if worker else 0))
        while True:
            x = torch.rand(3, generator=generator)
            noise = 0.05 * torch.randn((), generator=generator)
            yield x, torch.sin(6 * x[0]) + 2 * x[1] * x[2] + noise


def main() -> None:
    torch.manual_seed(0)
    # All that is known before training: the first targets. The room on both sides is for targets
    # that are yet to come; what lies beyond counts as the end of the bins, and is counted.
    first = torch.stack([y for _, y in islice(Sensor(seed=0), 200)])
    bins = Bins.covering(first, BINS, padding=4.0)
    loss = HistogramLoss(bins, Gaussian.of_bins(1.0, outside="clamp"))
    layers = [nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, BINS)]
    network = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    outside = 0
    batches = DataLoader(Sensor(seed=1), BATCH, num_workers=2)
    for x, y in islice(batches, STEPS):
        outside += int(((y < bins.low) | (y > bins.high)).sum())
        optimizer.zero_grad()
        loss(network(x), y).backward()
        optimizer.step()
    print(f"{outside} of {STEPS * BATCH} targets were outside {bins}")

    x_new, y_new = (torch.stack(part) for part in zip(*islice(Sensor(99), 500), strict=True))
    with torch.no_grad():
        error = (loss.distribution(network(x_new)).mean - y_new).abs().mean()
    constant = (first.mean() - y_new).abs().mean()
    print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    main()
