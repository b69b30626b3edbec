"""A plain loop with mixed precision and `torch.compile`: python plain_loop.py."""

import torch
from torch import nn

from softbins import Bins, Gaussian, HistogramLoss

EPOCHS, BATCH, BINS = 15, 128, 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# A processor computes in bfloat16, which needs no scaling of gradients; many GPUs in float16.
DTYPE = torch.float16 if DEVICE == "cuda" else torch.bfloat16


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = 2 * torch.rand(rows, 4) - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * torch.randn(rows)
    return x.to(DEVICE), y.to(DEVICE)


def main() -> None:
    torch.manual_seed(0)
    (x, y), (x_new, y_new) = data(2048), data(512)
    network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    network = network.append(nn.Linear(64, BINS)).to(DEVICE)
    loss = HistogramLoss(Bins.covering(y.cpu(), BINS), Gaussian.of_bins(1.0)).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == "cuda")

    @torch.compile(fullgraph=True)  # network and loss in one graph
    def batch_loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, dtype=DTYPE):
            return loss(network(x), y)  # the loss itself is worked out in float32

    for epoch in range(EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(x), device=DEVICE).split(BATCH):
            optimizer.zero_grad()
            value = batch_loss(x[rows], y[rows])
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
            total += value.item() * len(rows)
        print(f"epoch {epoch + 1}: loss {total / len(x):.3f}")

    with torch.no_grad():
        predicted = loss.distribution(network(x_new))
    error = (predicted.mean - y_new).abs().mean()
    constant = (y.mean() - y_new).abs().mean()
    print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    main()
