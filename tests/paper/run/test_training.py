"""One stack from its runs to its records, on small pieces of the real data."""

from dataclasses import replace

import pytest

from softbins._core.model_file import read, write
from softbins.paper.run import training
from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import (
    Scale,
    curve_runs,
    many_output_runs,
    method_runs,
    representation_runs,
)
from softbins.paper.run.stacks import is_finished, stack_name
from softbins.paper.run.training import train_stack
from softbins.paper.run.workers import run_all


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
    source = chosen["fixed"][0].layer_source
    assert source.method != method
    assert store.has(source)


def test_a_stack_that_somebody_else_is_training_is_left_to_them(store, scale):
    runs = method_runs("bike", "l2", scale)
    with store.lock(stack_name(runs), wait=False) as mine:
        assert mine
        assert train_stack(runs, store, wait=False) is False
    assert not store.has(runs[0])
    assert train_stack(runs, store, wait=False) is True
    assert is_finished(runs, store)


def other_run(header, tensors, runs):
    header["runs"] = [run.to_json() for run in method_runs("bike", "l1", Scale("x", 1, 2, 9, True))]


def other_names(header, tensors, runs):
    tensors["more"] = tensors.pop("best.0")


def other_shape(header, tensors, runs):
    tensors["parameter.0"] = tensors["parameter.0"][:, 1:].contiguous()


def no_generator(header, tensors, runs):
    tensors["generator.0"] = tensors["generator.0"].fill_(255)


def past_the_end(header, tensors, runs):
    header["epoch"] = runs[0].epochs + 1


def unknown_member(header, tensors, runs):
    header["running"] = [0, len(runs)]


CHECKPOINT_FAULTS = {
    other_run: "it is of another run",
    other_names: "its tensors are not those of the networks",
    other_shape: "its tensors are not those of the networks",
    no_generator: "its tensor generator.0 is no state of a generator",
    past_the_end: "checkpoint.epoch: need a whole number from 0 to 4, got 5",
    unknown_member: "checkpoint.running[1]: need a whole number from 0 to 1, got 2",
}


@pytest.mark.parametrize("edit", CHECKPOINT_FAULTS, ids=lambda edit: edit.__name__)
def test_a_checkpoint_that_does_not_fit_is_set_aside(edit, store, scale):
    """Also one with a right digest: it may come from another version."""
    runs = method_runs("bike", "l2", scale)
    path = store.running_path(f"{stack_name(runs)}.checkpoint")
    stack = training.StackTraining(runs, store, training.load_dataset("bike"))
    stack.trainer.run(until=1)
    stack._write_checkpoint()
    header, tensors = read(path)
    edit(header, tensors, runs)
    write(path, header, tensors)
    said = []
    run_all(runs, store, on_set_aside=said.append)
    assert is_finished(runs, store)
    assert said == [f"{path}: {said[0].partition(': ')[2]}"]
    assert CHECKPOINT_FAULTS[edit] in said[0]
    assert said[0].endswith(f"; set aside as {path.name}.damaged")


@pytest.mark.parametrize("patience", [None, 50], ids=["all epochs", "early stopping"])
def test_what_is_running_says_how_far_it_is_and_its_error(patience, store, scale, monkeypatch):
    monkeypatch.setattr(training, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(training, "_remove_running_files", lambda *_: None)
    runs = [replace(run, patience=patience) for run in method_runs("bike", "l2", scale)]
    run_all(runs, store)
    (said,) = store.read_progress()
    assert (said["title"], said["runs"]) == ("bike l2", 2)
    assert (said["epoch"], said["epochs"]) == (4, 4)
    assert 0 < said["mae"] < 1000
