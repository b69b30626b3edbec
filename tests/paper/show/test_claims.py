import math
from dataclasses import replace
from typing import get_args

import pytest

from softbins.paper.run.plan import ARTEFACTS, plan_runs
from softbins.paper.show.claims import (
    Verdict,
    compare_errors,
    epochs_until,
    gradient_spread,
    judge_claims,
)
from softbins.paper.show.tables import Cell
from tests.paper.synthetic import FULL, fill, history, mae, record

# In the order of `judged`, with the artefacts whose runs a claim rests on.
NEEDS = {
    "l2": ["table"],
    "all": ["table"],
    "distributions": ["table"],
    "corrections": ["table"],
    "softmax": ["table"],
    "bins": ["bins"],
    "sigma": ["sigma"],
    "swapped": ["representations"],
    "started": ["representations"],
    "random": ["representations"],
    "gradients": ["curves"],
    "speed": ["curves"],
    "many": ["claims", "representations"],
    "wide": ["claims"],
}


def verdicts(store, dataset="bike", scale=FULL):
    claims = judge_claims(dataset, scale, store)
    return dict(zip(NEEDS, (claim.verdict for claim in claims), strict=True))


def setting(run, name):
    return dict(run.parameters).get(name)


def instead(chosen, error):
    """The usual errors but for some runs; `error` is given the run's usual one."""
    return lambda run: error(mae(run), run) if chosen(run) else mae(run)


def usual(run):
    return run.representation == "default" and not run.parameters and not run.curves


def noisy(middle):
    """Around a level, but too far apart to tell."""
    return lambda _, run: middle * (1 + (run.seed - 1) / 3)


def scaled(factor):
    return lambda error, _: factor * error


CHANGES = [
    ("l2", lambda run: run.method == "hl-gaussian", scaled(2), "not supported"),
    ("l2", lambda run: run.method == "hl-gaussian", noisy(29), "mixed"),
    ("all", lambda run: run.method == "linear", scaled(0.1), "not supported"),
    ("all", lambda run: run.method == "l1", noisy(21), "mixed"),
    ("distributions", lambda run: run.method == "mdn", scaled(0.5), "not supported"),
    ("distributions", lambda run: setting(run, "components") == 16, scaled(0.5), "not supported"),
    ("distributions", lambda run: setting(run, "components") == 16, scaled(2), "supported"),
    ("corrections", lambda run: run.method == "l2-clipping", noisy(20), "mixed"),
    ("softmax", lambda run: run.method == "l2-softmax", scaled(0.5), "not supported"),
    ("bins", lambda run: setting(run, "bins") in (10, 500), scaled(2), "supported"),
    ("bins", lambda run: setting(run, "bins") in (10, 20, 500), scaled(2), "mixed"),
    ("bins", lambda run: setting(run, "bins") is not None, scaled(2), "not supported"),
    ("sigma", lambda run: setting(run, "sigma") is not None, noisy(30), "not supported"),
    ("swapped", lambda run: run.representation == "fixed", scaled(0.1), "not supported"),
    ("swapped", lambda run: run.representation == "fixed", noisy(25), "mixed"),
    ("started", lambda run: run.representation == "initialized", noisy(30), "supported"),
    ("started", lambda run: run.representation == "initialized", scaled(0.5), "not supported"),
    ("random", lambda run: run.representation == "random", noisy(80), "mixed"),
    ("many", lambda run: run.method == "l2-many", scaled(0.7), "not supported"),
    ("many", lambda run: run.method == "l2-many", noisy(24), "mixed"),
    ("many", lambda run: usual(run) and run.method == "hl-gaussian", scaled(2), "mixed"),
    ("wide", lambda run: run.hidden[:1] == (512,), scaled(2), "not supported"),
    ("wide", lambda run: run.hidden[:1] == (512,), noisy(30), "mixed"),
]


def test_errors_as_in_the_paper_support_every_claim(store):
    claims = judge_claims("bike", FULL, fill(store, FULL))
    assert {claim.verdict for claim in claims} == {"supported"}
    assert len(claims) == len(NEEDS)
    assert claims[0].evidence == "Test MAE: HL-Gaussian 20.20 ± 0.12; l2 30.30 ± 0.17 (worse)."
    for claim in claims:
        assert claim.artefact in ARTEFACTS
        assert claim.sentence.endswith(".")
        assert claim.rule.startswith(("Supported", "The", "Both"))
        assert any(character.isdigit() for character in claim.evidence)


@pytest.mark.parametrize(
    ("name", "chosen", "error", "verdict"),
    CHANGES,
    ids=[
        f"{name}-{verdict.replace(' ', '-')}-{i}" for i, (name, *_, verdict) in enumerate(CHANGES)
    ],
)
def test_other_errors_change_the_verdict(store, name, chosen, error, verdict):
    fill(store, FULL, artefacts=NEEDS[name], error=instead(chosen, error))
    assert verdicts(store)[name] == verdict


@pytest.mark.parametrize(
    ("l2", "gaussian", "verdict"),
    [
        (math.nan, 20.0, "supported"),
        (30.0, math.nan, "not supported"),
        (math.nan, math.nan, "mixed"),
    ],
    ids=["l2", "hl-gaussian", "both"],
)
def test_who_diverges_is_worse(store, l2, gaussian, verdict):
    def error(run):
        return {"l2": l2, "hl-gaussian": gaussian}.get(run.method, 25.0) * (1 + run.seed / 100)

    fill(store, FULL, artefacts=["table"], error=error)
    assert verdicts(store)["l2"] == verdict


def test_without_runs_nothing_is_judged(store):
    claims = judge_claims("bike", FULL, store)
    assert {claim.verdict for claim in claims} == {"not run"}
    assert claims[0].evidence == "0 of 6 runs are finished."


def test_one_missing_run_is_enough_not_to_judge(store):
    fill(store, FULL)
    missing = next(run for run in plan_runs(["bins"], "bike", FULL) if setting(run, "bins") == 20)
    store.record_path(missing).unlink()
    found = verdicts(store)
    assert found.pop("bins") == "not run"
    assert set(found.values()) == {"supported"}


def test_single_runs_cannot_be_compared(store):
    single = replace(FULL, name="single", n_seeds=1)
    found = verdicts(fill(store, single), scale=single)
    assert set(found.values()) == {"mixed"}


@pytest.mark.parametrize(
    ("dataset", "words"), [("song-simulated", "no artist"), ("ct-simulated", "no patient")]
)
def test_other_splits_have_their_own_claim(store, dataset, words):
    sentences = [claim.sentence for claim in judge_claims(dataset, FULL, store)]
    assert sum(words in sentence for sentence in sentences) == 1
    assert len(sentences) == len(NEEDS) + 1


def cell(mean, stderr):
    return Cell(mean, stderr, 5, 5)


@pytest.mark.parametrize(
    ("ours", "other", "order"),
    [
        (cell(1.0, 0.3), cell(2.01, 0.4), "better"),
        (cell(1.0, 0.3), cell(2.0, 0.4), "level"),
        (cell(3.01, 0.3), cell(2.0, 0.4), "worse"),
        (cell(1.0, 0.0), cell(1.0, 0.0), "level"),
        (cell(1.0, None), cell(9.0, 0.1), "unclear"),
        (cell(math.nan, None), cell(9.0, 0.1), "worse"),
        (cell(1.0, 0.1), cell(math.nan, None), "better"),
        (cell(math.nan, None), cell(math.nan, None), "level"),
    ],
    ids=["below", "touching", "above", "equal", "single", "diverged", "other-diverged", "both"],
)
def test_two_combined_standard_errors_make_a_difference(ours, other, order):
    assert compare_errors(ours, other) == order


@pytest.mark.parametrize(
    ("norms", "spread"),
    [
        ([2.0] * 20, 0.0),
        ([float(n) for n in range(1, 102)], 90 / 51),
        ([1000.0 * n for n in range(1, 102)], 90 / 51),
        ([1.0, None, 1.0], math.nan),
        ([0.0, 0.0], math.nan),
    ],
    ids=["constant", "even", "in-another-unit", "diverged", "zero"],
)
def test_the_spread_of_gradient_norms(norms, spread):
    assert gradient_spread({"gradient_norm": norms}) == pytest.approx(spread, nan_ok=True)


@pytest.mark.parametrize(
    ("errors", "target", "epoch"),
    [
        ([5.0, 3.0, 2.0, 4.0], 3.0, 2),
        ([5.0, 3.0, 2.0, 4.0], 9.0, 1),
        ([5.0, 3.0, 2.0, 4.0], 1.0, 4),
        ([5.0, None, None, None], 3.0, 4),
        ([5.0, 3.0, 2.0, 4.0], math.nan, 4),
    ],
    ids=["passes", "at-once", "never", "diverged", "no-target"],
)
def test_epochs_until_a_mark(errors, target, epoch):
    assert epochs_until({"epoch": [1, 2, 3, 4], "test_mae": errors}, target) == epoch


def test_curves_are_judged_by_what_happens_during_training(store):
    """With the names of l2 and HL-Gaussian exchanged, l2 is the quick and steady one."""
    exchanged = {"l2": "hl-gaussian", "hl-gaussian": "l2"}
    for run in plan_runs(["curves"], "bike", FULL):
        other = replace(run, method=exchanged.get(run.method, run.method))
        store.write(run, record(run, 25.0) | {"history": history(other, 25.0 + run.seed)})
    found = verdicts(store)
    assert (found["gradients"], found["speed"]) == ("not supported", "not supported")


def test_every_verdict_can_happen():
    assert {verdict for *_, verdict in CHANGES} | {"not run"} == set(get_args(Verdict))
