"""How a store heals: what is damaged is renamed, so that its runs are made again.

Nothing is deleted. Only who holds the lock of a stack sets files of that stack aside, so that two
processes do not take each other's files for damaged ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from softbins.paper.run.plan import Run
from softbins.paper.run.stacks import Stack, stack_name
from softbins.paper.run.store import Store
from softbins.paper.run.tensor_files import read_checkpoint, read_weights

# Called with a line that names the damaged file, what is wrong with it, and its new name.
OnSetAside = Callable[[str], None]


def heal_store(stacks: Iterable[Stack], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside all damaged files of these stacks, but for those that others are training.

    A store without damage is not changed.
    """
    chosen = list(stacks)
    _heal_folders({run.dataset for stack in chosen for run in stack}, store, on_set_aside)
    for stack in chosen:
        _heal_lock(stack, store, on_set_aside)
        if any(_find_faults(stack, store)):
            with store.lock(stack_name(stack), wait=False) as is_mine:
                if is_mine:
                    heal_stack(stack, store, on_set_aside)


def heal_stack(runs: Sequence[Run], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside the damaged files of a stack whose lock this process holds."""
    for path, fault in list(_find_faults(runs, store)):
        set_aside(store, path, fault, on_set_aside)


def _find_faults(runs: Sequence[Run], store: Store) -> Iterator[tuple[Path, str]]:
    """The damaged files of a stack, each with what is wrong with it."""
    name = stack_name(runs)
    checkpoint = store.running_folder / f"{name}.checkpoint"
    progress = store.running_folder / f"{name}.progress"
    found = [(store.record_path(run), store.record_fault(run)) for run in runs]
    found += [(store.weights_path(run), _weights_fault(run, store)) for run in runs]
    found += [(checkpoint, _checkpoint_fault(runs, checkpoint))]
    found += [(progress, store.progress_fault(name))]
    return ((path, fault) for path, fault in found if fault)


def set_aside(store: Store, path: Path, fault: str, on_set_aside: OnSetAside) -> None:
    """Rename a damaged file, and name it, what is wrong with it, and its new name."""
    place = store.set_aside(path)
    if place is not None:
        on_set_aside(f"{path}: {fault}; set aside as {place.name}")


def _weights_fault(run: Run, store: Store) -> str:
    """What is wrong with the weights of a run; empty if they are whole or not there."""
    try:
        read_weights(store.weights_path(run), run)
    except ValueError as error:
        return str(error)
    return ""


def _checkpoint_fault(runs: Sequence[Run], path: Path) -> str:
    """What is wrong with the checkpoint of a stack; empty if it is whole or not there."""
    try:
        read_checkpoint(path, runs)
    except ValueError as error:
        return str(error)
    return ""


def _heal_folders(datasets: Iterable[str], store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside what is in the place of a folder of the store."""
    folders = [store.running_folder]
    for dataset in sorted(datasets):
        folders += [store.folder / dataset, store.folder / dataset / "weights"]
    for folder in folders:
        if os.path.lexists(folder) and not folder.is_dir():
            set_aside(store, folder, "it is not a folder", on_set_aside)


def _heal_lock(stack: Stack, store: Store, on_set_aside: OnSetAside) -> None:
    """Set aside a lock that cannot be opened: nobody can hold it."""
    path = store.running_folder / f"{stack_name(stack)}.lock"
    if os.path.lexists(path) and (path.is_dir() or not os.access(path, os.R_OK | os.W_OK)):
        set_aside(store, path, "it cannot be opened", on_set_aside)
