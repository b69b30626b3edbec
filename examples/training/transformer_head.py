"""A histogram at every step of a transformer, for noisy waves: python transformer_head.py."""

import torch
from torch import nn

from softbins import Bins, Gaussian, HistogramLoss

STEPS, BATCH, BINS, WIDTH, LENGTH = 200, 64, 64, 32, 24


def waves(count: int) -> torch.Tensor:
    """Waves of any phase and of periods between 6 and 12, with noise."""
    period, phase = 6 + 6 * torch.rand(count, 1), 6.3 * torch.rand(count, 1)
    time = torch.arange(LENGTH + 1)
    return torch.sin(6.2832 * time / period + phase) + 0.1 * torch.randn(count, LENGTH + 1)


class Forecaster(nn.Module):
    """Values so far to a histogram of the next one, at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.place = nn.Linear(1, WIDTH), nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, BINS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        inputs = self.value(values.unsqueeze(-1)) + self.place
        return self.head(self.body(inputs, mask=self.mask, is_causal=True))


def main() -> None:
    torch.manual_seed(0)
    network = Forecaster()
    loss = HistogramLoss(Bins.uniform(-1.6, 1.6, BINS), Gaussian.of_bins(2.0))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(STEPS):
        series = waves(BATCH)
        optimizer.zero_grad()
        logits = network(series[:, :-1])  # (batch, time, bins)
        loss(logits, series[:, 1:]).backward()
        optimizer.step()

    new = waves(300)
    with torch.no_grad():
        predicted = loss.distribution(network(new[:, :-1])).mean[:, LENGTH // 2 :]
    later = new[:, 1 + LENGTH // 2 :]
    error, constant = (predicted - later).abs().mean(), later.abs().mean()
    print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    main()
