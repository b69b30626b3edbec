"""A Lightning module whose checkpoint knows its bins: python lightning_module.py."""

import tempfile

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from softbins import Bins, Gaussian, Histogram, HistogramLoss, Target


class Regression(lightning.LightningModule):
    """Features to a histogram over the target."""

    def __init__(self, features: int, bins: Bins, target: Target, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()  # bins and target with the rest
        self.network = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64))
        self.network.extend([nn.ReLU(), nn.Linear(64, bins.count)])
        self.loss = HistogramLoss(bins, target)

    def forward(self, x: Tensor) -> Histogram:
        return self.loss.distribution(self.network(x))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y = batch
        return self.loss(self.network(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def data(rows: int) -> tuple[Tensor, Tensor]:
    x = torch.rand(rows, 3)
    return x, torch.sin(6 * x[:, 0]) + 2 * x[:, 1] * x[:, 2] + 0.05 * torch.randn(rows)


def main() -> None:
    torch.manual_seed(0)
    (x, y), (x_new, y_new) = data(1000), data(300)
    model = Regression(3, Bins.covering(y, 64), Gaussian.of_bins(1.0))
    batches = DataLoader(TensorDataset(x, y), 64, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        trainer = lightning.Trainer(max_epochs=20, default_root_dir=folder, **quiet)
        trainer.fit(model, batches)
        # Tensors, plain values, bins and targets are read, and nothing else: no code is run.
        loaded = Regression.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    assert loaded.hparams.bins == model.hparams.bins
    with torch.no_grad():
        error = (loaded(x_new).mean - y_new).abs().mean()
    constant = (y.mean() - y_new).abs().mean()
    print(f"mean absolute error {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    main()
