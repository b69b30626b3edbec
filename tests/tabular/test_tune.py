"""Choosing settings: candidates side by side in one stack."""

import numpy as np
import pytest
import torch

from softbins import HistogramRegressor
from softbins.nn.adam import Adam
from softbins.tabular.tune import Candidate, CandidateMLP, _chosen, candidates

FIRST = Candidate(0.1, 0.1, 1e-2)
QUICK = {"hidden": (16,), "max_epochs": 6, "trees": False, "random_state": 0}


def table(rows=150, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    return x, 3 * x[:, 0] - x[:, 1] * x[:, 2] + 0.3 * generator.normal(size=rows)


def test_each_candidate_differs_in_one_setting():
    tried = candidates(FIRST)
    assert tried[0] == FIRST
    assert len(set(tried)) == len(tried) == 7
    for other in tried[1:]:
        changes = [n for n in vars(FIRST) if getattr(other, n) != getattr(FIRST, n)]
        assert len(changes) == 1


def test_the_best_value_of_each_setting_is_taken():
    tried = candidates(FIRST)
    errors = [1.0] * len(tried)
    errors[tried.index(Candidate(0.2, 0.1, 1e-2))] = 0.9
    errors[tried.index(Candidate(0.1, 0.0, 1e-2))] = 0.95
    assert _chosen(tried, errors) == {"blur": 0.2, "dropout": 0.0, "weight_decay": 1e-2}
    # A hair's breadth is no reason for a change.
    errors[tried.index(Candidate(0.2, 0.1, 1e-2))] = 0.999
    assert _chosen(tried, errors)["blur"] == 0.1


def test_members_have_their_own_decay():
    tried = [Candidate(0.1, 0.0, 0.0), Candidate(0.1, 0.5, 1.0)]
    network = CandidateMLP(tried, 2, [0], (64, 64), 5, [0, 1])
    before = [parameter.detach().clone() for parameter in network.parameters()]
    network.decay(Adam(list(network.parameters()), 0.1))
    for old, new in zip(before, network.parameters(), strict=True):
        torch.testing.assert_close(new[0], old[0])
        torch.testing.assert_close(new[1], 0.9 * old[1])


def test_tune_sets_what_it_chose_and_fits_with_it():
    x, y = table()
    model = HistogramRegressor(**QUICK).tune(x, y)
    names = ("blur", "dropout", "weight_decay", "bins", "sigma")
    chosen = {name: model.get_params()[name] for name in names}
    assert 0 < chosen["blur"] <= 0.4
    assert len(model.tuning_) == 7 + 4
    assert all(np.isfinite(list(tried.values())).all() for tried in model.tuning_)
    again = HistogramRegressor(**QUICK | chosen).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))


@pytest.mark.parametrize("name", ["heavy tails", "constant", "weights", "many rows"])
def test_any_table_can_be_tuned(name):
    x, y = table(2100 if name == "many rows" else 150)
    weight = np.arange(len(y)) % 3 if name == "weights" else None
    y = {"heavy tails": np.exp(4 * y / y.std()), "constant": np.ones(len(y))}.get(name, y)
    model = HistogramRegressor(**QUICK | {"max_epochs": 2}).tune(x, y, weight)
    assert np.isfinite(model.predict(x)).all()
    assert (model.bins == "auto") == (name == "heavy tails")
