"""The original files of CT Position and Song Year: fetched, validated, kept as Parquet files.

The archives' hashes were never published, so that a first download is judged by what is known of
the data: rows, columns, ranges. What passed is remembered by its hash (`ct.json` beside
`ct.parquet`), and a later file that differs from it is refused.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._extras import optional_import
from softbins._files import write_whole
from softbins.paper.data.download import (
    UCI_ADDRESS,
    check_hash,
    download,
    read_known_hash,
    unpack,
    write_note,
)

MAX_LISTED_DIFFERENCES = 8  # differences that an error lists at most
TARGET_RANGE_TOLERANCE = 5e-7  # half of the last digit that is known of a target's range
TARGET_MEAN_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Specification:
    """Where an original comes from and what is known of it."""

    name: str
    address: str  # below the archive's base address
    member: str  # the file inside the archive
    header: bool  # whether its first line names the columns
    columns: tuple[str, ...]
    target: str
    target_type: str
    rows: int
    target_range: tuple[float, float]
    group: str | None = None  # an integer column that is no feature
    target_mean: float | None = None
    feature_range: tuple[float, float] | None = None

    @property
    def features(self) -> list[str]:
        """The names of the columns of X."""
        return [name for name in self.columns if name not in (self.target, self.group)]


CT = Specification(
    name="ct",
    address="206/relative+location+of+ct+slices+on+axial+axis.zip",
    member="slice_localization_data.csv",
    header=True,
    columns=("patientId", *(f"value{i}" for i in range(384)), "reference"),
    target="reference",
    target_type="float64",
    rows=53_500,
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
    rows=515_345,
    target_range=(1922, 2011),
)
ORIGINALS = {spec.name: spec for spec in (CT, SONG)}


@dataclass(frozen=True, eq=False)
class Original:
    """A whole dataset in the order of its file; `groups` says which rows belong together."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    feature_names: list[str]
    groups: NDArray[np.int64] | None
    source: str


def default_folder() -> Path:
    """Where originals are kept: `SOFTBINS_DATA`, or softbins' folder in the user's cache."""
    chosen = os.environ.get("SOFTBINS_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path(optional_import("pooch", "paper").os_cache("softbins"))


def fetch_original(
    name: str | Specification,
    folder: str | Path,
    source: str | Path | None = None,
    base: str = UCI_ADDRESS,
    progress: bool = False,
) -> Path:
    """The Parquet file of an original ("ct", "song"), made unless it is in `folder` already.

    It is made from a download below the address `base`, or from `source`: the archive (.zip) or
    the file in it (.csv, .txt), either of them perhaps gzipped. Anything but the original raises
    `ValueError` with all that differs; a failed download or a failing disk raises `OSError`.
    Either way `folder` keeps what it had.
    """
    spec, folder = _specification(name), Path(folder)
    path = folder / f"{spec.name}.parquet"
    if _is_there(path, spec):
        return path
    known = read_known_hash(folder / f"{spec.name}.json")
    if source is not None:
        _convert(spec, Path(source), Path(source).name, folder, known)
        return path
    address = base + spec.address
    file = download(address, folder / "downloads", progress)
    try:
        _convert(spec, file, address, folder, known)
    except ValueError as error:
        file.unlink(missing_ok=True)
        note = f"downloaded from {address}; removed, so that a repeat loads it anew"
        raise ValueError(f"{error} ({note})") from error
    return path


def read_original(name: str | Specification, folder: str | Path) -> Original:
    """An original from the Parquet file that `fetch` made, validated once more."""
    spec = _specification(name)
    path = Path(folder) / f"{spec.name}.parquet"
    command = f"softbins paper fetch {spec.name} --data {shlex.quote(str(folder))}"
    if not path.is_file():
        raise ValueError(f"{path}: no such file; make it with `{command}`")
    table = _stored(path, command)
    alike = table.schema.equals(_schema(spec))
    wrong = _differences(table, spec) if alike else [f"not the columns of {spec.member}"]
    if wrong:
        raise ValueError(f"{path}: {_listed(wrong)}; remove it and repeat `{command}`")
    return Original(
        X=np.column_stack([table[feature].to_numpy() for feature in spec.features]),
        y=table[spec.target].to_numpy().astype(np.float64),
        feature_names=spec.features,
        groups=None if spec.group is None else np.array(table[spec.group]),
        source=(table.schema.metadata or {}).get(b"source", b"").decode(),
    )


def _specification(name: str | Specification) -> Specification:
    if isinstance(name, Specification):
        return name
    if name not in ORIGINALS:
        raise ValueError(f"name: no original {name!r}; choose from {', '.join(ORIGINALS)}")
    return ORIGINALS[name]


# Parquet files


def _schema(spec: Specification) -> Any:
    special = {spec.target: spec.target_type, spec.group: "int64"}
    types = [(name, special.get(name, "float32")) for name in spec.columns]
    return optional_import("pyarrow", "paper").schema(types)


def _is_there(path: Path, spec: Specification) -> bool:
    """Whether the file opens and has the right shape; its values are for `read` to check."""
    if not path.is_file():
        return False
    parquet = optional_import("pyarrow.parquet", "paper")
    try:
        rows, schema = parquet.read_metadata(path).num_rows, parquet.read_schema(path)
    # Damage shows as whatever the reader trips over.
    except Exception:
        return False
    return bool(rows == spec.rows and schema.equals(_schema(spec)))


def _stored(path: Path, command: str) -> Any:
    parquet = optional_import("pyarrow.parquet", "paper")
    try:
        # Not read_table, which takes folders named like "a=1" for columns.
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read()
    except (PermissionError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path}: damaged ({_brief(error)}); repeat `{command}`") from error


def _convert(spec: Specification, file: Path, origin: str, folder: Path, known: str | None) -> None:
    """Write the Parquet file, and remember the hash if there was none to compare with."""
    taken, data = unpack(file, spec.member)
    table = _validated(spec, data, file)
    digest = hashlib.sha256(data).hexdigest()
    path, note = folder / f"{spec.name}.parquet", folder / f"{spec.name}.json"
    check_hash(f"{file}: {spec.member}", digest, known, note)
    _make(folder)
    _write(table.replace_schema_metadata({"source": origin}), path)
    if known is not None:
        return
    record = {"source": origin, "sha256": taken, "member": spec.member, "member_sha256": digest}
    try:
        write_note(note, {**record, "rows": table.num_rows})
    except OSError:
        # Without the record nobody would compare the next download.
        path.unlink(missing_ok=True)
        raise


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot make the folder ({error.strerror}); choose another with --data"
        raise OSError(error.errno, reason, str(folder)) from error


def _write(table: Any, path: Path) -> None:
    buffer = optional_import("pyarrow", "paper").BufferOutputStream()
    # Checksums, so that `read` finds a changed bit.
    optional_import("pyarrow.parquet", "paper").write_table(table, buffer, write_page_checksum=True)
    write_whole(path, buffer.getvalue().to_pybytes())


# Validation


def _validated(spec: Specification, data: bytes, file: Path) -> Any:
    try:
        table, wrong = _parsed(spec, data)
    # Cells that are no numbers, no UTF-8 in the header, no line at all.
    except ValueError as error:
        table, wrong = None, [f"cannot be parsed ({_brief(error)})"]
    else:
        wrong = _differences(table, spec) + wrong
    if wrong:
        raise ValueError(
            f"{file}: not the original {spec.member}: {_listed(wrong)}; "
            f"get it again from {UCI_ADDRESS}{spec.address}"
        )
    return table


def _parsed(spec: Specification, data: bytes) -> tuple[Any, list[str]]:
    """The table of all lines that have the right number of cells, and a word on the others."""
    pyarrow, csv = optional_import("pyarrow", "paper"), optional_import("pyarrow.csv", "paper")
    odd = []

    def skip(line: Any) -> str:
        expected, got = line.expected_columns, line.actual_columns
        odd.append(f"line {line.number}: expected {expected} cells, got {got}")
        return "skip"

    table = csv.read_csv(
        pyarrow.BufferReader(data),
        # One thread, because only then errors know the line.
        csv.ReadOptions(use_threads=False, column_names=None if spec.header else spec.columns),
        csv.ParseOptions(invalid_row_handler=skip, quote_char=False),
        csv.ConvertOptions(column_types=_schema(spec)),
    )
    return table, odd


def _differences(table: Any, spec: Specification) -> list[str]:
    """Everything in which a table is not the original, in words."""
    wrong = []
    if table.num_rows != spec.rows:
        wrong.append(f"rows: expected {spec.rows}, got {table.num_rows}")
    if table.column_names != list(spec.columns):
        return [*wrong, _other_columns(table.column_names, spec)]
    if not table.num_rows:
        return wrong
    for name in spec.columns:
        values = table[name].to_numpy()
        finite = np.isfinite(values)
        if not finite.all():
            row, count = int(np.argmin(finite)) + 1, int((~finite).sum())
            wrong.append(f"column {name}: empty or not finite in {count} rows, first row {row}")
        if name == spec.target:
            wrong += _target_differences(values[finite], spec)
        elif name != spec.group and spec.feature_range is not None:
            wrong += _feature_differences(name, values, spec.feature_range)
    return wrong


def _other_columns(names: list[str], spec: Specification) -> str:
    expected = f"columns: expected {len(spec.columns)}, got {len(names)}"
    pairs = zip([*names, "nothing"], [*spec.columns, "nothing"], strict=False)
    place, (got, due) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"{expected}, column {place + 1} should be {due}, is {got[:40]}"


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


def _listed(wrong: list[str]) -> str:
    more = (
        f"; and {len(wrong) - MAX_LISTED_DIFFERENCES} more"
        if len(wrong) > MAX_LISTED_DIFFERENCES
        else ""
    )
    return "; ".join(wrong[:MAX_LISTED_DIFFERENCES]) + more


def _brief(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
