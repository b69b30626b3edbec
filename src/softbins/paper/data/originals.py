"""The original files of CT Position and Song Year: fetched, checked, and kept as Parquet files.

A file is parsed and checked against its specification, because the hashes of the archives were
never published. What passed is written as `ct.parquet`, with the hash of its content in the note
`ct.json` beside it. A later file whose content has another hash is refused.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from softbins._core.extras import optional_import
from softbins._core.files import write_whole
from softbins.paper.data.datasets import RawDataset
from softbins.paper.data.download import (
    UCI_ADDRESS,
    check_hash,
    download,
    read_known_hash,
    unpack,
    write_note,
)
from softbins.paper.data.specifications import (
    Specification,
    find_differences,
    find_specification,
    list_differences,
)


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
    """Make the Parquet file of an original unless it is in `folder` already, and return its path.

    It is made from a download below the address `base`, or from `source`: the archive (.zip) or
    the file in it (.csv, .txt), either of them perhaps gzipped. Anything but the original raises
    `ValueError` with all that differs; a failed download or a failing disk raises `OSError`.
    Either way `folder` keeps what it had.
    """
    spec, folder = find_specification(name), Path(folder)
    path = folder / f"{spec.name}.parquet"
    if _is_complete(path, spec):
        return path
    known = read_known_hash(folder / f"{spec.name}.json")
    if source is not None:
        _convert(spec, Path(source), origin=Path(source).name, folder=folder, known=known)
        return path
    address = base + spec.address
    file = download(address, folder / "downloads", progress)
    try:
        _convert(spec, file, origin=address, folder=folder, known=known)
    except ValueError as error:
        file.unlink(missing_ok=True)
        note = f"downloaded from {address}; removed, so that a repeat loads it anew"
        raise ValueError(f"{error} ({note})") from error
    return path


def read_original(name: str | Specification, folder: str | Path) -> RawDataset:
    """Read an original from the Parquet file that `fetch_original` made, and check it once more."""
    spec = find_specification(name)
    path = Path(folder) / f"{spec.name}.parquet"
    command = f"softbins paper fetch {spec.name} --data {shlex.quote(str(folder))}"
    if not path.is_file():
        raise ValueError(f"{path}: no such file; make it with `{command}`")
    table = _read_parquet(path, command)
    differences = [f"not the columns of {spec.member}"]
    if table.schema.equals(spec.schema()):
        differences = find_differences(table, spec)
    if differences:
        listed = list_differences(differences)
        raise ValueError(f"{path}: {listed}; remove it and repeat `{command}`")
    return RawDataset(
        X=np.column_stack([table[feature].to_numpy() for feature in spec.features]),
        y=table[spec.target].to_numpy().astype(np.float64),
        feature_names=spec.features,
        groups=None if spec.group is None else np.array(table[spec.group]),
        source=(table.schema.metadata or {}).get(b"source", b"").decode(),
    )


# Parquet files


def _is_complete(path: Path, spec: Specification) -> bool:
    """Whether the file opens and has the right shape; `read_original` checks its values."""
    if not path.is_file():
        return False
    parquet = optional_import("pyarrow.parquet", "paper")
    try:
        n_rows, schema = parquet.read_metadata(path).num_rows, parquet.read_schema(path)
    # A damaged file can make the reader raise almost any exception.
    except Exception:
        return False
    return bool(n_rows == spec.n_rows and schema.equals(spec.schema()))


def _read_parquet(path: Path, command: str) -> Any:
    parquet = optional_import("pyarrow.parquet", "paper")
    try:
        # `read_table` would take the name of a folder such as "a=1" for a column.
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read()
    except (PermissionError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path}: damaged ({_first_line(error)}); repeat `{command}`") from error


def _convert(
    spec: Specification, file: Path, *, origin: str, folder: Path, known: str | None
) -> None:
    """Write the Parquet file, and the note with its hash if there was none to compare with."""
    file_digest, data = unpack(file, spec.member)
    table = _parse_original(spec, data, file)
    member_digest = hashlib.sha256(data).hexdigest()
    path, note = folder / f"{spec.name}.parquet", folder / f"{spec.name}.json"
    check_hash(f"{file}: {spec.member}", member_digest, known, note)
    _make_folder(folder)
    _write_parquet(table.replace_schema_metadata({"source": origin}), path)
    if known is not None:
        return
    hashes = {"sha256": file_digest, "member": spec.member, "member_sha256": member_digest}
    try:
        write_note(note, {"source": origin, **hashes, "rows": table.num_rows})
    except OSError:
        # A Parquet file without its note would leave the next download without a comparison.
        path.unlink(missing_ok=True)
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot make the folder ({error.strerror}); choose another with --data"
        raise OSError(error.errno, reason, str(folder)) from error


def _write_parquet(table: Any, path: Path) -> None:
    buffer = optional_import("pyarrow", "paper").BufferOutputStream()
    # The checksums let `read_original` notice a single changed bit.
    optional_import("pyarrow.parquet", "paper").write_table(table, buffer, write_page_checksum=True)
    write_whole(path, buffer.getvalue().to_pybytes())


# The text files inside the archives


def _parse_original(spec: Specification, data: bytes, file: Path) -> Any:
    try:
        table, odd_lines = _parse_csv(spec, data)
    # Cells that are not numbers, a header that is not UTF-8, or no line at all.
    except ValueError as error:
        table, differences = None, [f"cannot be parsed ({_first_line(error)})"]
    else:
        differences = find_differences(table, spec) + odd_lines
    if differences:
        raise ValueError(
            f"{file}: not the original {spec.member}: {list_differences(differences)}; "
            f"get it again from {UCI_ADDRESS}{spec.address}"
        )
    return table


def _parse_csv(spec: Specification, data: bytes) -> tuple[Any, list[str]]:
    """A table of all lines with the right number of cells, and a description of the others."""
    pyarrow, csv = optional_import("pyarrow", "paper"), optional_import("pyarrow.csv", "paper")
    odd_lines = []

    def skip(line: Any) -> str:
        expected, got = line.expected_columns, line.actual_columns
        odd_lines.append(f"line {line.number}: expected {expected} cells, got {got}")
        return "skip"

    table = csv.read_csv(
        pyarrow.BufferReader(data),
        # Only a reader with one thread knows the number of the line where an error is.
        csv.ReadOptions(use_threads=False, column_names=None if spec.header else spec.columns),
        csv.ParseOptions(invalid_row_handler=skip, quote_char=False),
        csv.ConvertOptions(column_types=spec.schema()),
    )
    return table, odd_lines


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
