"""What is known about the original files of CT Position and Song Year, and how to check it.

The hashes of the archives were never published. A file counts as the original if the number of
its rows, its columns and the ranges of its values are those of the `Specification`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import

MAX_LISTED_DIFFERENCES = 8
# The ranges of the targets are known to six decimals: half a unit of the last one may differ.
TARGET_RANGE_TOLERANCE = 5e-7
TARGET_MEAN_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Specification:
    """Where an original comes from, and what is known about its content.

    Attributes
    ----------
    name : str
        The name of the dataset.
    address : str
        The address of the archive, below the base address of UCI's repository.
    member : str
        The name of the file inside the archive.
    header : bool
        Whether the first line of that file names the columns.
    columns : tuple of str
        All columns in their order.
    target, target_type : str
        The name of the target's column, and its type in Parquet files.
    n_rows : int
        The number of rows.
    target_range : tuple of float
        The smallest and the largest target.
    group : str, optional
        The name of a column of integers that is not a feature but says which rows belong together.
    target_mean : float, optional
        The mean of the targets, where it is known.
    feature_range : tuple of float, optional
        The range that no feature may leave, where there is one.

    """

    name: str
    address: str
    member: str
    header: bool
    columns: tuple[str, ...]
    target: str
    target_type: str
    n_rows: int
    target_range: tuple[float, float]
    group: str | None = None
    target_mean: float | None = None
    feature_range: tuple[float, float] | None = None

    @property
    def features(self) -> list[str]:
        """The names of the columns that are features."""
        return [name for name in self.columns if name not in (self.target, self.group)]

    def schema(self) -> Any:
        """The pyarrow schema of the Parquet file."""
        special = {self.target: self.target_type, self.group: "int64"}
        types = [(name, special.get(name, "float32")) for name in self.columns]
        return optional_import("pyarrow", "paper").schema(types)


CT = Specification(
    name="ct",
    address="206/relative+location+of+ct+slices+on+axial+axis.zip",
    member="slice_localization_data.csv",
    header=True,
    columns=("patientId", *(f"value{i}" for i in range(384)), "reference"),
    target="reference",
    target_type="float64",
    n_rows=53_500,
    target_range=(1.738733, 97.489115),
    group="patientId",
    target_mean=47.028,
    feature_range=(-0.25, 1.0),
)
SONG = Specification(
    name="song",
    address="203/yearpredictionmsd.zip",
    member="YearPredictionMSD.txt",
    header=False,
    columns=(
        "year",
        *(f"timbre_avg_{i}" for i in range(1, 13)),
        *(f"timbre_cov_{i}" for i in range(1, 79)),
    ),
    target="year",
    target_type="int64",
    n_rows=515_345,
    target_range=(1922, 2011),
)
SPECIFICATIONS = {spec.name: spec for spec in (CT, SONG)}


def find_specification(name: str | Specification) -> Specification:
    """The specification of that name; a specification stands for itself."""
    if isinstance(name, Specification):
        return name
    if name not in SPECIFICATIONS:
        raise ValueError(f"name: no original {name!r}; choose from {', '.join(SPECIFICATIONS)}")
    return SPECIFICATIONS[name]


def find_differences(table: Any, spec: Specification) -> list[str]:
    """Describe everything in which a pyarrow table differs from the original, in words."""
    differences = []
    if table.num_rows != spec.n_rows:
        differences.append(f"rows: expected {spec.n_rows}, got {table.num_rows}")
    if table.column_names != list(spec.columns):
        return [*differences, _describe_columns(table.column_names, spec)]
    if not table.num_rows:
        return differences
    for name in spec.columns:
        differences += _column_differences(name, table[name].to_numpy(), spec)
    return differences


def list_differences(differences: list[str]) -> str:
    """The differences in one line, which says how many more there are if there are many."""
    hidden = len(differences) - MAX_LISTED_DIFFERENCES
    more = f"; and {hidden} more" if hidden > 0 else ""
    return "; ".join(differences[:MAX_LISTED_DIFFERENCES]) + more


def _describe_columns(names: list[str], spec: Specification) -> str:
    counts = f"columns: expected {len(spec.columns)}, got {len(names)}"
    pairs = zip([*names, "nothing"], [*spec.columns, "nothing"], strict=False)
    place, (got, due) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"{counts}, column {place + 1} should be {due}, is {got[:40]}"


def _column_differences(name: str, values: NDArray[Any], spec: Specification) -> list[str]:
    differences = []
    finite = np.isfinite(values)
    if not finite.all():
        row, count = int(np.argmin(finite)) + 1, int((~finite).sum())
        differences.append(f"column {name}: empty or not finite in {count} rows, first row {row}")
    if name == spec.target:
        differences += _target_differences(values[finite], spec)
    elif name != spec.group and spec.feature_range is not None:
        differences += _feature_differences(name, values, spec.feature_range)
    return differences


def _target_differences(values: NDArray[Any], spec: Specification) -> list[str]:
    if not len(values):
        return []
    low, high = spec.target_range
    checks = [
        ("smallest value", low, values.min(), TARGET_RANGE_TOLERANCE),
        ("largest value", high, values.max(), TARGET_RANGE_TOLERANCE),
    ]
    if spec.target_mean is not None:
        checks.append(("mean", spec.target_mean, values.mean(), TARGET_MEAN_TOLERANCE))
    return [
        f"column {spec.target}: {what} expected {due}, got {got:.10g}"
        for what, due, got, tolerance in checks
        if abs(got - due) > tolerance
    ]


def _feature_differences(name: str, values: NDArray[Any], limits: tuple[float, float]) -> list[str]:
    outside = np.flatnonzero((values < limits[0]) | (values > limits[1]))
    if not len(outside):
        return []
    place = f"got {values[outside[0]]:.10g} in row {outside[0] + 1}"
    return [f"column {name}: values expected within {limits[0]} .. {limits[1]}, {place}"]
