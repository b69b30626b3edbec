"""Where there is no noise, two members go on with the time of all."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from softbins import HistogramRegressor, load
from softbins.nn import pruning as thinning
from softbins.nn.objectives import make_objective
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import Settings, Trainer
from softbins.tabular import forest as boosting
from softbins.tabular.defaults import EFFORTS

ROWS = 800
EPOCHS = 40
FOLD, OTHER_FOLD, REST = torch.arange(ROWS).split([100, 100, 600])


def trainer(noise=0.0, folds=(FOLD, OTHER_FOLD, FOLD, OTHER_FOLD), epochs=EPOCHS, patience=20):
    """Four members, of which the first and the third leave out the same rows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 2, generator=generator)
    y = (x[:, 0] + x[:, 1]) / 4 + 0.25 + noise * torch.randn(ROWS, generator=generator)
    objective = make_objective("hl-gaussian", 0.0, 1.0, bins=20)
    network = StackedMLP(2, (32, 32), objective.outputs, range(4))
    rows = [torch.tensor(sorted({*range(ROWS)} - {*fold.tolist()})) for fold in folds]
    settings = Settings(
        epochs=epochs,
        batch_size=100,
        learning_rate=1e-2,
        schedule="cosine",
        patience=patience,
        monitor="rmse",
    )
    y = y.clamp(0, 1)
    return Trainer(network, objective, x, y, rows, range(4), settings, list(folds))


def test_without_noise_two_members_go_on_in_the_time_of_all():
    first = trainer()
    last = thinning.train(first)
    early = round(thinning.EARLY * EPOCHS)
    times = thinning.QUICKER * 4 / 2
    assert last is not first
    assert last.network is first.network
    assert last.network.members == 2
    assert last.settings.epochs == early + round(times * (EPOCHS - early))
    assert last.settings.patience == round(times * 20)
    assert last.epoch > EPOCHS
    assert first.epoch == early


def test_both_have_left_out_the_rows_that_judge_them():
    last = thinning.train(trainer())
    assert last.validation == [FOLD, FOLD]
    assert all(torch.equal(rows, torch.cat([OTHER_FOLD, REST])) for rows in last.rows)


def test_the_history_is_that_of_the_two_from_their_first_epoch_on():
    first = trainer()
    last = thinning.train(first)
    early = round(thinning.EARLY * EPOCHS)
    for place, member in enumerate((0, 2)):
        mine = [row for row in last.history if row["member"] == place]
        assert [row["epoch"] for row in mine] == list(range(1, last.epoch + 1))
        before = [row | {"member": place} for row in first.history if row["member"] == member]
        assert mine[:early] == before
    assert {row["member"] for row in last.history} == {0, 1}


def test_noise_keeps_all_members():
    first = trainer(noise=0.1)
    assert thinning.train(first) is first
    assert first.network.members == 4
    assert first.settings.epochs == EPOCHS


def test_members_without_a_partner_all_go_on():
    folds = torch.arange(ROWS).split(100)[:4]
    first = trainer(folds=folds)
    assert thinning.train(first) is first
    assert first.network.members == 4


def test_a_pair_that_is_all_there_is_goes_on_as_it_was(monkeypatch):
    monkeypatch.setattr(thinning, "_still_learns", lambda _: True)
    first = trainer()
    first.network.keep_members(torch.tensor([0, 2]))
    data = (first.x, first.y, first.rows[::2], [0, 2], first.settings, [FOLD] * 2)
    pair = Trainer(first.network, first.objective, *data)
    assert thinning.train(pair) is pair
    assert pair.settings.epochs == EPOCHS


def test_who_goes_on_does_so_as_if_nothing_had_happened(monkeypatch):
    """With the epochs that were planned, the two end where they would have ended among four."""
    monkeypatch.setattr(thinning, "_still_learns", lambda _: True)
    monkeypatch.setattr(thinning, "QUICKER", 2 / 4)
    everybody, two = trainer(epochs=12), trainer(epochs=12)
    everybody.run()
    thinning.train(two)
    for theirs, ours in zip(everybody.network.parameters(), two.network.parameters(), strict=True):
        scale = theirs.abs().max()
        assert (theirs[[0, 2]] - ours).abs().max() <= 1e-5 * scale


def test_nothing_is_decided_by_errors_that_are_no_numbers():
    first = trainer()
    first.run(until=10)
    for row in first.history:
        row["validation_mae"] = math.nan
    assert not thinning._still_learns(first)


def test_nothing_is_decided_once_members_have_stopped():
    first = trainer()
    first.run(until=10)
    assert thinning._still_learns(first)
    first._keep_running([0, 1, 2])
    assert not thinning._still_learns(first)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_few_epochs_are_enough(epochs):
    last = thinning.train(trainer(epochs=epochs))
    assert last.epoch >= epochs


# In a regressor


@pytest.fixture
def _always(monkeypatch):
    """A short training of the fast preset, which always thins its members out."""
    monkeypatch.setattr(thinning, "_still_learns", lambda _: True)
    monkeypatch.setattr(boosting, "ROUNDS", 10)
    short = replace(EFFORTS["fast"], epochs=((math.inf, 12),), steps=1)
    monkeypatch.setitem(EFFORTS, "fast", short)


def table(rows=1200):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(rows, 3))
    return x, x @ [3.0, 2.0, 1.0]


def fitted(**options):
    small = {"hidden": (16,), "random_state": 0, "embeddings": False, "trees": False}
    return HistogramRegressor(**small | options).fit(*table())


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.usefixtures("_always")
def test_the_fast_preset_ends_with_two_networks(trees, tmp_path):
    model = fitted(preset="fast", trees=trees)
    assert model.network_.members == 2
    assert model.n_epochs_ > 12
    assert {row["member"] for row in model.history_} == {0, 1}
    x, y = table()
    low, high = model.predict_interval(x).T
    assert np.mean((low <= y) & (y <= high)) > 0.8
    model.save(tmp_path / "two.model")
    assert np.array_equal(load(tmp_path / "two.model").predict(x), model.predict(x))


@pytest.mark.usefixtures("_always")
def test_the_rows_that_calibrate_are_those_that_both_have_left_out():
    """An eighth of the rows, 150, whose depths are kept."""
    model = fitted(preset="fast")
    assert len(model.finish_.intervals["central"].depths) == 150


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({"preset": "default", "max_epochs": 4}, 16),
        ({"preset": "fast", "max_epochs": 12}, 4),
        ({"preset": "fast", "members": 6}, 6),
        ({"preset": "fast", "early_stopping": False}, 4),
    ],
)
def test_otherwise_all_networks_stay(options, members):
    model = fitted(**options)
    assert model.network_.members == members
    assert model.n_epochs_ <= 12
