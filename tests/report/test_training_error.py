"""What a model knows about its own error."""

from types import SimpleNamespace

import numpy as np

from softbins import NeuralRegressor
from softbins.report.training_error import known_error
from softbins.tabular.summary import training_summary
from tests.report.small_models import fitted, table, tabular


def test_rows_that_were_left_out_are_preferred():
    model = fitted(members=2)
    found = known_error(model)
    assert (found.mae, found.held_out) == (training_summary(model)["validation_mae"], True)
    assert "for each of its networks alone on rows that training left out" in found.text


def test_without_them_it_is_the_error_of_the_rows_that_were_learnt():
    model = NeuralRegressor("l2", (8,), max_epochs=2, random_state=0).fit(*table())
    found = known_error(model)
    assert (found.mae, found.held_out) == (training_summary(model)["train_mae"], False)
    assert "on the rows that it has learnt from" in found.text


def test_the_error_of_all_members_together_comes_first_where_it_is_known():
    model = tabular()
    model.provenance_ = SimpleNamespace(scores={"mae": 0.5, "rmse": 0.7})
    found = known_error(model)
    assert (found.mae, found.rows) == (0.5, 20)
    assert found.text == "against 0.5 on rows that training left out"
    model.provenance_ = None
    assert known_error(model).mae == training_summary(model)["validation_mae"]


def test_a_constant_target_leaves_no_error():
    model = NeuralRegressor("l2", (8,), max_epochs=2).fit(table()[0], np.ones(80))
    assert known_error(model) is None
