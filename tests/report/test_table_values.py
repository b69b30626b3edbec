"""Columns of a table as a page shows them."""

import numpy as np
import pandas as pd

from softbins import NeuralRegressor
from softbins.report.table_values import groups_by_size, plain_text, table_columns


def columns(**values):
    X = pd.DataFrame(values)
    model = NeuralRegressor("l2", (4,), max_epochs=1).fit(X, np.arange(float(len(X))))
    return table_columns(model, X)


def test_values_are_text_and_numbers():
    size, town, new = columns(
        size=[1.0, None, 12345.678], town=["a", None, "b"], new=[True, False, True]
    )
    assert size.labels == ["1", "missing", "12346"]
    assert [size.cell(row) for row in range(3)] == [1.0, None, 12345.678]
    assert [town.cell(row) for row in range(3)] == ["a", None, "b"]
    assert new.labels == ["true", "false", "true"]
    assert (town.numbers, new.numbers) == (None, None)


def test_groups_have_about_the_same_number_of_rows_and_part_no_equal_values():
    even = groups_by_size(np.arange(60.0), 6)
    assert [len(group.rows) for group in even] == [10] * 6
    assert [group.label for group in even][:2] == ["0 to 9", "10 to 19"]
    zeros = groups_by_size(np.where(np.arange(100) < 60, 0.0, np.arange(100.0)), 5)
    assert (zeros[0].label, len(zeros[0].rows)) == ("0", 60)
    assert sum(len(group.rows) for group in zeros) == 100
    assert groups_by_size(np.full(3, np.nan), 5) == []


def test_groups_of_a_column_hold_every_row_once():
    size, town = columns(
        size=[1.0, None, 2.0, 3.0, 4.0, 5.0] * 4, town=["a", "a", "b", "c", "d", None] * 4
    )
    for column, last in [(size, "missing"), (town, "others")]:
        groups = column.groups(3)
        assert groups[-1].label == last
        assert sorted(np.concatenate([group.rows for group in groups])) == list(range(24))


def test_places_are_rows_with_different_values_in_their_order():
    size, town, none = columns(
        size=[3.0, 1.0, None, 3.0], town=["b", "a", "b", None], none=[None] * 4
    )
    assert size.places(10, 10) == [1, 0]
    assert town.places(10, 2) == [0, 1]
    many = columns(x=np.random.default_rng(0).permutation(np.arange(100.0)))[0]
    chosen = many.numbers[many.places(10, 10)]
    assert len(chosen) == 10
    assert (np.diff(chosen) > 0).all()
    assert chosen.min() > 0
    assert len(none.places(10, 10)) == 1


def test_text_is_fit_for_a_page():
    assert plain_text("a\x00b\nc\ud800d") == "a b c d"
