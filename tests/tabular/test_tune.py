"""Choosing settings: candidates side by side in one stack."""

import numpy as np
import pytest
import torch

from softbins import Bins, HistogramRegressor
from softbins.nn.adam import Adam
from softbins.nn.groups import member_decay
from softbins.nn.objectives import make_objective
from softbins.nn.settings import Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.tune import Candidate, best_settings, candidates

FIRST = Candidate(0.1, 1e-2)
GAIN = DEFAULTS.tuning.min_gain
QUICK = {"hidden": (16,), "max_epochs": 6, "trees": False, "random_state": 0}


def table(rows=150, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    return x, 3 * x[:, 0] - x[:, 1] * x[:, 2] + 0.3 * generator.normal(size=rows)


@pytest.mark.parametrize(("first", "count"), [(FIRST, 5), (Candidate(None, 1e-2), 3)])
def test_each_candidate_differs_in_one_setting(first, count):
    tried = candidates(first, DEFAULTS.tuning)
    assert tried[0] == first
    assert len(set(tried)) == len(tried) == count
    for other in tried[1:]:
        changes = [n for n in vars(first) if getattr(other, n) != getattr(first, n)]
        assert len(changes) == 1


def test_the_best_value_of_each_setting_is_taken():
    tried = candidates(FIRST, DEFAULTS.tuning)
    errors = [1.0] * len(tried)
    errors[tried.index(Candidate(0.2, 1e-2))] = 0.9
    errors[tried.index(Candidate(0.1, 0.0))] = 0.95
    assert best_settings(tried, errors, GAIN) == {"blur": 0.2, "weight_decay": 0.0}
    # A hair's breadth is no reason for a change.
    errors[tried.index(Candidate(0.2, 1e-2))] = 0.999
    assert best_settings(tried, errors, GAIN)["blur"] == 0.1


def test_members_have_their_own_decay_also_once_others_have_stopped():
    objective = make_objective("l2", 0.0, 1.0)
    network = StackedMLP(2, (8,), 1, [0, 1, 2])
    data = MemberData(torch.randn(20, 2), torch.rand(20), [torch.arange(20)] * 3)
    trainer = Trainer(network, objective, data, Settings(), [0, 1, 2])
    decay = member_decay(trainer, torch.tensor([0.0, 0.5, 1.0]))
    for running, factors in (([0, 1, 2], [1.0, 0.95, 0.9]), ([0, 2], [1.0, 0.9])):
        trainer._keep_running(running)
        before = [parameter.detach().clone() for parameter in network.parameters()]
        decay(Adam(list(network.parameters()), 0.1))
        for old, new in zip(before, network.parameters(), strict=True):
            for member, factor in enumerate(factors):
                torch.testing.assert_close(new[member], factor * old[member])


def test_tune_sets_what_it_chose_and_fits_with_it():
    x, y = table()
    model = HistogramRegressor(**QUICK).tune(x, y)
    names = ("blur", "weight_decay", "bins", "sigma")
    chosen = {name: model.get_params()[name] for name in names}
    assert 0 < chosen["blur"] <= 0.4
    assert len(model.tuning_) == 5 + 4
    assert all(np.isfinite(list(tried.values())).all() for tried in model.tuning_)
    again = HistogramRegressor(**QUICK | chosen).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))


def test_tune_starts_from_the_blur_that_is_given():
    model = HistogramRegressor(**QUICK, blur=0.07).tune(*table())
    tried = [row["blur"] for row in model.tuning_ if "blur" in row]
    assert sorted(set(tried)) == pytest.approx([0.035, 0.07, 0.14])
    assert model.blur in tried


def test_tune_leaves_a_blur_that_is_turned_off():
    x, y = table()
    model = HistogramRegressor(**QUICK, blur=None).tune(x, y)
    assert model.blur is None
    assert model.network_.outputs == model.bins_.count
    assert all(np.isnan(row["blur"]) for row in model.tuning_ if "blur" in row)
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.parametrize("blur", ["auto", None])
def test_tune_leaves_bins_that_are_given(blur):
    bins = Bins.uniform(-15.0, 15.0, 90)
    model = HistogramRegressor(**QUICK, blur=blur, bins=bins, sigma=1.5).tune(*table())
    assert model.bins is bins
    assert model.sigma == 1.5
    assert model.bins_ == bins
    assert not any("bins" in row for row in model.tuning_)


def test_a_number_of_bins_that_is_given_is_among_those_tried():
    model = HistogramRegressor(**QUICK, bins=90, sigma=1.5).tune(*table())
    tried = [(row["bins"], row["sigma"]) for row in model.tuning_ if "bins" in row]
    assert tried == [(90, 1.5), *DEFAULTS.tuning.histograms]


@pytest.mark.parametrize("name", ["heavy tails", "constant", "weights", "many rows"])
def test_any_table_can_be_tuned(name):
    x, y = table(2100 if name == "many rows" else 150)
    weight = np.arange(len(y)) % 3 if name == "weights" else None
    y = {"heavy tails": np.exp(4 * y / y.std()), "constant": np.ones(len(y))}.get(name, y)
    model = HistogramRegressor(**QUICK | {"max_epochs": 2}).tune(x, y, weight)
    assert np.isfinite(model.predict(x)).all()
    assert (model.bins == "auto") == (name in ("heavy tails", "constant"))


@pytest.mark.parametrize("fault", [ValueError("no"), KeyboardInterrupt(), MemoryError()])
def test_a_fit_that_fails_after_tuning_leaves_the_regressor_as_it_was(monkeypatch, fault):
    x, y = table(60)
    model = HistogramRegressor(**QUICK).fit(x, y)
    before = dict(vars(model))

    def failing(*_):
        raise fault

    monkeypatch.setattr(HistogramRegressor, "_fit", failing)
    with pytest.raises(type(fault)):
        model.tune(x, y)
    assert vars(model) == before
