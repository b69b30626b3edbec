"""A table that is ready to be learnt from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.columns import Columns
from softbins.tabular.row_order import RowOrder

if TYPE_CHECKING:  # what a model file says is read without torch
    from softbins.tabular.encoding import EncodedFeatures
    from softbins.tabular.scaling import Scaling

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Encoded features, targets (n,) and weights (n,) of the rows that count.

    `columns` says how the columns of X became features, `order` which rows belong together, and
    `codes` the category (n,) of each row in every column of many categories, -1 for none.
    """

    columns: Columns
    encoded: EncodedFeatures
    target: Array
    weight: Array | None
    order: RowOrder = field(default_factory=RowOrder)
    codes: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    memory: float | None = None
    """Bytes that training may take, where features are in a memory map, in random order."""

    @property
    def features(self) -> NDArray[np.float32]:
        """The features (n, inputs) as networks see them, scaled."""
        return self.encoded.scaled

    @property
    def scaling(self) -> Scaling:
        """How the features were scaled."""
        return self.encoded.transform.scaling

    @property
    def is_on_disk(self) -> bool:
        """Whether features are in a memory map, in random order."""
        return self.memory is not None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.target)

    @property
    def is_constant(self) -> bool:
        """Whether all targets are the same."""
        return bool(self.target.min() == self.target.max())
