"""Runs from plan to record, on small pieces of the real data."""

import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from softbins._core.model_file import read
from softbins.cli.program import main
from softbins.paper.run import training
from softbins.paper.run.plan import (
    ARTEFACTS,
    SCALES,
    Scale,
    curve_runs,
    method_runs,
    plan_runs,
    representation_runs,
    split_kinds,
)
from softbins.paper.run.stacks import make_stacks, unfinished_waves
from softbins.paper.run.store import Store
from softbins.paper.run.workers import run_all
from softbins.paper.show.figures import make_figure
from softbins.paper.show.paper_tables import main_table
from softbins.paper.show.report import write_report
from tests.forked import in_a_fork
from tests.paper.run.running import contents, wait_for


def test_nothing_is_trained_twice(store, scale):
    runs = plan_runs(["curves", "representations"], "bike", scale)
    assert run_all(runs, store) == len(make_stacks(runs))
    for lock in store.folder.rglob("*.lock"):
        lock.unlink()
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}
    assert run_all(runs, store) == 0
    assert before == {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}


def test_nothing_is_left_behind_but_records_and_weights(store, scale):
    run_all(method_runs("bike", "l2", scale), store)
    kinds = {path.suffix for path in store.folder.rglob("*") if path.is_file()}
    assert kinds == {".json", ".safetensors", ".lock"}


def test_lost_weights_are_made_again_without_touching_the_records(store, scale):
    source = method_runs("bike", "l2", scale)
    run_all(source, store)
    record = store.record_path(source[0]).read_bytes()
    for run in source:
        store.weights_path(run).unlink()
    swapped = representation_runs("bike", "hl-gaussian", "fixed", scale)
    assert len(unfinished_waves(source, store)) == 0
    assert len(unfinished_waves(swapped, store)) == 2
    run_all(swapped, store)
    assert store.record_path(source[0]).read_bytes() == record
    assert store.has(swapped[0])


# Several at once


def test_two_workers_give_the_same_records_as_one(tmp_path, scale):
    runs = [*method_runs("bike", "l2", scale), *method_runs("bike", "hl-gaussian", scale)]
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    run_all(runs, one, workers=1)
    run_all(runs, two, workers=2)
    assert contents(one) == contents(two)
    assert len(contents(one)) == 4


def _run_in_background(folder, runs, said):
    with open(said, "w") as file:
        run_all(runs, Store(folder), on_set_aside=lambda line: print(line, file=file))


def test_two_processes_on_one_store_share_the_work_and_heal_it_once(tmp_path, scale):
    runs = [run for m in ("l2", "l1", "hl-gaussian") for run in method_runs("bike", m, scale)]
    damaged = [Store(tmp_path / "shared").record_path(run) for run in runs]
    damaged[0].parent.mkdir(parents=True)
    for path in damaged:
        path.write_text("garbage")
    context = multiprocessing.get_context("fork")  # which has imported everything already
    processes = [
        context.Process(
            target=_run_in_background, args=(tmp_path / "shared", runs, tmp_path / name)
        )
        for name in ("one", "two")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    run_all(runs, Store(tmp_path / "alone"))
    assert contents(Store(tmp_path / "shared")) == contents(Store(tmp_path / "alone"))
    lines = ((tmp_path / "one").read_text() + (tmp_path / "two").read_text()).splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == sorted(map(str, damaged))
    assert {path.with_name(f"{path.name}.damaged").read_text() for path in damaged} == {"garbage"}


# Interruptions

LONG = Scale("long", 0.2, 2, 1500, full_grids=False)  # 100 epochs
SCRIPT = """
import sys
from softbins.paper.run import training
from softbins.paper.run.plan import Scale, curve_runs, method_runs
from softbins.paper.run.workers import run_all
from softbins.paper.run.store import Store
from softbins._core.model_file import read
training.CHECKPOINT_SECONDS = 0.05
scale = Scale("long", 0.2, 2, 1500, full_grids=False)
runs = method_runs("bike", "hl-gaussian", scale) + curve_runs("bike", "l2", scale)
run_all(runs, Store(sys.argv[1]))
"""


def checkpoint_epochs(store):
    return [read(path)[0]["epoch"] for path in store.folder.glob("running/*.checkpoint")]


@pytest.mark.slow
def test_killed_again_and_again_the_same_command_ends_with_the_same_records(tmp_path, monkeypatch):
    runs = method_runs("bike", "hl-gaussian", LONG) + curve_runs("bike", "l2", LONG)
    whole, cut = Store(tmp_path / "whole"), Store(tmp_path / "cut")
    run_all(runs, whole)
    reached = [0]
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(cut.folder)])
        # Each life gets further than the one before, or it would have begun from the start.
        wait_for(lambda: max(checkpoint_epochs(cut), default=0) > reached[-1])
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        reached.append(max(checkpoint_epochs(cut)))
    assert contents(cut) == {}, "it was finished before it was killed"
    resumed = []
    original = training.Trainer.resume
    monkeypatch.setattr(
        training.Trainer, "resume", lambda s, *a: resumed.append(a[0]["epoch"]) or original(s, *a)
    )
    run_all(runs, cut)
    assert resumed == [reached[-1]]
    assert contents(cut) == contents(whole)


def child_processes(pid):
    """The workers of a command, without what multiprocessing itself has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    commands = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [int(child) for child, command in commands.items() if b"spawn_main" in command]


@pytest.mark.slow
def test_a_killed_worker_is_named_with_its_stack_and_its_signal(tmp_path):
    """By any signal: nobody knows from signal 9 alone that memory was short."""
    runs, store = plan_runs(["curves"], "bike", SCALES["demo"]), Store(tmp_path / "store")
    program = "from softbins.cli.program import main; main()"
    options = ["--scale", "demo", "--workers", "2", "--store", str(store.folder)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "paper", "run", "curves", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(store.read_progress, seconds=120)
        os.kill(child_processes(process.pid)[0], signal.SIGKILL)
        said = process.communicate(timeout=60)[1].splitlines()
    finally:
        process.kill()
    assert process.returncode == 2
    assert re.fullmatch(
        r"softbins: the worker that trained bike \S+ \(curves\) was killed \(signal 9\); "
        r"if memory was short, use fewer --workers; repeat the command to go on .*",
        said[-1],
    )
    assert unfinished_waves(runs, store)


def test_an_unwritable_folder_is_a_clear_error(tmp_path, scale):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(OSError, match=r"cannot make the folder.*choose another --store"):
        run_all(method_runs("bike", "linear", scale), Store(blocked / "store"))


def run_on_a_full_disk(folder):
    """The exit code and the messages where no file may grow beyond 200 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
    options = ["--scale", "demo", "--workers", "1", "--store", str(folder)]
    done = CliRunner().invoke(main, ["paper", "run", "bins", *options])
    return done.exit_code, done.stderr


def test_a_disk_that_takes_no_more_is_one_line_and_loses_nothing(store):
    """This is how a process meets a full disk or quota."""
    exit_code, said = in_a_fork(run_on_a_full_disk, store.folder)
    assert exit_code == 2
    assert said.count("\n") == 1
    assert "cannot write (File too large); nothing was changed; free some space" in said
    left = [path for path in store.folder.rglob("*") if path.is_file() and path.suffix == ".json"]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["ct-simulated", "song-simulated"])
def test_the_whole_pipeline_runs_on_the_stand_ins(dataset, store, tmp_path):
    scale = Scale("tiny", epoch_share=0.002, n_seeds=2, max_rows=3000, full_grids=False)
    runs = plan_runs(ARTEFACTS, dataset, scale)
    run_all(runs, store, workers=2)
    assert all(map(store.has, runs))
    for split in split_kinds(dataset):
        table = main_table(dataset, scale, store, split=split)
        assert "simulated" in table.title
        assert all(cell.runs == 2 for row in table.rows for cell in row.cells.values())
    for name in ("bins", "sigma", "curves", "targets"):
        assert make_figure(name, dataset, scale, store) is not None
    write_report(tmp_path / "page.html", dataset, scale, store)
    assert "simulated" in (tmp_path / "page.html").read_text()
