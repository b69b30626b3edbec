"""Runs from plan to record, on small pieces of the real data."""

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from softbins._model_file import read
from softbins.paper.run import training
from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import (
    ARTEFACTS,
    Scale,
    curve_runs,
    many_output_runs,
    method_runs,
    plan_runs,
    representation_runs,
    split_kinds,
    wide_network_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.run.training import describe_run, is_finished, stack_name, train_stack
from softbins.paper.run.workers import make_stacks, run_all, unfinished_waves
from softbins.paper.show.figures import make_figure
from softbins.paper.show.paper_tables import main_table
from softbins.paper.show.report import write_report
from tests.paper.run.running import contents, wait_for


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_records_with_all_scores(method, store, scale):
    runs = method_runs("bike", method, scale)
    run_all(runs, store)
    for run in runs:
        record = store.read(run)
        scores = record["scores"]
        assert {"train_mae", "train_rmse", "train_objective", "validation_mae"} <= set(scores)
        assert 0 < scores["test_mae"] < scores["test_rmse"] < 1000
        assert record["seconds"] > 0
        assert record["run"]["seed"] == run.seed
    assert store.read(runs[0])["scores"] != store.read(runs[1])["scores"]


def test_the_objective_of_linear_regression_is_its_mean_squared_error(store, scale):
    run_all(runs := method_runs("bike", "linear", scale), store)
    scores = store.read(runs[0])["scores"]
    assert scores["test_objective"] == pytest.approx(scores["test_rmse"] ** 2)


def test_the_objective_of_l2_is_on_targets_scaled_to_one(store, scale):
    run_all(runs := method_runs("bike", "l2", scale), store)
    scores = store.read(runs[0])["scores"]
    assert scores["test_objective"] == pytest.approx((scores["test_rmse"] / 1000) ** 2, rel=1e-5)


def test_nothing_is_trained_twice(store, scale):
    runs = plan_runs(["curves", "representations"], "bike", scale)
    assert run_all(runs, store) == len(make_stacks(runs))
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    assert run_all(runs, store) == 0
    assert before == {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}


def test_nothing_is_left_behind_but_records_and_weights(store, scale):
    run_all(method_runs("bike", "l2", scale), store)
    kinds = {path.suffix for path in store.folder.rglob("*") if path.is_file()}
    assert kinds == {".json", ".safetensors", ".lock"}


def test_curves_hold_every_epoch(store):
    scale = Scale("tiny", 0.01, 2, 1000, full_grids=False)
    run_all(runs := curve_runs("bike", "hl-gaussian", scale), store)
    history = store.read(runs[0])["history"]
    assert history["epoch"] == [1, 2, 3, 4, 5]
    names = {f"{part}_{s}" for part in ("train", "test") for s in ("objective", "mae", "rmse")}
    assert set(history) == {"epoch", "gradient_norm"} | names
    last = store.read(runs[0])["scores"]
    assert history["test_mae"][-1] == pytest.approx(last["test_mae"], rel=1e-5)


def test_the_best_of_many_outputs_is_at_most_their_mean(store, scale):
    run_all(runs := many_output_runs("bike", scale), store)
    scores = store.read(runs[0])["scores"]
    assert scores["test_mae_of_best_output"] > 0
    # Early in training single outputs differ, and their mean is not the best of them.
    assert scores["test_mae_of_best_output"] < 1.5 * scores["test_mae"]


@pytest.mark.parametrize("method", ["l2", "hl-gaussian"])
def test_representations_are_swapped_frozen_or_random(method, store, scale):
    chosen = {
        v: representation_runs("bike", method, v, scale) for v in ("fixed", "random", "initialized")
    }
    run_all([run for runs in chosen.values() for run in runs], store)
    scores = {v: store.read(runs[0])["scores"]["test_mae"] for v, runs in chosen.items()}
    assert len(set(scores.values())) == 3
    source = chosen["fixed"][0].source()
    assert source.method != method
    assert store.has(source)


def test_lost_weights_are_made_again_without_touching_the_records(store, scale):
    source = method_runs("bike", "l2", scale)
    run_all(source, store)
    record = store.path(source[0]).read_bytes()
    for run in source:
        store.weights(run).unlink()
    swapped = representation_runs("bike", "hl-gaussian", "fixed", scale)
    assert len(unfinished_waves(source, store)) == 0
    assert len(unfinished_waves(swapped, store)) == 2
    run_all(swapped, store)
    assert store.path(source[0]).read_bytes() == record
    assert store.has(swapped[0])


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (method_runs("bike", "l2", Scale("x", 1, 1, None, True))[0], "bike l2"),
        (wide_network_runs("bike", Scale("x", 1, 1, None, True))[0], "bike l2 (4 x 512)"),
        (curve_runs("bike", "l2", Scale("x", 1, 1, None, True))[0], "bike l2 (curves)"),
        (
            replace(
                method_runs("ct", "mdn", Scale("x", 1, 1, None, True))[0],
                parameters=(("components", 2),),
                split="grouped",
            ),
            "ct mdn components=2 (grouped split)",
        ),
    ],
    ids=["plain", "wide", "curves", "grouped"],
)
def test_a_run_is_described_in_a_few_words(run, words):
    assert describe_run(run) == words


# Several at once


def test_two_workers_give_the_same_records_as_one(tmp_path, scale):
    runs = [*method_runs("bike", "l2", scale), *method_runs("bike", "hl-gaussian", scale)]
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    run_all(runs, one, workers=1)
    run_all(runs, two, workers=2)
    assert contents(one) == contents(two)
    assert len(contents(one)) == 4


def test_a_stack_that_somebody_else_is_training_is_left_to_them(store, scale):
    runs = method_runs("bike", "l2", scale)
    with store.lock(stack_name(runs), wait=False) as mine:
        assert mine
        assert train_stack(runs, store, wait=False) is False
    assert not store.has(runs[0])
    assert train_stack(runs, store, wait=False) is True
    assert is_finished(runs, store)


def _run_in_background(folder, runs):
    run_all(runs, Store(folder))


def test_two_processes_on_one_store_share_the_work(tmp_path, scale):
    runs = [run for m in ("l2", "l1", "hl-gaussian") for run in method_runs("bike", m, scale)]
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_run_in_background, args=(tmp_path / "shared", runs))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    run_all(runs, Store(tmp_path / "alone"))
    assert contents(Store(tmp_path / "shared")) == contents(Store(tmp_path / "alone"))


# Interruptions

LONG = Scale("long", 0.2, 2, 1500, full_grids=False)  # 100 epochs
SCRIPT = """
import sys
from softbins.paper.run import training
from softbins.paper.run.plan import Scale, curve_runs, method_runs
from softbins.paper.run.workers import run_all
from softbins.paper.run.store import Store
from softbins._model_file import read
training.CHECKPOINT_SECONDS = 0.05
scale = Scale("long", 0.2, 2, 1500, full_grids=False)
runs = method_runs("bike", "hl-gaussian", scale) + curve_runs("bike", "l2", scale)
run_all(runs, Store(sys.argv[1]))
"""


def checkpoint_epochs(store):
    return [read(path)[0]["epoch"] for path in store.folder.glob("running/*.checkpoint")]


def test_killed_again_and_again_the_same_command_ends_with_the_same_records(tmp_path, monkeypatch):
    runs = method_runs("bike", "hl-gaussian", LONG) + curve_runs("bike", "l2", LONG)
    whole, cut = Store(tmp_path / "whole"), Store(tmp_path / "cut")
    run_all(runs, whole)
    reached = [0]
    for _ in range(3):
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


def test_a_damaged_checkpoint_is_no_obstacle(store, scale):
    runs = method_runs("bike", "l2", scale)
    store.work(f"{stack_name(runs)}.checkpoint").write_bytes(b"half a file")
    run_all(runs, store)
    assert is_finished(runs, store)


def test_an_unwritable_folder_is_a_clear_error(tmp_path, scale):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(OSError, match=r"cannot make the folder.*choose another --store"):
        run_all(method_runs("bike", "linear", scale), Store(blocked / "store"))


FULL_DISK = """
import resource, signal, sys
from softbins.cli.program import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
main(["paper", "run", "bins", "--scale", "demo", "--workers", "1", "--store", sys.argv[1]])
"""


def test_a_disk_that_takes_no_more_is_one_line_and_loses_nothing(store, monkeypatch):
    """No file may grow beyond 200 bytes, which is how a process meets a full disk or quota."""
    command = [sys.executable, "-c", FULL_DISK, str(store.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot write (File too large); nothing was changed; free some space" in done.stderr
    left = [path for path in store.folder.rglob("*") if path.is_file() and path.suffix == ".json"]
    assert left == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a record of a run; remove it"),
        ('{"format": 1', "not a record of a run; remove it"),
        ("[]", "not a record of a run; remove it"),
        ('{"format": 2, "run": {}}', "a record of another run or format; remove it"),
    ],
    ids=["empty", "cut", "list", "newer"],
)
def test_a_damaged_record_is_named(text, message, store, scale):
    run = method_runs("bike", "linear", scale)[0]
    store.path(run).parent.mkdir(parents=True)
    store.path(run).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        store.read(run)
    assert str(store.path(run)) in str(caught.value)


def test_a_store_stays_where_it_is_for_workers_in_other_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store("here")
    monkeypatch.chdir("/")
    assert store.folder == tmp_path / "here"


def test_figures_that_are_not_finite_become_null(store, scale):
    run = method_runs("bike", "linear", scale)[0]
    store.write(run, {"scores": {"test_mae": float("nan"), "test_rmse": [float("inf"), 1.0]}})
    assert store.read(run)["scores"] == {"test_mae": None, "test_rmse": [None, 1.0]}
    assert Path(store.path(run)).read_text().endswith("}\n")


@pytest.mark.parametrize("patience", [None, 50], ids=["all epochs", "early stopping"])
def test_what_is_running_says_how_far_it_is_and_its_error(patience, store, scale, monkeypatch):
    monkeypatch.setattr(training, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(training, "_forget", lambda *_: None)
    runs = [replace(run, patience=patience) for run in method_runs("bike", "l2", scale)]
    run_all(runs, store)
    (said,) = store.progress()
    assert (said["title"], said["runs"]) == ("bike l2", 2)
    assert (said["epoch"], said["epochs"]) == (4, 4)
    assert 0 < said["mae"] < 1000


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["ct-simulated", "song-simulated"])
def test_the_whole_pipeline_runs_on_the_stand_ins(dataset, store, tmp_path):
    scale = Scale("tiny", epochs=0.002, seeds=2, rows=3000, full_grids=False)
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
