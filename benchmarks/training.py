"""Time of one training step of softbins' stack against its peers, as ratios within the same run.

    python benchmarks/training.py            prints the table, writes results/training_speed.json
    python benchmarks/training.py --peers    prints the table of the peers alone, writes nothing
    --core N                                 pins everything to this core (1)

A step draws a mini-batch of 256 rows, shuffled every epoch, and goes forward, backward and through
Adam, in float32 on one thread pinned to one core, for four hidden layers. A stack of members is
charged per member. A step costs the time of a long fit less that of a short one, which leaves out
all that a fit pays once. Each contestant lives in a process of its own, because Keras picks its
backend at import. They take turns and the fastest fit of each length counts, because the machine
drifts and only shared conditions make a ratio.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BINS = 100
LAYERS = 4
MEMBERS = 5
BATCH = 256
STEPS = 80  # in an epoch
ROWS = BATCH * STEPS  # no batch is smaller than the others
RATE = 1e-3
SHORT, LONG = 1, 3  # epochs of the two fits
ROUNDS = 8
MATRIX = 1024  # rows and columns of the multiplication that sets the peak
SHAPES = {"16-64x4": (16, 64), "90-45x4": (90, 45), "385-192x4": (385, 192)}
# Shape: at least this many times faster than (hand-written, the fastest framework).
LIMITS = {"16-64x4": (2.0, 4.0), "90-45x4": (2.4, 3.5), "385-192x4": (1.35, 1.7)}
LARGE = "385-192x4"  # where arithmetic dominates: the share of the peak and the price of bins
PEAK_LIMIT = 0.65
BINS_LIMIT = 1.35
PACKAGES = ["torch", "hl-gauss-pytorch", "skorch", "lightning", "keras", "jax", "scikit-learn"]
RECORD = Path(__file__).parent.parent / "results" / "training_speed.json"

Shape = tuple[int, int]  # features, width of the hidden layers
Fit = Callable[[int], object]  # trains for so many epochs
Ask = Callable[[int], float]  # seconds of a fit for so many epochs


def data(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, shape[0]), torch.rand(ROWS, 1)


def network(shape: Shape, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise([shape[0], *[shape[1]] * LAYERS]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(shape[1], outputs))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=RATE, fused=True)


def loop(model: nn.Module, loss: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Fit:
    """The training loop that one writes by hand: tensors in memory, no loader."""
    optimizer = adam(model)

    def fit(epochs: int) -> None:
        for _ in range(epochs):
            for rows in torch.randperm(ROWS).split(BATCH):
                optimizer.zero_grad()
                loss(model(x[rows]), y[rows]).backward()
                optimizer.step()

    return fit


def hand_written(shape: Shape) -> Fit:
    from hl_gauss_pytorch import HLGaussLoss

    x, y = data(shape)
    loss = HLGaussLoss(0.0, 1.0, BINS, sigma=1 / BINS, clamp_to_range=True)
    return loop(network(shape, BINS), loss, x, y.squeeze(1))


def hand_written_l2(shape: Shape) -> Fit:
    return loop(network(shape, 1), nn.MSELoss(), *data(shape))


def skorch(shape: Shape) -> Fit:
    from skorch import NeuralNetRegressor

    net = NeuralNetRegressor(
        network(shape, 1),
        optimizer=torch.optim.Adam,
        optimizer__fused=True,
        lr=RATE,
        batch_size=BATCH,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks="disable",
        verbose=0,
    )
    x, y = (part.numpy() for part in data(shape))
    return lambda epochs: net.partial_fit(x, y, epochs=epochs)


def lightning(shape: Shape) -> Fit:
    from lightning import LightningModule, Trainer

    class Regression(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network(shape, 1)

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            return F.mse_loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return adam(self)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = Regression()
    batches = DataLoader(TensorDataset(*data(shape)), BATCH, shuffle=True, num_workers=0)
    # Barebones: no logger, checkpoint, progress bar, summary or sanity check.
    quiet = {"accelerator": "cpu", "devices": 1, "barebones": True}
    return lambda epochs: Trainer(max_epochs=epochs, **quiet).fit(module, batches)


def keras(shape: Shape) -> Fit:
    import keras

    hidden = [keras.layers.Dense(shape[1], activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((shape[0],)), *hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(RATE), loss="mse")
    x, y = (part.numpy() for part in data(shape))
    return lambda epochs: model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)


def scikit_learn(shape: Shape) -> Fit:
    from sklearn.neural_network import MLPRegressor

    x, y = (part.numpy() for part in data(shape))
    settings = {"batch_size": BATCH, "learning_rate_init": RATE, "alpha": 0.0}
    settings["hidden_layer_sizes"] = (shape[1],) * LAYERS
    return lambda epochs: MLPRegressor(max_iter=epochs, **settings).fit(x, y.ravel())


def stacked(shape: Shape, members: int, name: str) -> Fit:
    """The whole stack: every step moves all the members."""
    from softbins.nn.objectives import make_objective
    from softbins.nn.stack import StackedMLP
    from softbins.nn.trainer import Settings, Trainer

    x, y = data(shape)
    rows, seeds = [torch.arange(ROWS)] * members, range(members)
    objective = make_objective(name, 0.0, 1.0, bins=BINS)

    def fit(epochs: int) -> None:
        stack = StackedMLP(shape[0], (shape[1],) * LAYERS, objective.outputs, seeds)
        settings = Settings(epochs=epochs, batch_size=BATCH, learning_rate=RATE)
        Trainer(stack, objective, x, y.squeeze(1), rows, seeds, settings).run()

    return fit


PEERS: dict[str, Callable[[Shape], Fit]] = {
    "hand-written": hand_written,
    "hand-written l2": hand_written_l2,
    "skorch": skorch,
    "Lightning": lightning,
    "Keras on torch": keras,
    "Keras on JAX": keras,
    "MLPRegressor": scikit_learn,
}
OURS: dict[str, Callable[[Shape], Fit]] = {
    "softbins": lambda shape: stacked(shape, MEMBERS, "hl-gaussian"),
    "softbins l2": lambda shape: stacked(shape, MEMBERS, "l2"),
}
FRAMEWORKS = ["skorch", "Lightning", "Keras on torch", "Keras on JAX"]


def serve(name: str, shape: str) -> None:
    """The process of one contestant: reads numbers of epochs, prints the seconds of each fit."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    fit = {**PEERS, **OURS}[name](SHAPES[shape])
    fit(SHORT)  # compile and load every kernel before measuring
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        fit(json.loads(line))
        print(json.dumps(time.perf_counter() - start), flush=True)


def environment(name: str) -> dict[str, str]:
    threads = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    return {
        **os.environ,
        **dict.fromkeys(threads, "1"),
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "KERAS_BACKEND": "jax" if name.endswith("JAX") else "torch",
    }


@contextmanager
def contestant(name: str, shape: str) -> Iterator[Ask]:
    """A process that fits on demand; it inherits the core it is pinned to."""
    command = [sys.executable, __file__, "--serve", name, shape]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, env=environment(name), **pipes) as process:

        def ask(epochs: int) -> float:
            print(epochs, file=process.stdin)
            return float(json.loads(process.stdout.readline()))

        if not process.stdout.readline():
            raise RuntimeError(f"{name}: its process ended before the first fit")
        yield ask


def multiply() -> float:
    """Seconds of one large float32 matrix multiplication, the fastest of several."""
    a, b = torch.randn(2, MATRIX, MATRIX)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return best


def fastest(asks: dict[str, Ask]) -> tuple[dict[str, float], float]:
    """Seconds of one step of each and of one multiplication, the fastest of many turns."""
    best = {(name, epochs): float("inf") for name in asks for epochs in (SHORT, LONG)}
    product = float("inf")
    for _ in range(ROUNDS):
        product = min(product, multiply())
        for name, epochs in best:
            best[name, epochs] = min(best[name, epochs], asks[name](epochs))
    steps = STEPS * (LONG - SHORT)
    return {name: (best[name, LONG] - best[name, SHORT]) / steps for name in asks}, product


def operations(shape: Shape) -> int:
    """Of one step with bins: forward 2, backward 4 per weight, without the input's gradient."""
    sizes = [shape[0], *[shape[1]] * LAYERS, BINS]
    weights = [before * after for before, after in pairwise(sizes)]
    return BATCH * (6 * sum(weights) - 2 * weights[0])


def pin(core: int) -> None:
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def measure(shape: str, names: list[str]) -> dict[str, object]:
    with ExitStack() as running:
        asks = {name: running.enter_context(contestant(name, shape)) for name in names}
        seconds, product = fastest(asks)
    for name in OURS.keys() & seconds:
        seconds[name] /= MEMBERS
    row: dict[str, object] = {
        "shape": shape,
        "milliseconds": {name: round(1e3 * value, 2) for name, value in seconds.items()},
        "peak_gflops": round(2 * MATRIX**3 / product / 1e9, 1),
    }
    return row | compare(shape, seconds, product) if "softbins" in seconds else row


def compare(shape: str, seconds: dict[str, float], product: float) -> dict[str, float]:
    ours = seconds["softbins"]
    peak = 2 * MATRIX**3 / product
    return {
        "times_faster_than_hand_written": round(seconds["hand-written"] / ours, 2),
        "times_faster_than_frameworks": round(min(seconds[f] for f in FRAMEWORKS) / ours, 2),
        "share_of_peak": round(operations(SHAPES[shape]) / ours / peak, 2),
        "times_l2": round(ours / seconds["softbins l2"], 2),
    }


def checks(row: dict[str, object]) -> list[tuple[str, float, bool, str]]:
    """Each figure of a row that has a limit: what, value, whether kept, limit."""
    figures = zip(("hand_written", "frameworks"), LIMITS[row["shape"]], strict=True)
    found = []
    for peer, least in figures:
        value = row[f"times_faster_than_{peer}"]
        what = f"times faster than {peer.replace('_', '-')}"
        found.append((what, value, value >= least, f">= {least}"))
    if row["shape"] == LARGE:
        share, ratio = row["share_of_peak"], row["times_l2"]
        found.append(("share of the peak", share, share >= PEAK_LIMIT, f">= {PEAK_LIMIT}"))
        found.append(("times softbins l2", ratio, ratio <= BINS_LIMIT, f"<= {BINS_LIMIT}"))
    return found


def table(rows: list[dict[str, object]]) -> None:
    print(f"{'ms per step and model':24s}" + "".join(f"{row['shape']:>12s}" for row in rows))
    for name in rows[0]["milliseconds"]:
        print(f"{name:24s}" + "".join(f"{row['milliseconds'][name]:12.2f}" for row in rows))
    print(f"{'matmul peak, GFLOP/s':24s}" + "".join(f"{row['peak_gflops']:12.1f}" for row in rows))


def report(rows: list[dict[str, object]]) -> bool:
    """Print each figure beside its limit; tell whether all are kept."""
    kept = True
    for row in rows:
        print(row["shape"])
        for what, value, good, limit in checks(row):
            print(f"  {what:36s}{value:6.2f}  {limit:8s}{'ok' if good else 'MISSED'}")
            kept &= good
    return kept


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", action="store_true", help="leave softbins out")
    parser.add_argument("--core", type=int, default=1, help="the core that everything runs on")
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "SHAPE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.serve:
        serve(*options.serve)
        return
    pin(options.core)
    names = [*PEERS] if options.peers else [*PEERS, *OURS]
    rows = [measure(shape, names) for shape in SHAPES]
    table(rows)
    if options.peers:
        return
    kept = report(rows)
    machine = {"processor": platform.machine(), "threads": 1, "members": MEMBERS}
    machine |= {name: version(name) for name in PACKAGES}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    print(f"written to {RECORD.relative_to(Path.cwd())}" if kept else "a limit was missed")


if __name__ == "__main__":
    main()
