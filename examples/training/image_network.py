"""A small image network: the angle of a bar in a noisy picture: python image_network.py."""

import torch
from torch import nn

from softbins import Bins, Gaussian, HistogramLoss

EPOCHS, BATCH, BINS, SIDE = 8, 64, 90, 16


def pictures(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Bars through the middle, and their angles in degrees."""
    degrees = 160 * torch.rand(count) - 80
    across = torch.linspace(-1, 1, SIDE)
    height, width = torch.meshgrid(across, across, indexing="ij")
    angle = torch.deg2rad(degrees)[:, None, None]
    distance = height * torch.cos(angle) - width * torch.sin(angle)
    bar = torch.exp(-((distance / 0.2) ** 2))
    return (bar + 0.2 * torch.randn_like(bar)).unsqueeze(1), degrees


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (SIDE // 4) ** 2, BINS),  # an output for each bin, in place of one number
    )


def main() -> None:
    torch.manual_seed(0)
    (x, y), (x_new, y_new) = pictures(2000), pictures(500)
    network = convolutional()
    loss = HistogramLoss(Bins.covering(y, BINS, sigma_ratio=2.0), Gaussian.of_bins(2.0))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss(network(x[rows]), y[rows]).backward()
            optimizer.step()

    with torch.no_grad():
        predicted = loss.distribution(network(x_new))
    error = (predicted.mean - y_new).abs().mean()
    constant = (y.mean() - y_new).abs().mean()
    print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    main()
