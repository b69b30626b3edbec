"""Defaults with less work, for tests that cannot wait, and a table without a fit."""

from dataclasses import replace

from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import DEFAULTS, TreeDefaults
from softbins.tabular.encoding import encode_table


def few_rounds(rounds: int) -> TreeDefaults:
    """Trees as by default, but so many rounds of them on tables of any size."""
    growth = tuple(replace(each, rounds=rounds) for each in DEFAULTS.trees.growth)
    return replace(DEFAULTS.trees, growth=growth)


def with_few_rounds(rounds: int):
    """All defaults, with so few rounds of trees."""
    return replace(DEFAULTS, trees=few_rounds(rounds))


def encoded_data(x, y, weight=None, scaling="robust"):
    """Columns of numbers as networks and trees learn from them; weights stay as they are."""
    columns = Columns.fit(x)
    encoded = encode_table(columns, x, ..., scaling, trees=True, weighted=weight is not None)
    return TrainingData(columns, encoded, y, weight)
