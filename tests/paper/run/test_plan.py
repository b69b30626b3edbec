"""What there is to run, and how a run is named."""

from dataclasses import fields, replace

import pytest
import torch

from softbins.nn.objectives import make_objective
from softbins.paper.run.methods import METHODS, PARAMETER_GRIDS, SINGLE_VALUES, parameter_grid
from softbins.paper.run.plan import (
    ARTEFACTS,
    SCALES,
    TRAINING_SETTINGS,
    WIDE_HIDDEN,
    Run,
    artefact_runs,
    candidate_settings,
    plan_runs,
)
from softbins.paper.show.published import printed_setup

PAPER = SCALES["paper"]
RUN = Run("bike", "l2-noise", 0, 500, (64,) * 4, 0.0, 50, True, (("noise", 0.1),))
CHANGES = {
    "dataset": "ct",
    "method": "l2",
    "seed": 1,
    "epochs": 499,
    "hidden": (64,) * 3,
    "dropout": 0.05,
    "patience": None,
    "held_out": False,
    "parameters": (("noise", 0.2),),
    "split": "fixed",
    "rows": 1000,
    "representation": "random",
    "curves": True,
    "protocol": 2,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Run)])
def test_everything_that_decides_a_result_is_part_of_the_identity(name):
    assert replace(RUN, **{name: CHANGES[name]}).identity != RUN.identity


def test_the_identity_does_not_change_from_one_day_to_the_next():
    """Otherwise finished runs would be lost: raise PROTOCOL instead, on purpose."""
    assert RUN.identity == "29a35005a2629faa"


@pytest.mark.parametrize("dataset", ["bike", "ct", "song"])
def test_the_settings_are_the_published_ones(dataset):
    printed, ours = printed_setup(dataset), TRAINING_SETTINGS[dataset]
    for name in ("hidden", "epochs", "dropout"):
        assert getattr(ours, name) == getattr(printed, name)
    assert (ours.patience is not None) == printed.early_stopping


@pytest.mark.parametrize("method", sorted(PARAMETER_GRIDS))
def test_the_grids_are_the_published_ones_as_far_as_they_can_be(method):
    name, values = PARAMETER_GRIDS[method]
    left_out = {0.1} if method == "hl-uniform" else set()
    assert set(getattr(printed_setup("bike"), name)) - left_out == set(values)
    assert SINGLE_VALUES[method] in values


def test_the_epsilon_that_is_left_out_is_no_distribution():
    objective = make_objective("hl-uniform", 0.0, 1.0, epsilon=0.1)
    with pytest.raises(ValueError, match=r"with 100 bins, epsilon must lie in \[0, 1 / 100\]"):
        objective.losses(torch.zeros(1, 100), torch.tensor([0.5]))


@pytest.mark.parametrize("artefact", ARTEFACTS)
@pytest.mark.parametrize("dataset", ["bike", "ct", "song-simulated"])
@pytest.mark.parametrize("scale", SCALES.values(), ids=list(SCALES))
def test_every_artefact_can_be_planned_for_every_dataset(artefact, dataset, scale):
    runs = artefact_runs(artefact, dataset, scale)
    assert len(runs) == len({run.identity for run in runs})
    assert {run.dataset for run in runs} <= {dataset}
    assert bool(runs) == (artefact not in ("overview", "targets"))
    for run in runs:
        assert run.method == "linear" or run.epochs >= 1


def test_bike_at_full_scale_is_the_papers_experiment():
    runs = artefact_runs("table", "bike", PAPER)
    settings = sum(len(parameter_grid(method)) for method in METHODS)
    assert settings == 6 + 5 + 4 + 4 + 5  # without a grid, noise, clipping, epsilon, components
    assert len(runs) == 5 * settings
    networks = [run for run in runs if run.method != "linear"]
    assert {run.epochs for run in networks} == {500}
    assert {run.patience for run in networks} == {50}
    assert printed_setup("bike").wide_hidden == WIDE_HIDDEN


def test_an_honest_choice_is_judged_by_runs_that_have_not_seen_the_validation_rows():
    for _, reported, judging in candidate_settings("ct", "mdn", PAPER):
        assert not any(run.held_out for run in reported)
        assert all(run.held_out for run in judging)
    for _, reported, judging in candidate_settings("bike", "mdn", PAPER):
        assert reported == judging


def test_artefacts_share_their_runs():
    together = plan_runs(ARTEFACTS, "bike", PAPER)
    apart = sum(len(artefact_runs(artefact, "bike", PAPER)) for artefact in ARTEFACTS)
    assert len(together) == len(set(together)) < apart
