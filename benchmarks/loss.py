"""Time and memory of one step of the loss against its peers, as ratios within the same run.

    make bench        prints the table and writes results/loss_speed.json

A step is forward and backward with 100 bins and sigma of one bin width, in float32, on one
thread pinned to one core. The floor is `F.cross_entropy` with hard labels: any loss over 100
logits pays it. The contestants take turns in short blocks and the fastest block of each counts,
because the machine drifts and only shared conditions make a ratio. It is the processor's time that
counts, which others on the same machine disturb less.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from softbins import Bins, Gaussian, HistogramLoss

BINS = 100
BATCHES = {256: 200, 65536: 1}  # batch size: steps in a block
BLOCKS = 60
# Batch: (at most this many times the floor, at least this many times faster than the peer).
LIMITS = {256: (2.1, 2.4), 65536: (1.1, 4.0)}
MEMORY_LIMIT = 1.3
# Other bins and sigmas cost at most this many times one sigma on equal bins.
OTHER_LIMIT = 2.0
# A thousand bins cost at most this many times a hundred, at the smaller batch.
MANY_BINS, MANY_BINS_LIMIT = 1000, 3.0
RECORD = Path(__file__).parent.parent / "results" / "loss_speed.json"

Step = Callable[[], None]
Contest = tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], torch.Tensor]


def contestant(name: str, batch: int) -> Step:
    """One of the losses as a step on random logits and targets, the same for all."""
    torch.manual_seed(0)
    count = MANY_BINS if name == "1000 bins" else BINS
    logits = torch.randn(batch, count, requires_grad=True)
    loss, y = EVERY[name](torch.rand(batch))

    def run() -> None:
        logits.grad = None
        loss(logits, y).backward()

    return run


def floor(y: torch.Tensor) -> Contest:
    return F.cross_entropy, (y * BINS).long()


def precomputed(y: torch.Tensor) -> Contest:
    return F.cross_entropy, Gaussian.of_bins(1.0).weights(y, Bins.uniform(0, 1, BINS))


def softbins(y: torch.Tensor) -> Contest:
    return HistogramLoss(Bins.uniform(0, 1, BINS), Gaussian.of_bins(1.0)), y


def peer(y: torch.Tensor) -> Contest:
    from hl_gauss_pytorch import HLGaussLoss

    return HLGaussLoss(0.0, 1.0, BINS, sigma=1 / BINS, clamp_to_range=True), y


def sigmas(y: torch.Tensor) -> Contest:
    loss, each = HistogramLoss(Bins.uniform(0, 1, BINS)), 0.5 + torch.rand(len(y))
    return lambda logits, y: loss(logits, y, sigma=each), y


def unequal(y: torch.Tensor) -> Contest:
    normal = torch.erfinv(2 * y - 1).clamp(-3, 3)
    return HistogramLoss(Bins.quantile(torch.randn(20_000), BINS)), normal


def symlog(y: torch.Tensor) -> Contest:
    return HistogramLoss(Bins.symlog(20.0, BINS), Gaussian.of_bins(1.0)), 1000 * (y - 0.5)


def many_bins(y: torch.Tensor) -> Contest:
    return HistogramLoss(Bins.uniform(0, 1, MANY_BINS), Gaussian.of_bins(1.0)), y


LOSSES = {
    "floor": floor,
    "precomputed weights": precomputed,
    "softbins": softbins,
    "hl-gauss-pytorch": peer,
}
# The same loss with a sigma for each target, and on other bins.
OTHERS = {"sigmas": sigmas, "unequal bins": unequal, "symlog bins": symlog}
EVERY = LOSSES | OTHERS | {"1000 bins": many_bins}


def fastest(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    """Seconds of one step of each, the fastest of many blocks that take turns."""
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(BLOCKS):
        for name, run in steps.items():
            start = time.process_time()
            for _ in range(repeats):
                run()
            best[name] = min(best[name], (time.process_time() - start) / repeats)
    return best


def peak_memory(name: str, batch: int) -> int:
    """Bytes that one step adds to the peak of a fresh process."""
    command = [sys.executable, __file__, "--memory", name, str(batch)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(shown.stdout)


def show_memory(name: str, batch: int) -> None:
    pin()
    contestant(name, 64)()  # load every kernel before measuring
    run = contestant(name, batch)
    before = high_water()
    run()
    print(high_water() - before)


def high_water() -> int:
    """The peak of this process in bytes (getrusage would start at the parent's)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def pin() -> None:
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def measure(batch: int) -> dict[str, object]:
    names = [*LOSSES, *OTHERS] + (["1000 bins"] if batch == min(BATCHES) else [])
    seconds = fastest({name: contestant(name, batch) for name in names}, BATCHES[batch])
    ours = seconds["softbins"]
    row: dict[str, object] = {
        "batch": batch,
        "microseconds": {name: round(1e6 * seconds[name], 1) for name in LOSSES},
        "times_softbins": {
            name: round(value / ours, 2) for name, value in seconds.items() if name not in LOSSES
        },
        "times_floor": round(ours / seconds["floor"], 2),
        "times_faster_than_peer": round(seconds["hl-gauss-pytorch"] / ours, 2),
    }
    if batch == max(BATCHES):
        memory = {name: peak_memory(name, batch) for name in ("floor", "softbins")}
        row["peak_memory_times_floor"] = round(memory["softbins"] / memory["floor"], 2)
    return row


def report(rows: list[dict[str, object]]) -> bool:
    """Print each figure beside its limit; tell whether all are kept."""
    kept = True
    for row in rows:
        most, least = LIMITS[row["batch"]]
        checks = [
            ("times the floor", row["times_floor"], row["times_floor"] <= most, f"<= {most}"),
            (
                "times faster than hl-gauss-pytorch",
                row["times_faster_than_peer"],
                row["times_faster_than_peer"] >= least,
                f">= {least}",
            ),
        ]
        if "peak_memory_times_floor" in row:
            ratio = row["peak_memory_times_floor"]
            checks.append(("peak memory", ratio, ratio <= MEMORY_LIMIT, f"<= {MEMORY_LIMIT}"))
        for name, ratio in row["times_softbins"].items():
            limit = MANY_BINS_LIMIT if name == "1000 bins" else OTHER_LIMIT
            checks.append((f"{name}, times softbins", ratio, ratio <= limit, f"<= {limit}"))
        print(f"batch {row['batch']}: {row['microseconds']} us")
        for what, value, good, limit in checks:
            print(f"  {what:36s}{value:6.2f}  {limit:8s}{'ok' if good else 'MISSED'}")
            kept &= good
    return kept


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        show_memory(sys.argv[2], int(sys.argv[3]))
        return
    pin()
    rows = [measure(batch) for batch in BATCHES]
    kept = report(rows)
    machine = {"torch": torch.__version__, "processor": platform.machine(), "threads": 1}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    print(f"written to {RECORD.relative_to(Path.cwd())}" if kept else "a limit was missed")


if __name__ == "__main__":
    main()
