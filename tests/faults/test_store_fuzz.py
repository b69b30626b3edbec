"""Damaged stores of the paper's runs: reading goes on without the damaged, running heals.

The mutants come from a generator (`store_mutations`), which knows nothing of the files but their
formats. What must hold: a command that reads shows what it would show if the damaged file were not
there, and changes nothing; `run` ends with the records of a store that was never damaged, and the
damaged file is named once and kept under another name.
"""

import json
import os
import random
import shutil
import stat

import pytest
from click.testing import CliRunner

from softbins.cli import program as cli
from softbins.paper.run import training
from softbins.paper.run.plan import SCALES, Scale, curve_runs, plan_runs
from softbins.paper.run.stacks import stack_name
from softbins.paper.run.store import Store
from softbins.paper.run.tensor_files import write_checkpoint
from softbins.paper.run.workers import run_all
from tests.faults.store_mutations import damage, forge, replace_by_file, store_files
from tests.paper.run.running import contents

DEMO = Scale("demo", epoch_share=0.004, n_seeds=2, max_rows=300, full_grids=False)
ASKED = ("representations", "curves")
RUN = ("run", *ASKED, "--scale", "demo", "--workers", "1")
READING = (
    ("status", "--json"),
    ("table", "representations", "--json"),
    ("table", "claims"),
    ("figure", "curves", "-o", "curves.svg"),
    ("report", "-o", "page.html"),
)


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SCALES, "demo", DEMO)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store with records, weights, and a stack that was interrupted; and the finished one."""
    folder = tmp_path_factory.mktemp("stores")
    begun, whole = Store(folder / "begun"), Store(folder / "whole")
    interrupted = curve_runs("bike", "hl-onebin", DEMO)
    runs = plan_runs(ASKED, "bike", DEMO)
    run_all([run for run in runs if run not in interrupted], begun)
    interrupt(interrupted, begun)
    shutil.copytree(begun.folder, whole.folder)
    run_all(runs, whole)
    return begun, whole


def interrupt(runs, store):
    """Train a stack for one epoch, and leave its checkpoint and its report."""
    stack = training.StackTraining(runs, store, training.load_dataset("bike"))
    stack.trainer.run(until=1)
    write_checkpoint(store.running_path(f"{stack_name(runs)}.checkpoint"), runs, stack.trainer)
    stack._write_progress(1, 1.0, 30.0)


def paper(*arguments):
    result = CliRunner().invoke(cli.main, ["paper", *map(str, arguments)])
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result


def shown(store, commands):
    """What the commands print and write."""
    found = []
    for command in commands:
        found.append(paper(*command, "--store", store.folder).stdout)
        if "-o" in command:
            with open(command[-1]) as file:
                found.append(file.read())
    return found


def snapshot(folder):
    """All that is in a folder: kinds, sizes, and the contents of small files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        small = stat.S_ISREG(state.st_mode) and state.st_size < 10**8
        data = path.read_bytes() if small and os.access(path, os.R_OK) else None
        found[str(path.relative_to(folder))] = (stat.S_IFMT(state.st_mode), state.st_size, data)
    return found


def copy_of(store, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(store.folder, folder)
    return Store(folder)


def check_damaged(stores, folder, seed, how_many, commands):
    begun, whole = stores
    wanted, chance = contents(whole), random.Random(seed)
    for _ in range(how_many):
        store = copy_of(begun, folder)
        files = store_files(store.folder)
        by_kind = {}
        for path in files:
            by_kind.setdefault(path.suffix, []).append(path)
        path = chance.choice(chance.choice(list(by_kind.values())))
        done = f"{path.parent.name}/{path.name}: {damage(path, files, chance)}"
        check_reading(store, path, commands, done)
        check_healing(store, path, wanted, done)


def check_reading(store, path, commands, done):
    before = snapshot(store.folder)
    seen = shown(store, commands)
    assert snapshot(store.folder) == before, done
    away = store.folder.with_name("away")
    path.rename(away)
    assert without_damage(seen) == without_damage(shown(store, commands)), done
    away.rename(path)


def without_damage(seen):
    """What was shown, but for what it says about damaged records."""
    first = json.loads(seen[0])
    first.pop("damaged")
    return [first, *(text for text in seen[1:])]


def check_healing(store, path, wanted, done):
    mutant = path.lstat()
    result = paper(*RUN, "--store", store.folder)
    assert contents(store) == wanted, done
    lines = [line for line in result.stderr.splitlines() if "set aside as" in line]
    assert len(lines) == 1, (done, result.stderr)
    assert str(path) in lines[0], done
    kept = path.with_name(f"{path.name}.damaged").lstat()
    assert (kept.st_ino, kept.st_size) == (mutant.st_ino, mutant.st_size), done
    assert len(list(store.folder.rglob("*.damaged*"))) == 1, done


def test_damaged_stores_are_read_without_the_damaged_and_heal(stores, tmp_path):
    check_damaged(stores, tmp_path / "store", seed=0, how_many=6, commands=READING[:2])


def test_the_page_and_the_figures_are_made_without_the_damaged(stores, tmp_path):
    check_damaged(stores, tmp_path / "store", seed=1, how_many=1, commands=READING)


@pytest.mark.slow
def test_more_damaged_stores_are_read_without_the_damaged_and_heal(stores, tmp_path):
    check_damaged(stores, tmp_path / "store", seed=2, how_many=400, commands=READING[:3])


@pytest.mark.slow
def test_more_pages_and_figures_are_made_without_the_damaged(stores, tmp_path):
    check_damaged(stores, tmp_path / "store", seed=3, how_many=40, commands=READING)


@pytest.mark.parametrize("name", ["running", "bike/weights", "bike"])
def test_a_file_in_place_of_a_folder_is_set_aside(name, stores, tmp_path):
    begun, whole = stores
    store = copy_of(begun, tmp_path / "store")
    path = store.folder / name
    replace_by_file(path)
    before = snapshot(store.folder)
    shown(store, READING[:3])
    assert snapshot(store.folder) == before
    check_healing(store, path, contents(whole), name)


def test_a_folder_in_place_of_a_lock_is_set_aside(stores, tmp_path):
    begun, whole = stores
    store = copy_of(begun, tmp_path / "store")
    path = next(store.folder.glob("running/*.lock"))
    path.unlink()
    path.mkdir()
    shown(store, READING[:3])
    check_healing(store, path, contents(whole), "lock")


# Somebody who knows the format may write any number that a record can have, so that a record may
# differ afterwards. Every file is one that the schema takes, or it is set aside.


def check_forged(stores, folder, seed, how_many):
    begun, whole = stores
    chance, set_aside = random.Random(seed), 0
    for _ in range(how_many):
        store = copy_of(begun, folder)
        path = chance.choice(store_files(store.folder))
        done = f"{path.parent.name}/{path.name}: {forge(path, chance)}"
        shown(store, READING[:3])
        result = paper(*RUN, "--store", store.folder)
        assert set(contents(store)) == set(contents(whole)), done
        runs = plan_runs(ASKED, "bike", DEMO)
        assert all(map(store.has, runs)), done
        assert result.stderr.count("set aside as") <= 1, done
        set_aside += "set aside as" in result.stderr
        shown(store, READING[:3])
    return set_aside


def test_forged_files_are_set_aside_or_are_what_the_schema_takes(stores, tmp_path):
    assert check_forged(stores, tmp_path / "store", seed=0, how_many=6) > 1


@pytest.mark.slow
def test_more_forged_files_are_set_aside_or_are_what_the_schema_takes(stores, tmp_path):
    assert check_forged(stores, tmp_path / "store", seed=1, how_many=400) > 100
