"""Processes that share each batch: torchrun --nproc-per-node 2 distributed.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from softbins import Bins, Gaussian, HistogramLoss

EPOCHS, BATCH, BINS = 8, 64, 64  # the batch of all processes together


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(rows, 3)
    return x, torch.sin(6 * x[:, 0]) + 2 * x[:, 1] * x[:, 2] + 0.05 * torch.randn(rows)


def mean_of_all(value: torch.Tensor) -> float:
    """The mean of what each process has."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)  # the same data and the same first weights everywhere
    (x, y), (x_new, y_new) = data(1024), data(300)
    # Bins have to be those of all rows, not of this process's share.
    loss = HistogramLoss(Bins.covering(y, BINS), Gaussian.of_bins(1.0))
    layers = [nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, BINS)]
    network = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    rows = TensorDataset(x, y)
    sampler = DistributedSampler(rows, seed=0)
    batches = DataLoader(rows, BATCH // dist.get_world_size(), sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for some_x, some_y in batches:
            optimizer.zero_grad()
            value = loss(network(some_x), some_y)
            value.backward()  # gradients are averaged over the processes
            optimizer.step()
            shared = mean_of_all(value)
            if dist.get_rank() == 0:
                print(f"loss {shared:.9f}")

    with torch.no_grad():
        error = (loss.distribution(network(x_new)).mean - y_new).abs().mean()
    if dist.get_rank() == 0:
        constant = (y.mean() - y_new).abs().mean()
        print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
