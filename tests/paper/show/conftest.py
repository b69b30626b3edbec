"""A store with known scores, which tests of tables and formats share."""

import pytest

from softbins.paper.run.plan import plan_runs
from softbins.paper.run.store import Store
from softbins.paper.show.published import METRICS
from tests.paper.show.small_tables import SHORT
from tests.paper.synthetic import write_scores


@pytest.fixture
def scored_store(tmp_path):
    """All runs of two seeds on Bike Sharing, with scores 28.5 and 29.5; half of MDN's failed."""
    store = Store(tmp_path / "results")
    for run in plan_runs(["table", "representations", "claims"], "bike", SHORT):
        scores = dict.fromkeys((*METRICS, "test_mae_of_best_output"), 28.5 + run.seed)
        failed = {"test_mae": None} if run.method == "mdn" and run.seed else {}
        write_scores(store, run, scores | failed)
    return store
