"""Stacks: which runs are trained together, and in which order.

Runs that differ in their seed only are trained as one stack of networks, which costs little more
than a single run. A stack holds all of them even if some are finished, because the last digits of
a member depend on what it is stacked with: a resumed stack gives the same records as one that was
never interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from softbins.paper.data.datasets import original_name
from softbins.paper.run.plan import REPRESENTATION_METHODS, TRAINING_SETTINGS, Run
from softbins.paper.run.store import Store

DATASET_SIZES = {"bike": 17379, "ct": 53500, "song": 515345}
# An epoch of a stack should take no more multiplications than this, about half a minute on a core,
# because a checkpoint can only be taken after an epoch.
MAX_EPOCH_MULTIPLICATIONS = 5e11

Stack = tuple[Run, ...]


def make_stacks(runs: Iterable[Run]) -> list[Stack]:
    """Group runs that differ in their seed only, and sort the stacks by their cost, largest first.

    Runs with grouped splits stay alone, because they differ in their number of batches. Large
    networks on many rows are cut into smaller stacks: they gain little from each other, and an
    epoch of all of them would take too long.
    """
    groups: dict[Run, list[Run]] = {}
    for run in runs:
        groups.setdefault(run if run.split == "grouped" else run.configuration, []).append(run)
    sorted_groups = [sorted(group, key=lambda run: run.seed) for group in groups.values()]
    stacks = (stack for group in sorted_groups for stack in _cut(group))
    return sorted(stacks, key=stack_cost, reverse=True)


def make_waves(runs: Iterable[Run]) -> list[list[Stack]]:
    """Order the stacks in at most two waves, of which the second starts from layers of the first.

    Runs whose hidden layers others start from are added if they are missing.
    """
    chosen = list(dict.fromkeys(runs))
    second = [run for run in chosen if run.layer_source is not None]
    sources = [run.layer_source for run in second if run.layer_source is not None]
    first = list(dict.fromkeys([run for run in chosen if run.layer_source is None] + sources))
    return [wave for wave in (make_stacks(first), make_stacks(second)) if wave]


def unfinished_waves(runs: Iterable[Run], store: Store) -> list[list[Stack]]:
    """The waves without the stacks whose records are in the store.

    A finished stack of the first wave is trained again only if a run of the second one needs its
    weights and they are missing.
    """
    planned = make_waves(runs)
    left = [[stack for stack in wave if not _has_records(stack, store)] for wave in planned]
    if len(left) == 2 and left[1]:
        needed = {run.layer_source for stack in left[1] for run in stack}
        left[0] = [
            stack
            for stack in planned[0]
            if not _has_records(stack, store)
            or (needed & set(stack) and not is_finished(stack, store))
        ]
    return [wave for wave in left if wave]


def is_finished(runs: Sequence[Run], store: Store) -> bool:
    """Whether the records of a stack, and the weights that other runs need, are all there."""
    return all(
        store.has(run) and (not lends_layers(run) or store.weights_path(run).exists())
        for run in runs
    )


def lends_layers(run: Run) -> bool:
    """Whether other runs may start from the hidden layers of this one (Table 2)."""
    is_default = run.representation == "default" and not run.curves and not run.parameters
    return is_default and run.split == "random" and run.method in REPRESENTATION_METHODS


def stack_name(runs: Sequence[Run]) -> str:
    """The name of a stack in the store: the identity of its first run, and its number of runs."""
    return f"{runs[0].identity}-{len(runs)}"


def stack_cost(stack: Stack) -> float:
    """About how many multiplications the training of a stack takes."""
    run = stack[0]
    return len(stack) * run.epochs * _epoch_multiplications(run) * (1.5 if run.curves else 1.0)


def describe_run(run: Run) -> str:
    """A run in a few words, without its seed."""
    words = [run.dataset, run.method, *(f"{name}={value:g}" for name, value in run.parameters)]
    if run.hidden and run.hidden != TRAINING_SETTINGS[original_name(run.dataset)].hidden:
        words.append(f"({len(run.hidden)} x {run.hidden[0]})")
    if run.representation != "default":
        words.append(f"({run.representation})")
    if run.split != "random":
        words.append(f"({run.split} split)")
    if run.curves:
        words.append("(curves)")
    return " ".join(words)


def _has_records(stack: Stack, store: Store) -> bool:
    return all(store.has(run) for run in stack)


def _cut(runs: Sequence[Run]) -> list[Stack]:
    size = max(1, int(MAX_EPOCH_MULTIPLICATIONS / _epoch_multiplications(runs[0])))
    return [tuple(runs[start : start + size]) for start in range(0, len(runs), size)]


def _epoch_multiplications(run: Run) -> float:
    """About how many multiplications one epoch of one run takes.

    The inputs count as 32. The constant stands for what every row costs apart from the layers.
    """
    n_outputs = 100 if run.method.startswith(("hl", "mdn")) else 32
    sizes = (32, *run.hidden, n_outputs)
    per_row = sum(a * b for a, b in pairwise(sizes)) + 10_000
    return per_row * min(DATASET_SIZES[original_name(run.dataset)], run.rows or math.inf)
