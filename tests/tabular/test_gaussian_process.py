"""The Gaussian process: its likelihood, predictions for held-out rows, weights, targets, files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

from softbins.nn.stopping import Stop
from softbins.tabular import gaussian_process_fit
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.encoded_feature import EncodedFeature
from softbins.tabular.folds import Folds
from softbins.tabular.gaussian_process import GaussianProcess
from softbins.tabular.gaussian_process_fit import (
    Rows,
    bend,
    fit_gaussian_process,
    kernel,
    negative_log_posterior,
    standardization,
)
from tests.tabular.quick import encoded_data

HOW = DEFAULTS.gaussian_process


def table(rows=120, seed=0, weight=None):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3))
    y = np.sin(2 * x[:, 0]) + x[:, 1] + 0.05 * generator.normal(size=rows)
    return encoded_data(x, y, weight)


def fitted(data, how=HOW, stop=None):
    folds = Folds.draw(data, 4, 0, DEFAULTS.folds)
    x = data.features.astype(np.float64)
    return fit_gaussian_process(x, data, folds, how, stop or Stop()), folds


def test_the_gradient_is_that_of_the_likelihood():
    generator = np.random.default_rng(0)
    noise = generator.uniform(0.5, 2, 25)
    rows = Rows(generator.normal(size=(25, 4)), np.array([0, 1, 1, 2]), noise - 1, noise)
    place = generator.normal(size=5) / 3
    expected = approx_fprime(
        place, lambda at: negative_log_posterior(at, rows, HOW, Stop())[0], 1e-6
    )
    found = negative_log_posterior(place, rows, HOW, Stop())[1]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_it_learns_a_smooth_function():
    data = table(160)
    learnt, new = np.arange(120), np.arange(120, 160)
    known = encoded_data(data.features[learnt], data.target[learnt])
    process = fitted(known)[0].process
    x = known.encoded.transform.scaling(data.features[new].astype(np.float64))
    error = process(x).numpy() - data.target[new]
    assert np.sqrt(np.mean(error**2)) < 0.3 * data.target.std()


def test_held_out_rows_in_closed_form_are_those_of_processes_without_them(monkeypatch):
    # With the same length scales in all folds, both ways say the same.
    monkeypatch.setattr(gaussian_process_fit, "search", lambda *_: np.zeros(5))
    data = table(60)
    closed = fitted(data, replace(HOW, max_rows_to_search_again=0))[0].held_out
    np.testing.assert_allclose(closed, fitted(data)[0].held_out, rtol=1e-6, atol=1e-9)


def test_a_weight_of_two_is_a_row_twice():
    # Noise is divided by the weight; the same row twice has half the noise in its mean.
    data = table(40)
    place = np.array([-1.0, -1.0, 0.0, 0.0, 0.0])
    column, z, y = np.arange(3), data.features.astype(np.float64), data.target

    def prediction(index, noise):
        covariance = kernel(place, column, z[index], z[index]) + np.diag(np.exp(-1.0) * noise)
        return kernel(place, column, z, z[index]) @ np.linalg.solve(covariance, y[index])

    once, twice = np.arange(40), np.concatenate([np.arange(40), np.arange(10)])
    noise = np.where(once < 10, 0.5, 1.0)
    np.testing.assert_allclose(prediction(once, noise), prediction(twice, np.ones(50)), rtol=1e-6)


def test_rows_of_little_weight_say_little():
    data = table(80)
    wrong = np.arange(80) < 20
    spoilt = replace(data, target=np.where(wrong, 50.0, data.target))
    weight = np.where(wrong, 1e-3, 1.0)
    process = fitted(replace(spoilt, weight=weight))[0].process
    error = process(torch.from_numpy(data.features)).numpy() - data.target
    assert np.sqrt(np.mean(error[~wrong] ** 2)) < 0.5 * data.target.std()


def test_targets_come_back_unbent_where_there_is_no_error():
    y = np.random.default_rng(0).lognormal(sigma=2, size=200)
    target = bend(y, HOW)
    bent = torch.from_numpy(np.arcsinh((y - target.center) / target.spread))
    np.testing.assert_allclose(target.mean(bent).numpy(), y, rtol=1e-9, atol=1e-9)


def test_categories_are_as_far_from_each_other_whatever_their_frequency():
    x = np.eye(3)[np.random.default_rng(0).choice(3, size=200, p=[0.8, 0.15, 0.05])]
    features = [EncodedFeature(0, "is_category", name) for name in "abc"]
    _, length, column = standardization(x, features)
    assert length == pytest.approx(np.full(3, length[0]))
    assert column.tolist() == [0, 0, 0]


def test_a_feature_that_never_changes_says_nothing():
    data = table()
    wider = encoded_data(np.column_stack([data.features, np.full(120, 7.0)]), data.target)
    found, _ = fitted(wider)
    x = wider.features
    other = x.copy()
    other[:, 3] += 1.0
    assert torch.equal(found.process(torch.from_numpy(x)), found.process(torch.from_numpy(other)))


def test_it_ends_when_the_time_is_up():
    stop = Stop()
    stop.ask()
    with pytest.warns(UserWarning, match="the Gaussian process was left out"):
        assert fitted(table(), stop=stop)[0] is None


def test_a_file_holds_all_of_it():
    process = fitted(table())[0].process
    tensors = process.tensors() | {"other": torch.zeros(1)}
    again = GaussianProcess.from_tensors(tensors)
    assert list(tensors) == ["other"]
    x = torch.from_numpy(table(seed=2).features)
    assert torch.equal(again(x), process(x))
