"""Predictions in a process that was forked from one with threads, as web servers do it."""

import numpy as np
import pytest
import torch

from softbins import HistogramRegressor, NeuralRegressor
from tests.forked import in_a_fork

ROWS = 3000  # enough for torch to share the work among threads


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def everything(model, x):
    return [
        model.predict(x),
        model.predict(x, "median"),
        model.predict_interval(x, 0.8),
        model.predict_quantiles(x),
        model.predict_cdf(x, [0.0]),
        model.predict_distribution(x).logits.numpy(),
        model.sample(x, random_state=0),
    ]


@pytest.mark.parametrize(
    "model",
    [
        HistogramRegressor((32,), members=2, max_epochs=2, trees=False, random_state=0),
        NeuralRegressor("hl-gaussian", (32,), max_epochs=2, random_state=0),
    ],
    ids=["HistogramRegressor", "NeuralRegressor"],
)
@pytest.mark.usefixtures("_two_threads")
def test_a_forked_process_predicts_what_its_parent_does(model):
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 4))
    model.fit(x[:200], x[:200, 0] + random.normal(size=200))
    torch.randn(2000, 2000).softmax(-1).sum()  # threads that a forked process does not have
    expected = everything(model, x)
    found = in_a_fork(everything, model, x)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
