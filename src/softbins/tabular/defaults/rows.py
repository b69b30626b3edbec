"""What columns become, what categories tell, and which rows are left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnDefaults:
    """What columns become before networks and trees see them."""

    max_one_hot_categories: int = 40
    """Categories up to which each has a feature of its own; of more, the most frequent 39 have,
    unless targets tell something of each. With 20 instead, auto93, with 74 training rows and up to
    31 categories, has an MAE of 2.93 instead of 2.58 (five splits): what targets tell of so few
    rows is mostly noise."""
    max_known_categories: int = 10_000
    """Categories of a column that are remembered, so that a model file stays below a megabyte."""
    max_robust_value: float = 4.0
    """Distance from zero, in quartile distances, that no robustly scaled feature exceeds."""
    min_rows_of_names: int = 50
    """Rows with a text from which on it may be a name: of fewer, categories may come again."""
    min_share_of_names: float = 0.9
    """Different texts, as a share of the rows, above which they are names and are left out. At
    most a fifth of the rows shares its text with another one then."""
    min_share_of_free_texts: float = 0.5
    """The same for long texts."""
    min_length_of_free_text: int = 40
    """Characters that the different texts of a column of free text have on average."""


@dataclass(frozen=True)
class StatisticsDefaults:
    """What targets say of categories that are too many for a feature each.

    On 50 000 flights, fast, RMSE is 7.84 without, 7.73 with means alone, 7.67 with effects alone
    and 7.62 with both. On 1000 categories of 5 to 50 rows it is 1.39, 1.04, 1.03 and 1.03, and
    where another column goes with the categories 1.01, 0.96, 0.74 and 0.74. These are single fits
    of a first version, with the statistics beside the features that they have replaced since. On
    300 categories RMSE falls from 1.11 to 0.59 by slopes, where these differ along one column, and
    from 1.15 to 0.66 along three, and is the same to the last bit where they do not differ
    (results/many_categories.json).
    """

    is_used: bool = True
    """Whether there are such features at all."""
    folds: int = 8
    """Parts that rows outside of all folds are cut into; each knows the targets of the others."""
    rounds: int = 3
    """How often columns of many categories take turns, each with what the others leave."""
    trees: int = 60
    """Trees that predict from the other columns, so that effects are what these do not say."""
    learning_rate: float = 0.15
    """Of these trees."""
    max_rows_of_trees: int = 50_000
    """Rows that these trees learn from, at most."""
    min_rows_of_trees: int = 100
    """Rows of either half of the table, below which there are no such trees."""
    wide_columns: int = 200
    """Columns beyond which there are fewer of these trees, in proportion."""
    min_slope_evidence: float = 5.0
    """Standard deviations beyond chance by which slopes of categories have to differ."""
    min_slope_share: float = 0.05
    """Share of the variance that is left inside of categories which slopes along a column have to
    explain. On 12 000 flights, where it is at most 0.03, slopes made RMSE 1% larger."""
    max_slopes: int = 3
    """Columns along which the categories of a column have slopes, at most."""
    time_share: float = 0.1
    """What all this may take of the time, where that is limited; then effects do without trees."""


@dataclass(frozen=True)
class FoldDefaults:
    """Which rows members leave out."""

    count: int = 8
    """Folds that many rows are cut into. Each member learns from seven eighths of them."""
    min_count_of_few_rows: int = 4
    """Folds that few rows are cut into, at least, so that as many members leave out all of them.
    With four folds of all rows, in the place of four of eight, the fast preset has a CRPS 2% and
    an RMSE 1% lower on the small tables: more rows calibrate and share out the mean."""
    max_unpaired_rows: int = 1_000
    """Rows that are few: each member leaves out a fold of its own. Beyond, two share one. With few
    rows all of them are needed for calibration; with many, pairs are closer to the ensemble."""
    max_judges: int = 10_000
    """Held-out rows, of all folds together, that calibrate. More change nothing that is seen."""
    max_stopping_rows: int = 2**16
    """Held-out rows by which a member's training ends. Of very many, judging all would take longer
    than an epoch, which has a part of the rows only."""
    time_share: float = 0.25
    """Share of the rows, the latest, that all members leave out where rows have a time. With half
    of them in two blocks, 90% intervals hold 96% of the last fifth of bike and 92% of PM2.5, and
    with the later block alone 91% and 89%: what changed long ago says little of what is to come."""
    min_rows_without_duplicates: int = 30
    """Rows that have to be left of a fold after duplicates are taken out: fewer judge nothing."""
