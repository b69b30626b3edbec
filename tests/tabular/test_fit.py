"""Once the rows that members have left out have judged them, members learn from these, too."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from softbins import HistogramRegressor
from softbins.tabular.defaults import EFFORTS
from softbins.tabular.fit import Fitting

QUICK = {"hidden": (16,), "members": 3, "max_epochs": 20, "trees": False, "random_state": 0}
see_all, last_settings = Fitting._see_all, Fitting._last_settings


def data(rows=240, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    return x, 10 + 3 * x[:, 0] - x[:, 1] * x[:, 2]


def fit(**options):
    return HistogramRegressor(**QUICK | options).fit(*data())


@pytest.fixture
def looks(monkeypatch):
    """Each last look: its trainer, settings, and the members' errors on their own folds."""
    found = []

    def errors(trainer):
        return trainer.evaluate(trainer.validation)["rmse"]

    def watched(self, network, trainer):
        before = errors(trainer)
        see_all(self, network, trainer)
        found.append((trainer, last_settings(self, trainer), before, errors(trainer)))

    monkeypatch.setattr(Fitting, "_see_all", watched)
    return found


def test_every_member_learns_from_its_fold(looks):
    fit()
    [(_, _, before, after)] = looks
    assert before.shape == (3,)
    assert (after < before).all()


def test_folds_judge_members_that_have_not_seen_them(monkeypatch):
    seen = fit()
    monkeypatch.setattr(Fitting, "_see_all", lambda *_: None)
    unseen = fit()
    assert seen.finish_ == unseen.finish_
    assert (seen.n_epochs_, seen.history_) == (unseen.n_epochs_, unseen.history_)
    x, _ = data()
    assert (seen.predict(x) != unseen.predict(x)).all()


@pytest.mark.parametrize("preset", EFFORTS)
def test_it_is_a_share_of_the_best_epochs_at_a_share_of_the_rate(looks, preset):
    fit(preset=preset, members=2)
    [(trainer, settings, _, _)] = looks
    best = trainer.best_epoch.double().mean().item()
    assert best > 1
    expected = replace(
        trainer.settings,
        epochs=math.ceil(EFFORTS[preset].last * best),
        learning_rate=EFFORTS[preset].last_rate * trainer.settings.learning_rate,
        patience=None,
        evaluate=(),
    )
    assert settings == expected


def test_no_time_is_taken_that_is_not_left(looks):
    model = fit(max_seconds=1e-9)
    [(_, settings, before, after)] = looks
    assert model.n_epochs_ == 1
    assert settings is None
    assert torch.equal(before, after)


def test_time_that_is_left_is_a_limit(looks):
    fit(max_seconds=1000.0)
    [(trainer, settings, _, _)] = looks
    assert settings.max_seconds == 1000 - trainer.seconds


def test_who_has_seen_all_rows_needs_no_last_look(looks):
    fit(early_stopping=False)
    x, _ = data()
    HistogramRegressor(**QUICK).fit(x, np.ones(len(x)))
    assert looks == []
