"""A table as networks and trees learn from it, made a block of rows at a time.

Columns become float64 features. A block of them is scaled for the networks, which is rounded to
float32 last of all: a center is subtracted before, so that dates or large numbers lose nothing by
it. And it is put into bins for the trees, one byte for each number. No float64 copy of all rows is
ever made. What is said of the rows in a model file is found on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.model_content import compact_json
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import ScalingKind
from softbins.tabular.frames import rows_between, take_rows
from softbins.tabular.scaling import Scaling
from softbins.tabular.tree_bins import Codes, TreeBins

Array = NDArray[np.float64]
Index = NDArray[np.int64]

BLOCK_NUMBERS = 2**21  # features of a block of rows, 16 MB in float64


@dataclass(frozen=True)
class FeatureTransform:
    """What makes of columns what networks and, where there are bins for them, trees see."""

    columns: Columns
    scaling: Scaling
    tree_bins: TreeBins | None

    @classmethod
    def fit(
        cls, columns: Columns, X: Any, rows: Index | None, kind: ScalingKind, trees: bool
    ) -> FeatureTransform:
        """Learn from some rows of X, or from all of them, a column at a time."""
        scalings, bins = [Scaling.empty(kind)], []
        for features in columns.column_features(X):
            used = features if rows is None else features[rows]
            scalings.append(Scaling.fit(used, kind))
            bins += [TreeBins.fit(used)] if trees else []
        return cls(columns, Scaling.joined(scalings), TreeBins.joined(bins) if trees else None)

    def joined(self, added: FeatureTransform, order: list[int]) -> FeatureTransform:
        """For the columns of another one, from the features of both that `order` names."""
        scaling, bins = Scaling.joined([self.scaling, added.scaling]), None
        if self.tree_bins is not None and added.tree_bins is not None:
            both = TreeBins.joined([self.tree_bins, added.tree_bins]).thresholds
            bins = TreeBins([both[place] for place in order])
        chosen = Scaling(scaling.center[order], scaling.scale[order], scaling.limit)
        return FeatureTransform(added.columns, chosen, bins)

    @property
    def inputs(self) -> int:
        """The number of features."""
        return len(self.scaling.center)

    @property
    def block_rows(self) -> int:
        """How many rows are transformed at a time."""
        return max(1, BLOCK_NUMBERS // max(self.inputs, 1))


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """The features of all rows.

    `scaled` (n, inputs) is what networks see, `codes` (inputs, n) the numbers of the bins for
    trees. `low`, `high` and `total` (inputs,) are the smallest and the largest of the features
    before they were scaled, and their sum. `digest` has seen all of them.
    """

    transform: FeatureTransform
    scaled: NDArray[np.float32]
    codes: Codes | None
    low: Array
    high: Array
    total: Array
    digest: Any

    def with_features(
        self, columns: Columns, new: Array, order: list[int], kind: ScalingKind
    ) -> EncodedFeatures:
        """Some of these features and of new ones (n, k), in the order that they have in `columns`.

        `order` counts the new ones on from these. The digest is that of these alone.
        """
        added = FeatureTransform(
            columns, Scaling.fit(new, kind), None if self.codes is None else TreeBins.fit(new)
        )
        codes = None
        if self.codes is not None and added.tree_bins is not None:
            codes = np.concatenate([self.codes, added.tree_bins.codes(new)])[order]
        return EncodedFeatures(
            transform=self.transform.joined(added, order),
            scaled=np.concatenate([self.scaled, added.scaling(new).numpy()], 1)[:, order],
            codes=codes,
            low=np.append(self.low, new.min(axis=0))[order],
            high=np.append(self.high, new.max(axis=0))[order],
            total=np.append(self.total, new.sum(axis=0))[order],
            digest=self.digest,
        )


class FeatureWriter:
    """Fills the arrays of encoded features, a block of rows after another."""

    def __init__(
        self,
        transform: FeatureTransform,
        scaled: NDArray[np.float32],
        codes: Codes | None,
        digest: Any,
    ) -> None:
        self.transform, self.scaled, self.codes, self.digest = transform, scaled, codes, digest
        self.low = np.full(transform.inputs, np.inf)
        self.high, self.total = -self.low, np.zeros(transform.inputs)

    def write(self, features: Array, rows: slice | Index) -> None:
        """Write the features (n, inputs) of these rows."""
        self.digest.update(np.ascontiguousarray(features, dtype="<f8").data)
        np.minimum(self.low, features.min(axis=0), out=self.low)
        np.maximum(self.high, features.max(axis=0), out=self.high)
        self.total += features.sum(axis=0)
        self.scaled[rows] = self.transform.scaling(features).numpy()
        if self.codes is not None and self.transform.tree_bins is not None:
            self.codes[:, rows] = self.transform.tree_bins.codes(features)

    def encoded(self) -> EncodedFeatures:
        """Everything that was written."""
        return EncodedFeatures(
            transform=self.transform,
            scaled=self.scaled,
            codes=self.codes,
            low=self.low,
            high=self.high,
            total=self.total,
            digest=self.digest,
        )


def encode_table(
    columns: Columns, X: Any, used: Any, kind: ScalingKind, *, trees: bool, weighted: bool
) -> EncodedFeatures:
    """The features of the rows of X that are used: of all, or by a mask."""
    rows = None if used is ... else np.flatnonzero(used)
    transform = FeatureTransform.fit(columns, X, rows, kind, trees)
    shape = (len(X) if rows is None else len(rows), transform.inputs)
    codes = np.empty(shape[::-1], dtype=np.uint8) if trees else None
    digest = digest_of(columns, shape, weighted)
    writer = FeatureWriter(transform, np.empty(shape, dtype=np.float32), codes, digest)
    for place in blocks(shape[0], transform.block_rows):
        block = rows_between(X, place) if rows is None else take_rows(X, rows[place])
        writer.write(columns.transform(block), place)
    return writer.encoded()


def digest_of(columns: Columns, shape: tuple[int, int], weighted: bool) -> Any:
    """A digest of how columns are encoded, which the features, targets and weights come next to."""
    how = [encoder.to_json() for encoder in columns.encoders]
    shapes = [shape, shape[:1], *([shape[:1]] if weighted else [])]
    return hashlib.sha256(compact_json([how, shapes]).encode())


def blocks(n_rows: int, size: int) -> Iterator[slice]:
    """All rows in turn, so many at a time."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
