"""How a store heals: what is damaged is renamed, so that its runs are made again.

Nothing is deleted. Only who holds the lock of a stack sets files of that stack aside, so that two
processes do not take each other's files for damaged ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from softbins.paper.run.plan import Run
from softbins.paper.run.stacks import Stack, lends_layers, stack_name
from softbins.paper.run.store import Store
from softbins.paper.run.tensor_files import read_checkpoint, read_weights

# Called with a line that names the damaged file, what is wrong with it, and its new name.
OnSetAside = Callable[[str], None]


def heal_store(stacks: Iterable[Stack], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside all damaged files of these stacks, but for those that others are training."""
    chosen = list(stacks)
    _heal_folders({run.dataset for stack in chosen for run in stack}, store, on_set_aside)
    for stack in chosen:
        _heal_lock(stack, store, on_set_aside)
        with store.lock(stack_name(stack), wait=False) as is_mine:
            if is_mine:
                heal_stack(stack, store, on_set_aside)


def heal_stack(runs: Sequence[Run], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside the damaged files of a stack whose lock this process holds."""
    for run in runs:
        _report(store, store.record_path(run), store.record_fault(run), on_set_aside)
        if lends_layers(run):
            _report(store, store.weights_path(run), weights_fault(run, store), on_set_aside)
    name = stack_name(runs)
    checkpoint = store.running_path(f"{name}.checkpoint")
    _report(store, checkpoint, checkpoint_fault(runs, checkpoint), on_set_aside)
    progress = store.running_path(f"{name}.progress")
    _report(store, progress, store.progress_fault(name), on_set_aside)


def set_aside(store: Store, path: Path, fault: str, on_set_aside: OnSetAside) -> None:
    """Rename a damaged file, and name it, what is wrong with it, and its new name."""
    place = store.set_aside(path)
    if place is not None:
        on_set_aside(f"{path}: {fault}; set aside as {place.name}")


def weights_fault(run: Run, store: Store) -> str:
    """What is wrong with the weights of a run; empty if they are whole or not there."""
    try:
        read_weights(store.weights_path(run), run)
    except ValueError as error:
        return str(error)
    return ""


def checkpoint_fault(runs: Sequence[Run], path: Path) -> str:
    """What is wrong with the checkpoint of a stack; empty if it is whole or not there."""
    try:
        read_checkpoint(path, runs)
    except ValueError as error:
        return str(error)
    return ""


def _report(store: Store, path: Path, fault: str, on_set_aside: OnSetAside) -> None:
    if fault:
        set_aside(store, path, fault, on_set_aside)


def _heal_folders(datasets: Iterable[str], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside what is in the place of a folder of the store."""
    folders = [store.folder / "running"]
    for dataset in sorted(datasets):
        folders += [store.folder / dataset, store.folder / dataset / "weights"]
    for folder in folders:
        if os.path.lexists(folder) and not folder.is_dir():
            set_aside(store, folder, "it is not a folder", on_set_aside)


def _heal_lock(stack: Stack, store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside a lock that cannot be opened: nobody can hold it."""
    path = store.running_path(f"{stack_name(stack)}.lock")
    if os.path.lexists(path) and (path.is_dir() or not os.access(path, os.R_OK | os.W_OK)):
        set_aside(store, path, "it cannot be opened", on_set_aside)
