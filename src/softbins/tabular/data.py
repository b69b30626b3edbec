"""A table that is ready to be learnt from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.columns import Columns
from softbins.tabular.row_order import RowOrder

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Encoded features (n, inputs), targets (n,) and weights (n,) of the rows that count.

    `columns` says how the columns of X became features, `order` which rows belong together, and
    `codes` the category (n,) of each row in every column of many categories, -1 for none.
    """

    columns: Columns
    features: Array
    target: Array
    weight: Array | None
    order: RowOrder = field(default_factory=RowOrder)
    codes: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.target)

    @property
    def is_constant(self) -> bool:
        """Whether all targets are the same."""
        return bool(self.target.min() == self.target.max())
