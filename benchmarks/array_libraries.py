"""Time of one step of the loss in JAX and in Keras beside PyTorch's, in the same run.

    make bench        prints the table and writes results/array_libraries.json

The step is that of benchmarks/loss.py: forward and backward with 100 bins and a sigma of one bin,
in float32, on one thread. JAX is compiled. Keras runs on its torch backend, without a model around
the loss.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"
# Before JAX is imported, which settles its threads then.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import torch
from loss import BATCHES, BINS, contestant, fastest

import softbins.jax
import softbins.keras
from softbins import Bins

Step = Callable[[], None]
RECORD = Path(__file__).parent.parent / "results" / "array_libraries.json"


def jax_step(batch: int) -> Step:
    bins = Bins.uniform(0, 1, BINS)
    logits = jax.random.normal(jax.random.key(0), (batch, BINS))
    y = jax.random.uniform(jax.random.key(1), (batch,))
    both = jax.jit(jax.value_and_grad(lambda z: softbins.jax.loss(z, y, bins).mean()))

    def run() -> None:
        jax.block_until_ready(both(logits))

    run()  # compiles
    return run


def keras_step(batch: int) -> Step:
    loss = softbins.keras.HistogramLoss(Bins.uniform(0, 1, BINS))
    logits, y = torch.randn(batch, BINS, requires_grad=True), torch.rand(batch)

    def run() -> None:
        logits.grad = None
        loss(y, logits).backward()

    return run


def measure(batch: int) -> dict[str, object]:
    steps = {"PyTorch": contestant("softbins", batch)}
    steps |= {"JAX": jax_step(batch), "Keras on torch": keras_step(batch)}
    seconds = fastest(steps, BATCHES[batch])
    for name, value in seconds.items():
        ratio = value / seconds["PyTorch"]
        print(f"batch {batch:6d}  {name:15s}{1e6 * value:10.1f} us {ratio:6.2f} times PyTorch")
    return {
        "batch": batch,
        "microseconds": {name: round(1e6 * value, 1) for name, value in seconds.items()},
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = [measure(batch) for batch in BATCHES]
    machine = {"torch": torch.__version__, "jax": jax.__version__, "threads": 1}
    RECORD.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
