"""How a table is fitted: blur, inputs, what members say of their folds, and the final refit."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from softbins import HistogramRegressor
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.settings import CycleRule
from softbins.tabular import fit as fitting
from softbins.tabular.choose_objective import automatic_blur
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import DEFAULTS, BySize, Refit
from softbins.tabular.fit import held_out_outputs
from softbins.tabular.folds import Folds
from softbins.tabular.networks import embedded_inputs
from tests.tabular.quick import with_few_rounds

TARGETS = DEFAULTS.targets
QUICK = {"hidden": (16,), "members": 3, "max_epochs": 20, "trees": False, "random_state": 0}


# Blur


def test_the_blur_grows_with_the_noise_within_limits():
    shares = [
        automatic_blur(noise, 2.0, TARGETS) for noise in (0.0, 1e-6, 0.05, 0.08, 0.1, 1.0, 1e9)
    ]
    assert shares == sorted(shares)
    assert 0 < shares[0] == shares[1] < shares[3] < shares[-2] == shares[-1] < 1


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_blur_is_a_share_whatever_the_unit(scale):
    assert automatic_blur(0.1 * scale, 2.0 * scale, TARGETS) == pytest.approx(
        automatic_blur(0.1, 2.0, TARGETS)
    )


@pytest.mark.parametrize(("noise", "spread"), [(None, 1.0), (0.1, 0.0), (None, 0.0)])
def test_the_blur_where_nothing_is_known(noise, spread):
    assert 0 < automatic_blur(noise, spread, TARGETS) < 1


# Inputs


def test_numbers_are_embedded_and_nothing_else():
    frame = pd.DataFrame(
        {
            "text": ["a", "b", "a", "c"],
            "number": [1.5, 2.5, 3.5, 4.5],
            "truth": [True, False, True, True],
            "gaps": [1.0, None, 3.0, 4.0],
            "empty": [None, None, None, None],
        }
    )
    columns = Columns.fit(frame)
    chosen = [
        columns.encoded_features[place] for place in embedded_inputs(columns, DEFAULTS.network)
    ]
    assert [(feature.column, feature.content) for feature in chosen] == [(1, "value"), (3, "value")]


@pytest.mark.parametrize(
    ("inputs", "embedded"), [(DEFAULTS.network.max_embedded_inputs, True), (2000, False)]
)
def test_very_many_numbers_are_not_embedded(inputs, embedded):
    columns = Columns.fit(np.random.default_rng(0).normal(size=(3, inputs)))
    assert len(embedded_inputs(columns, DEFAULTS.network)) == (inputs if embedded else 0)


def test_of_too_many_numbers_those_that_trees_learn_from_are_embedded():
    few = replace(DEFAULTS.network, important_inputs=BySize(((math.inf, 2),)))
    quick = replace(with_few_rounds(5), network=few)
    x = np.random.default_rng(0).normal(size=(300, 6))
    for y, expected in ((x[:, 1] + 3 * x[:, 4], [1, 4]), (x[:, 0] - x[:, 5], [0, 5])):
        regressor = type("Quick", (HistogramRegressor,), {"_defaults": quick})
        model = regressor(hidden=(4,), members=2, max_epochs=1, random_state=0).fit(x, y)
        assert model.network_.embedded == expected


# Members and their folds


@pytest.mark.parametrize("chunk", [3, 4096])
@pytest.mark.parametrize("members", [3, 6])
def test_each_row_is_judged_by_the_members_that_left_it_out(members, chunk):
    network = EmbeddedMLP(2, [0], (8,), 5, seeds=range(members)).double().eval()
    x = torch.randn(40, 2)
    parts = [torch.tensor(f) for f in ([5, 1, 7, 30], [2, 39, 0], [8, 9, 10, 11, 12])]
    folds = Folds(40, parts, [member % 3 for member in range(members)], 100)
    found = held_out_outputs(network, x, folds, chunk)
    outputs = network(x.double().expand(members, -1, -1)).detach()
    # Members 0 and 3 have left out the first fold, and so on.
    expected = torch.cat([outputs[f::3, part] for f, part in enumerate(parts)], 1)
    assert found.shape == (members // 3, 12, 5)
    torch.testing.assert_close(found, expected)


def test_no_more_rows_are_judged_than_needed():
    network = EmbeddedMLP(2, [], (8,), 5, seeds=[1, 2]).double().eval()
    folds = Folds(40, [torch.arange(10), torch.arange(10, 20)], [0, 1], 3)
    assert held_out_outputs(network, torch.randn(40, 2), folds).shape == (1, 6, 5)


# The final refit on all rows


def data(rows=240, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    return x, 10 + 3 * x[:, 0] - x[:, 1] * x[:, 2]


def fit(**options):
    return HistogramRegressor(**QUICK | options).fit(*data())


NO_REFIT = BySize(((math.inf, Refit(epochs=0.0, rate=0.1)),))


class WithoutRefit(HistogramRegressor):
    """As its base, but members never see the rows that they have left out."""

    _defaults = replace(
        DEFAULTS,
        presets={n: replace(b, refit=NO_REFIT) for n, b in DEFAULTS.presets.items()},
    )


@pytest.fixture
def refits(monkeypatch):
    """Each refit: the ensemble, its settings, and the networks before and after."""
    found, refit = [], fitting._refit_on_all_rows

    def watched(workshop, ensemble, task, folds, chosen):
        network = refit(workshop, ensemble, task, folds, chosen)
        errors = [
            own_fold_errors(each, workshop.table, folds) for each in (ensemble.network, network)
        ]
        found.append((ensemble, fitting.refit_settings(ensemble, chosen), chosen, *errors))
        return network

    monkeypatch.setattr(fitting, "_refit_on_all_rows", watched)
    return found


def own_fold_errors(network, table, folds):
    """The cross-entropy of each member on the rows that it has left out."""
    x, targets = torch.from_numpy(table.x), torch.from_numpy(table.targets)
    outputs = network(x.expand(network.members, -1, -1)).detach()
    losses = -(targets * outputs.log_softmax(-1)).sum(-1)
    pairs = enumerate(folds.held_out)
    return torch.stack([losses[member, rows].mean() for member, rows in pairs])


def test_every_member_learns_from_its_fold(refits):
    fit()
    [(*_, before, after)] = refits
    assert before.shape == (3,)
    assert (after < before).all()


def test_folds_judge_members_that_have_not_seen_them():
    seen, unseen = fit(), WithoutRefit(**QUICK).fit(*data())
    assert seen.aggregator_ == unseen.aggregator_
    assert (seen.n_epochs_, seen.history_) == (unseen.n_epochs_, unseen.history_)
    x, _ = data()
    assert (seen.predict(x) != unseen.predict(x)).all()


@pytest.mark.parametrize("preset", DEFAULTS.presets)
def test_it_is_a_share_of_the_best_epochs_at_a_share_of_the_rate(refits, preset):
    fit(preset=preset, members=2)
    [(ensemble, settings, chosen, _, _)] = refits
    best, refit = ensemble.best_epoch.double().mean().item(), chosen.refit
    assert refit == DEFAULTS.presets[preset].refit.at(240)
    assert best > 1
    expected = replace(
        chosen.settings,
        epochs=math.ceil(refit.epochs * best),
        learning_rate=refit.rate * chosen.settings.learning_rate,
        patience=None,
        evaluate=(),
    )
    assert settings == expected


def test_no_time_is_taken_that_is_not_left(refits):
    expected = "^max_seconds: networks learnt for 1 of up to 20 epochs, in"
    with pytest.warns(UserWarning, match=expected):
        model = fit(max_seconds=1e-9, gaussian_process=False)
    [(*_, before, after)] = refits
    assert model.n_epochs_ == 1
    assert torch.equal(before, after)


@pytest.mark.parametrize("weighted", [False, True])
def test_little_time_is_enough_for_some_rows(weighted, monkeypatch):
    times = replace(DEFAULTS.times, min_rows=50, cells_per_second=600.0)
    monkeypatch.setattr(HistogramRegressor, "_defaults", replace(DEFAULTS, times=times))
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(300, 3)), generator.normal(size=300)
    weight = np.where(np.arange(300) < 100, 0.0, 2.0) if weighted else None
    model = HistogramRegressor(hidden=(4,), members=2, max_epochs=2, max_seconds=0.6)
    model.set_params(trees=False, gaussian_process=False, random_state=0)
    with pytest.warns(UserWarning, match="^max_seconds: learnt from 120 of 300 rows, drawn"):
        model.fit(x, y, weight)
    assert model.provenance_.rows == 120
    known = model.fit(pd.DataFrame(x[:40]), y[:40]).provenance_.rows  # as few as these are taken
    assert known == 40


def test_large_tables_are_learnt_in_cycles(monkeypatch):
    """Cycles of 1, 2, 4 and 8 epochs, of 256 rows each."""
    training = replace(
        DEFAULTS.training, rows_of_one_fall=100, max_rows_per_epoch=256, cycles=CycleRule(1, 0.005)
    )
    preset = replace(DEFAULTS.presets["default"], max_epochs_of_cycles=15)
    quick = replace(DEFAULTS, training=training, presets={"default": preset})
    monkeypatch.setattr(HistogramRegressor, "_defaults", quick)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3))
    model = HistogramRegressor(hidden=(16,), members=2, batch_size=8, trees=False, random_state=0)
    model.set_params(gaussian_process=False).fit(x, x[:, 0] + 0.1 * generator.normal(size=400))
    epochs = [sum(row["member"] == member for row in model.history_) for member in (0, 1)]
    assert set(epochs) <= {3, 7, 15}
    assert model.n_epochs_ == max(epochs)
    assert model.score(x, x[:, 0]) > 0.5


def test_who_has_seen_all_rows_needs_no_refit(refits):
    fit(early_stopping=False)
    x, _ = data()
    HistogramRegressor(**QUICK).fit(x, np.ones(len(x)))
    assert refits == []


def test_time_that_is_over_before_pruning_leaves_a_model():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 2))
    told = []
    model = HistogramRegressor(
        preset="fast",
        trees=False,
        max_seconds=1e-3,
        random_state=0,
        progress=lambda *e: told.append(e),
    )
    with pytest.warns(UserWarning, match="max_seconds"):
        model.fit(x, x[:, 0])
    assert told
    assert np.isfinite(model.predict(x)).all()
