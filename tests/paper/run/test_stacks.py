"""Which runs are trained together, in which order, and what they are called."""

from dataclasses import replace

import pytest

from softbins.paper.run.plan import (
    ARTEFACTS,
    SCALES,
    Scale,
    artefact_runs,
    curve_runs,
    method_runs,
    plan_runs,
    wide_network_runs,
)
from softbins.paper.run.stacks import describe_run, make_stacks, make_waves

PAPER = SCALES["paper"]


def test_a_stack_differs_in_its_seeds_only():
    for stack in make_stacks(plan_runs(ARTEFACTS, "bike", PAPER)):
        assert len({run.configuration for run in stack}) == 1
        assert [run.seed for run in stack] == [0, 1, 2, 3, 4]


def test_grouped_splits_are_trained_alone_because_patients_differ_in_their_slices():
    grouped = [run for run in artefact_runs("table", "ct", PAPER) if run.split == "grouped"]
    assert grouped
    assert all(len(stack) == 1 for stack in make_stacks(grouped))


def test_what_starts_from_another_run_comes_after_it():
    runs = artefact_runs("representations", "bike", PAPER)
    swapped = [run for run in runs if run.layer_source is not None]
    first, second = make_waves(swapped)  # even if the sources were not asked for
    assert {run for stack in second for run in stack} == set(swapped)
    assert {run.layer_source for run in swapped} == {run for stack in first for run in stack}
    assert {run.method for stack in first for run in stack} == {"l2", "hl-gaussian"}


def test_large_networks_on_many_rows_are_trained_in_smaller_stacks():
    """A checkpoint comes after an epoch, and at most a minute's work may be lost."""
    assert {len(stack) for stack in make_stacks(wide_network_runs("song", PAPER))} == {1}
    assert {len(stack) for stack in make_stacks(wide_network_runs("bike", PAPER))} == {5}
    assert {len(stack) for stack in make_stacks(method_runs("song", "hl-gaussian", PAPER))} == {5}


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
