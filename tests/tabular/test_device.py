"""Torch's number of threads, when several Python threads predict at the same time."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from softbins.tabular.device import one_thread
from tests.report.small_models import fitted, table, tabular


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Visitor(threading.Thread):
    """A Python thread that goes into `one_thread` at once, and out of it when it is told to."""

    def __init__(self):
        super().__init__(daemon=True)
        self.entered, self.may_leave = threading.Event(), threading.Event()
        self.start()
        assert self.entered.wait(10)

    def run(self):
        with one_thread():
            self.inside = torch.get_num_threads()
            self.entered.set()
            self.may_leave.wait(10)
        self.outside = torch.get_num_threads()

    def leave(self):
        self.may_leave.set()
        self.join(10)


def threads_of_a_new_python_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_the_number_is_back_when_all_have_left_in_any_order(order):
    visitors = [Visitor() for _ in range(3)]
    for number in order:
        visitors[number].leave()
    assert [(visitor.inside, visitor.outside) for visitor in visitors] == [(1, 2)] * 3
    assert (torch.get_num_threads(), threads_of_a_new_python_thread()) == (2, 2)


def test_the_inner_of_two_does_not_end_the_outer():
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_the_number_is_back_after_an_error():
    def fail():
        with one_thread():
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert torch.get_num_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_others_are_inside_counts_anew():
    visitor = Visitor()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with one_thread():
                inside = torch.get_num_threads()
            code = 0 if (inside, torch.get_num_threads()) == (1, 2) else 1
        finally:
            os._exit(code)
    visitor.leave()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("make", [tabular, fitted], ids=["HistogramRegressor", "NeuralRegressor"])
def test_threads_that_predict_at_the_same_time_get_what_one_would(make):
    model, parts = make(), [table(20, seed)[0] for seed in range(24)]

    def everything(x):
        predicted = model.predict(x), model.predict_interval(x), model.predict_quantiles(x)
        return np.column_stack(predicted)

    expected = [everything(x) for x in parts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(everything, parts))
    assert np.array_equal(found, expected)
    assert (torch.get_num_threads(), threads_of_a_new_python_thread()) == (2, 2)
