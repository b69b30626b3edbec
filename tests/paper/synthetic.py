"""Records that no training made, for what is drawn, judged and written from records."""

import math

from softbins.paper.run.plan import ARTEFACTS, WIDE_HIDDEN, Scale, plan_runs

FULL = Scale("full", epoch_share=0.04, n_seeds=3, max_rows=1500, full_grids=True)
MAE = {
    "linear": 100.0,
    "l2": 30.0,
    "hl-gaussian": 20.0,
    "l1": 28.0,
    "l2-noise": 27.0,
    "l2-clipping": 26.0,
    "hl-onebin": 25.0,
    "hl-uniform": 24.0,
    "mdn": 29.0,
    "l2-softmax": 23.0,
    "l2-many": 30.0,
}
FACTORS = {"default": 1.0, "fixed": 2.0, "initialized": 1.2, "random": 4.0}


def mae(run):
    """A test MAE that supports every claim of the paper, different for each seed."""
    wide = 0.8 if run.hidden == WIDE_HIDDEN else 1.0
    return MAE[run.method] * FACTORS[run.representation] * wide * (1 + run.seed / 100)


def record(run, error):
    """A record with one error and everything else derived from it; NaN for a diverged run."""
    scores = {
        f"{part}_{name}": factor * value
        for part, factor in (("train", 0.8), ("validation", 1.05), ("test", 1.0))
        for name, value in (("objective", error / 10), ("mae", error), ("rmse", 1.5 * error))
    }
    if run.method == "l2-many":
        scores["test_mae_of_best_output"] = 0.98 * error
    made_with = {"softbins": "0", "torch": "2", "python": "3.11", "machine": "abacus, 2 cores"}
    found = {"scores": scores, "seconds": 30.0, "made_with": made_with}
    return found | ({"history": history(run, error)} if run.curves else {})


def history(run, error):
    """Errors that fall, HL's faster, and gradient norms that jump, l2's farther."""
    epochs = list(range(1, run.epochs + 1))
    pace, jump = (2.0, 3.0) if run.method == "l2" else (0.5, 0.3)
    found = {
        f"{part}_{name}": [factor * error * (1 + pace * math.exp(-e / 4 / pace)) for e in epochs]
        for part in ("train", "test")
        for name, factor in (("objective", 0.1), ("mae", 1.0), ("rmse", 1.5))
    }
    norms = [1 + jump * (e % 3) + run.seed / 100 for e in epochs]
    return {"epoch": epochs, **found, "gradient_norm": norms}


def write_scores(store, run, scores):
    """Give a run these scores, as far as its record has them; others stay, or are missing."""
    whole = store.read(run) or record(run, math.nan)
    known = {name: value for name, value in scores.items() if name in whole["scores"]}
    store.write(run, whole | {"scores": whole["scores"] | known})


def fill(store, scale, dataset="bike", artefacts=ARTEFACTS, error=mae):
    """Write the records of all runs of the artefacts."""
    for run in plan_runs(artefacts, dataset, scale):
        store.write(run, record(run, error(run)))
    return store
