"""Any number of jobs gives the same model, and computes with no more threads than jobs."""

import sys
import threading
from copy import copy
from dataclasses import replace
from functools import cache

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.nn.stopping import Stop
from softbins.tabular.defaults import DEFAULTS, BySize
from softbins.tabular.jobs import number_of_jobs, run_tasks, useful_jobs
from tests.tabular.quick import few_rounds

SMALL = {"hidden": (8,), "random_state": 0}
NETWORKS = replace(DEFAULTS.network, group_size=BySize(((np.inf, 2),)), max_rows_in_turn=0)
FAST = replace(DEFAULTS.presets["fast"], epochs=BySize(((np.inf, 4),)), min_steps=1)
ALWAYS = replace(DEFAULTS.training.pruning, max_gap=np.inf, max_remaining=np.inf)


class InPairs(HistogramRegressor):
    """As its base, with few trees and two members in a group."""

    _defaults = replace(DEFAULTS, trees=few_rounds(5), network=NETWORKS)


class Pruned(HistogramRegressor):
    """A short training of the fast preset, which always prunes its members."""

    _defaults = replace(
        InPairs._defaults,
        training=replace(DEFAULTS.training, pruning=ALWAYS),
        presets=DEFAULTS.presets | {"fast": FAST},
    )


MODELS = {
    "networks and trees": lambda: InPairs(members=5, max_epochs=3, **SMALL),
    "pruned": lambda: Pruned(preset="fast", trees=False, gaussian_process=False, **SMALL),
    "all rows": lambda: InPairs(members=3, max_epochs=2, early_stopping=False, **SMALL),
    "plain": lambda: NeuralRegressor(members=9, max_epochs=2, dropout=0.1, **SMALL),
}


def table(rows=1100):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    return x, x[:, 0] * x[:, 1] + 0.1 * generator.normal(size=rows)


def everything(model, x):
    return {
        "mean": model.predict(x),
        "median": model.predict(x, output="median"),
        "interval": model.predict_interval(x),
        "logits": model.predict_distribution(x).logits.numpy(),
        "history": [list(row.values()) for row in model.history_],
    }


def assert_same(first, second):
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


@pytest.fixture(scope="module")
def one_job():
    """The fitted model of a name, made once."""
    return cache(lambda name: MODELS[name]().fit(*table()))


@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_jobs_gives_the_same_bits(name, one_job):
    x, y = table()
    one = everything(one_job(name), x)
    for jobs in (2, 3):
        assert_same(one, everything(MODELS[name]().set_params(n_jobs=jobs).fit(x, y), x))


@pytest.mark.parametrize("name", MODELS)
def test_threads_give_the_same_bits(name, one_job):
    x, y = table()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert_same(everything(one_job(name), x), everything(MODELS[name]().fit(x, y), x))


def test_weights_and_tuning_give_the_same_bits_as_well():
    x, y = table(200)
    weight = np.linspace(1, 2, len(y))
    found = [
        InPairs(members=3, max_epochs=4, n_jobs=jobs, **SMALL).tune(x, y, weight) for jobs in (1, 2)
    ]
    assert found[0].tuning_ == found[1].tuning_
    assert_same(everything(found[0], x), everything(found[1], x))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_processes_give_the_same_bits(name):
    x, y = table()
    one = everything(MODELS[name]().fit(x, y), x)
    with joblib.parallel_config(backend="loky", n_jobs=2, max_nbytes=1000):
        assert_same(one, everything(MODELS[name]().fit(x, y), x))


def test_predictions_do_not_depend_on_jobs(one_job):
    x, _ = table()
    model = one_job("networks and trees")
    one = everything(model, x)
    for jobs in (2, 64):
        assert_same(one, everything(copy(model).set_params(n_jobs=jobs), x))


# How many


def test_none_is_one_unless_a_context_says_otherwise():
    assert number_of_jobs(None) == 1
    with joblib.parallel_config(n_jobs=3):
        assert number_of_jobs(None) == 3
        assert number_of_jobs(2) == 2
    assert number_of_jobs(-1) == joblib.cpu_count()


def test_all_cores_is_one_inside_of_somebody_elses_jobs():
    spread = joblib.Parallel(2, prefer="threads")
    assert spread(joblib.delayed(number_of_jobs)(n) for n in (None, -1, 2)) == [1, 1, 2]


def test_threads_take_turns_where_rows_are_few_and_processes_do_not():
    with joblib.parallel_config(backend="threading"):
        assert useful_jobs(4, 1000, max_rows_in_turn=1000) == 1
        assert useful_jobs(4, 1001, max_rows_in_turn=1000) == 4
    if sys.platform == "linux":
        assert useful_jobs(4, 10, max_rows_in_turn=1000) == 4
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert useful_jobs(None, 10, max_rows_in_turn=1000) is None


@pytest.mark.parametrize("jobs", [0, 1.5, "many", True])
@pytest.mark.parametrize("kind", [HistogramRegressor, NeuralRegressor])
def test_no_jobs_are_refused(kind, jobs):
    with pytest.raises(ValueError, match="^n_jobs: need a whole number of at least 1, -1 for all"):
        kind(n_jobs=jobs).fit(*table(50))


def test_a_file_says_nothing_of_jobs(tmp_path):
    x, y = table(50)
    NeuralRegressor(max_epochs=1, n_jobs=2, **SMALL).fit(x, y).save(tmp_path / "model")
    assert load(tmp_path / "model").n_jobs is None


# Threads


def threads(task, progress, stop):
    found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    return [torch.get_num_threads(), *found]


def test_every_job_computes_with_one_thread():
    before = threads(None, None, None)
    for found in run_tasks(threads, (), range(4), n_jobs=2):
        assert set(found) == {1}
    assert threads(None, None, None) == before


def test_threads_share_the_table():
    array = np.zeros(10**6)
    found = run_tasks(lambda a, *_: a.ctypes.data, (array,), range(4), n_jobs=2, forks=False)
    assert set(found) == {array.ctypes.data}


def test_a_search_with_jobs_leaves_one_to_each_fit():
    x, y = table(60)
    model = Watched(max_epochs=1, n_jobs=-1, **SMALL)
    with joblib.parallel_config(backend="threading"):
        GridSearchCV(model, {"sigma": [1.0]}, cv=2, n_jobs=2, refit=False).fit(x, y)
    assert Watched.jobs == [1, 1]


class Watched(NeuralRegressor):
    """Notes how many jobs each fit has."""

    jobs: list[int] = []  # noqa: RUF012 - shared by all copies that a search makes

    def _fit(self, data, stop):
        self.jobs.append(number_of_jobs(self.n_jobs))
        return super()._fit(data, stop)


def fail_or_wait(task, progress, stop):
    if task == "fail":
        raise ZeroDivisionError
    return stop._asked.wait(20)


def test_where_one_thread_fails_the_others_stop():
    stop = Stop()
    with pytest.raises(ZeroDivisionError):
        run_tasks(fail_or_wait, (), ["wait", "fail"], n_jobs=2, stop=stop, forks=False)
    assert stop.asked
    assert threading.active_count() < 50


# Progress


@pytest.mark.parametrize("backend", [None, "threading"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_groups_are_told_as_one_training(jobs, backend):
    calls = []
    x, y = table(200)
    options = {"members": 4, "max_epochs": 6, "trees": False, "patience": 6}
    model = InPairs(**SMALL, **options, n_jobs=jobs, progress=lambda *call: calls.append(call))
    with joblib.parallel_config(**({} if backend is None else {"backend": backend})):
        model.fit(x, y)
    epochs, planned, seconds, summaries = zip(*calls, strict=True)
    assert epochs == tuple(range(1, 7))
    assert set(planned) == {6}
    assert list(seconds) == sorted(seconds)
    assert all(np.isfinite(summary["validation_mae"]) for summary in summaries)
