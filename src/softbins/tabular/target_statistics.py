"""What targets say of categories, where these are too many for a feature each.

Instead of that, a category has its frequency and some numbers. Its *mean* is how far its targets
lie from the mean of all. Its *effect* is what is left of that once trees have predicted targets
from the other columns, and once effects of other columns of many categories are taken off. Its
*slope* along a column of numbers is how much more what is left grows with these than elsewhere;
there are slopes only where they differ by more than chance. The rarer a category, the closer are
all of these to 0, which is also what a new category has: see `shrinkage`. (scikit-learn's
TargetEncoder shrinks means as well, but not to 0 where categories differ by chance alone.)

A row's own target must not be in its features, or networks and trees would learn to trust them too
much. So training rows have numbers from rows of other folds (Micci-Barreca, 2001), held-out rows
from the rows that their members learn from, and new rows from all. Only the trees that predict from
other columns, each grown from half of the folds, have seen more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from softbins.nn.stopping import Stop
from softbins.tabular.categories import CategoryEncoder
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import ScalingKind, StatisticsDefaults
from softbins.tabular.folds import Folds
from softbins.tabular.jobs import run_tasks, scattered
from softbins.tabular.row_order import RowOrder
from softbins.tabular.shrinkage import shrunken_means, shrunken_slopes
from softbins.tabular.tree_bins import TreeBins
from softbins.tabular.tree_growth import EnsembleTask, grow_ensemble

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Part = tuple[Index, Index]
"""Rows that get statistics, and the rows that these are learnt from."""

DIGITS = 6  # of a statistic in a model file
NUMBERS = ("value", "elapsed_days")  # contents of features along which there may be slopes


def add_target_statistics(
    data: TrainingData,
    folds: Folds,
    *,
    seed: int,
    defaults: StatisticsDefaults,
    scaling: ScalingKind = "robust",
    n_jobs: int | None = None,
    stop: Stop | None = None,
) -> TrainingData:
    """The same table, with features learnt from targets for each column of many categories."""
    if not defaults.is_used or not data.codes or data.is_constant:
        return data
    parts = cross_fitting(folds, data.order, defaults.folds, seed)
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    left = remaining_errors(data, parts, seed, defaults, n_jobs, Stop() if stop is None else stop)
    along = slope_columns(data, left, weight, defaults)
    x = {c: [data.features[:, p].astype(np.float64) for p in places] for c, places in along.items()}
    learnt = _Learner(data.codes, data.target, left, weight, defaults.rounds, x)
    statistics = learnt.from_rows(np.arange(data.n_rows))
    return _with_features(data, learnt.crossed(parts), statistics, along, scaling)


# Whose targets a row may know


def cross_fitting(folds: Folds, order: RowOrder, count: int, seed: int) -> list[Part]:
    """For each fold its rows and those that its members learn from; then for all other rows.

    These are cut into `count` parts of whole groups. Where folds say what to learn from, as with
    later rows, no row outside of them learns from a row in them.
    """
    parts = [(part.numpy(), folds.rows_for(f).numpy()) for f, part in enumerate(folds.parts)]
    outside = np.ones(folds.n_rows, dtype=bool)
    outside[np.concatenate([rows for rows, _ in parts])] = False
    units = np.arange(folds.n_rows) if order.groups is None else order.groups
    fold_of_unit = np.random.default_rng(seed).permutation(int(units.max()) + 1) % count
    fold_of_row = np.where(outside, fold_of_unit[units], -1)
    known = np.ones_like(outside) if folds.training is None else outside
    for fold in np.unique(fold_of_row[outside]):
        own = fold_of_row == fold
        parts.append((np.flatnonzero(own), np.flatnonzero(known & ~own)))
    return parts


# What other columns leave of a target


def remaining_errors(
    data: TrainingData,
    parts: Sequence[Part],
    seed: int,
    defaults: StatisticsDefaults,
    n_jobs: int | None,
    stop: Stop,
) -> Array:
    """Targets (n,) less what trees predict from the columns that have few categories or none.

    Each half of the parts is predicted by trees that have learnt from the other half. Targets are
    as they are where there is no time for that, or nothing to predict from.
    """
    columns = [feature.column for feature in data.columns.encoded_features]
    others = [place for place, column in enumerate(columns) if column not in data.codes]
    halves = [_joined(parts[start::2]) for start in (0, 1)]
    if not others or min(map(len, halves)) < defaults.min_rows_of_trees:
        return data.target
    # Bins of scaled features are as good, and there also where no other trees are wanted.
    features = data.features[:, others]
    bins = TreeBins.fit(features)
    arrays = bins.codes(features), data.target, data.weight
    stop = stop.within(defaults.time_share * stop.seconds_left)
    tasks = [
        _task(learnt, judged, bins, seed, defaults, stop)
        for learnt, judged in (halves, halves[::-1])
    ]
    with scattered(arrays):
        grown = run_tasks(grow_ensemble, arrays, tasks, n_jobs=n_jobs, stop=stop)
    errors = data.target.copy()
    for rows, trees in zip(halves[::-1], grown, strict=True):
        if trees is None:
            return data.target
        errors[rows] -= trees[1][-1]
    return errors


def _joined(parts: Sequence[Part]) -> Index:
    """All rows that get statistics in some of the parts."""
    return np.concatenate([np.empty(0, dtype=np.int64), *(rows for rows, _ in parts)])


def _task(
    learnt: Index,
    judged: Index,
    bins: TreeBins,
    seed: int,
    defaults: StatisticsDefaults,
    stop: Stop,
) -> EnsembleTask:
    from softbins.tabular.binned_boosting import BinnedBoosting  # which a prediction can do without

    columns = max(len(bins.thresholds), defaults.wide_columns)
    rounds = max(defaults.trees * defaults.wide_columns // columns, 1)
    model = BinnedBoosting(
        learning_rate=defaults.learning_rate,
        max_iter=rounds,
        early_stopping=False,
        random_state=seed,
    )
    model.bins = bins
    some = np.sort(learnt[:: -(-len(learnt) // defaults.max_rows_of_trees)])
    return EnsembleTask(some, judged, model, stop.seconds_left / 2, min_rounds=rounds)


# Statistics of categories


@dataclass(frozen=True, eq=False)
class _Learner:
    """Learns means, effects and slopes from some of the rows.

    `codes[c]` are the categories (n,) of column c, -1 for none; `errors` is what other columns
    leave of the targets. `slopes[c]` are the features (n,) along which column c has slopes.
    """

    codes: dict[int, Index]
    target: Array
    errors: Array
    weight: Array
    rounds: int
    slopes: dict[int, list[Array]] = field(default_factory=dict)

    def from_rows(self, rows: Index) -> dict[int, Array]:
        """What is learnt (categories + 1, numbers) of each column; the last row, for none, is 0."""
        codes = {column: own[rows] for column, own in self.codes.items()}
        weight, target, errors = self.weight[rows], self.target[rows], self.errors[rows]
        found = {column: self._nothing(column) for column in codes}
        for column, own in codes.items():
            values = found[column][:-1]
            values[:, 0] = shrunken_means(own, target, weight, len(values))
        # Columns take turns, each with what all others leave (backfitting).
        for _ in range(self.rounds if len(codes) > 1 else 1):
            for column, own in codes.items():
                others = sum(found[c][o, 1] for c, o in codes.items() if c != column)
                values, left = found[column][:-1], errors - others
                values[:, 1] = shrunken_means(own, left, weight, len(values))
                for number, x in enumerate(self.slopes.get(column, []), 2):
                    slopes = shrunken_slopes(own, x[rows], left, weight, len(values))
                    values[:, number] = slopes.values
        return found

    def _nothing(self, column: int) -> Array:
        count = int(self.codes[column].max()) + 1
        return np.zeros((count + 1, 2 + len(self.slopes.get(column, []))))

    def crossed(self, parts: Sequence[Part]) -> dict[int, Array]:
        """The same for every row (n, numbers), each from the rows that it may know."""
        shapes = {column: self._nothing(column).shape[1] for column in self.codes}
        features = {c: np.zeros((len(self.target), numbers)) for c, numbers in shapes.items()}
        for rows, learnt in parts:
            for column, found in self.from_rows(learnt).items():
                features[column][rows] = found[self.codes[column][rows]]
        return features


def slope_columns(
    data: TrainingData, errors: Array, weight: Array, defaults: StatisticsDefaults
) -> dict[int, list[int]]:
    """For each column of many categories the features of numbers with slopes that explain most."""
    features = data.columns.encoded_features
    numbers = [place for place, each in enumerate(features) if each.content in NUMBERS]
    some = slice(None, None, -(-data.n_rows // defaults.max_rows_of_trees))
    chosen = {}
    for column, codes in data.codes.items():
        count = int(codes.max()) + 1
        shares = {}
        for place in numbers:
            x = data.features[some, place].astype(np.float64)
            found = shrunken_slopes(codes[some], x, errors[some], weight[some], count)
            if found.evidence > defaults.min_slope_evidence:
                shares[place] = found.share
        large = [place for place, share in shares.items() if share > defaults.min_slope_share]
        chosen[column] = sorted(sorted(large, key=lambda p: -shares[p])[: defaults.max_slopes])
    return chosen


def _with_features(
    data: TrainingData,
    features: dict[int, Array],
    statistics: dict[int, Array],
    along: dict[int, list[int]],
    scaling: ScalingKind,
) -> TrainingData:
    """The table with these features of some columns, whose encoders get the statistics."""
    encoders = list(data.columns.encoders)
    for column, found in statistics.items():
        encoder = encoders[column]
        assert isinstance(encoder, CategoryEncoder)
        lists = [[float(f"{x:.{DIGITS}g}") for x in part] for part in found[:-1].T]
        others = [data.columns.encoded_features[place].column for place in along[column]]
        encoders[column] = replace(
            encoder, means=lists[0], effects=lists[1], slopes=lists[2:], slope_columns=others
        )
    columns = replace(data.columns, encoders=encoders)
    wanted, before = columns.encoded_features, data.columns.encoded_features
    both = before + [feature for feature in wanted if feature not in before]
    order = [both.index(feature) for feature in wanted]
    new = np.concatenate([features[column] for column in sorted(features)], 1)
    encoded = data.encoded.with_features(columns, new, order, scaling)
    return replace(data, columns=columns, encoded=encoded)
