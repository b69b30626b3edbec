"""A network as a scikit-learn estimator, searched over, by skorch: python skorch_search.py."""

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNet
from torch import nn

from softbins import Bins, Gaussian, HistogramLoss

BINS = 64


class Network(nn.Module):
    """Two hidden layers, and an output for each bin."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, width), nn.Linear(width, width)
        self.head = nn.Linear(width, BINS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x).relu()).relu())


class HistogramNet(RegressorMixin, NeuralNet):
    """Predicts the mean of its histograms."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.criterion_.distribution(self.forward(X)).mean.numpy()


def data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random((rows, 3), dtype=np.float32)
    noise = 0.05 * random.standard_normal(rows, dtype=np.float32)
    return x, np.sin(6 * x[:, 0]) + 2 * x[:, 1] * x[:, 2] + noise


def main() -> None:
    torch.manual_seed(0)
    (x, y), (x_new, y_new) = data(600, 0), data(300, 1)
    net = HistogramNet(
        Network,
        criterion=HistogramLoss,
        criterion__bins=Bins.covering(y, BINS),
        optimizer=torch.optim.Adam,
        lr=1e-2,
        **{"max_epochs": 30, "train_split": None, "verbose": 0},
    )
    choices = {"criterion__target": [Gaussian.of_bins(1.0), Gaussian.of_bins(3.0)]}
    search = GridSearchCV(net, choices, scoring="neg_mean_absolute_error", cv=2).fit(x, y)
    print("chosen:", search.best_params_["criterion__target"])
    error = np.abs(search.predict(x_new) - y_new).mean()
    print(f"mean absolute error {error:.3f}, that of a constant {abs(y.mean() - y_new).mean():.3f}")


if __name__ == "__main__":
    main()
