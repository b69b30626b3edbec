"""Trees, a Gaussian process, and their shares in the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TreeGrowth:
    """How boosted trees grow on tables of up to `max_rows` rows."""

    max_rows: float
    learning_rate: float
    rounds: int
    """Trees of each ensemble, of which those that lower the held-out error are kept."""
    max_leaf_nodes: int
    min_samples_leaf: int


@dataclass(frozen=True)
class TreeDefaults:
    """Boosted trees beside the networks."""

    growth: tuple[TreeGrowth, ...] = (
        TreeGrowth(500, 0.25, rounds=150, max_leaf_nodes=12, min_samples_leaf=1),
        TreeGrowth(1_000, 0.25, rounds=150, max_leaf_nodes=16, min_samples_leaf=1),
        TreeGrowth(2_000, 0.16, rounds=150, max_leaf_nodes=31, min_samples_leaf=1),
        TreeGrowth(5_000, 0.16, rounds=150, max_leaf_nodes=31, min_samples_leaf=2),
        TreeGrowth(20_000, 0.08, rounds=300, max_leaf_nodes=31, min_samples_leaf=5),
        TreeGrowth(math.inf, 0.08, rounds=300, max_leaf_nodes=31, min_samples_leaf=20),
    )
    """By the number of rows. On a few hundred rows small trees err less and grow faster."""
    wide_columns: int = 200
    """Columns beyond which there are fewer rounds, in proportion: each takes as much longer."""
    column_share: float = 0.5
    """Share of columns that every second ensemble sees at a split: together they err less."""
    max_rows_on_disk: int = 1_000_000
    """Rows that each ensemble grows on, at most, where the table does not fit into memory."""
    seconds_per_histogram: float = 2e-6
    """What a column takes in a node of a tree, at least: 3e-6 to 12e-6 were measured on tables of 5
    to 20 000 columns. It tells before the first round whether there is no time for trees."""


@dataclass(frozen=True)
class GaussianProcessDefaults:
    """A Gaussian process beside the networks, on tables of few rows."""

    max_rows: int = 3_000
    """Rows up to which there is one: time grows with the cube, and networks catch up."""
    max_inputs: int = 200
    """Encoded features up to which there is one."""
    max_likelihood_rows: int = 800
    """Rows by which noise and length scales are chosen, at most."""
    max_rows_to_search_again: int = 300
    """Rows up to which each fold has length scales of its own. Those of all rows flatter: on a
    table of 74 rows and 22 columns by a quarter of the error."""
    max_steps: int = 60
    """Steps of the search."""
    straight_part: float = 0.5
    """Distance from the median, in those of the quartiles, within which targets are about as they
    are. On the small tables RMSE is 5% below the networks' with this, 4% with 1 or 2 instead."""
    margin: float = 0.1
    """How far predictions may go beyond the bent targets, as a share of their range."""
    cut_errors: float = 0.02
    """Share of the errors at each end that are cut, before their mean says how to bend back."""
    log_noise: float = -2.0
    """Logarithm of the usual noise, as a share of the variance of the smooth part."""
    log_linear: float = -1.0
    """Logarithm of the usual variance of the linear part, as a share of the same."""
    noise_deviation: float = 3.0
    """Standard deviation of both logarithms, which is wide."""
    length_deviation: float = 0.7
    """Standard deviation of the logarithms of length scales about their mean. Hardly different
    from 0.5 and 1."""
    mean_length_deviation: float = 1.5
    """Standard deviation of that mean about the half logarithm of the number of columns."""


@dataclass(frozen=True)
class BlendDefaults:
    """How held-out rows share the mean out among networks, trees and a Gaussian process."""

    min_gain: float = 0.005
    """Share of the squared error on held-out rows that a partner has to save to be kept."""
    flattering_rows: float = 7.0
    """Squared errors of networks count 1 + this / (rows of a fold) times, because the same rows
    have stopped their training. On tables of 44 to 130 rows they were 1.1 to 1.5 times as large
    for new rows, beside those of a Gaussian process; from 60 rows in a fold on, no larger."""
    max_row_share: float = 0.01
    """Share of all squared errors that one held-out row may have before large errors count less.
    Among the thousands of held-out rows of pol none has so much, and cutting the errors there made
    MAE 5% and RMSE 2% larger."""
    max_error: float = 5.0
    """Median errors up to which the error of a row counts by its square in any case, as errors of
    normal noise do. On seven simulated tables of each of five kinds of outliers, MAE is 0.2 to 5%
    higher without both limits (on one table 23%), and RMSE 0 to 1.6%."""
