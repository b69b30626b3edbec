"""Defaults with less work, for tests that cannot wait."""

from dataclasses import replace

from softbins.tabular.defaults import DEFAULTS, TreeDefaults


def few_rounds(rounds: int) -> TreeDefaults:
    """Trees as by default, but so many rounds of them on tables of any size."""
    growth = tuple(replace(each, rounds=rounds) for each in DEFAULTS.trees.growth)
    return replace(DEFAULTS.trees, growth=growth)


def with_few_rounds(rounds: int):
    """All defaults, with so few rounds of trees."""
    return replace(DEFAULTS, trees=few_rounds(rounds))
