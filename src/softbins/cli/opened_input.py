"""Where the bytes of a table come from: a file, standard input, or what is packed in one of them.

Everything that is unpacked goes through `_unpacked`, and the size of what is read afterwards is
`OpenedInput.size`.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from softbins.cli.input_limits import check_size, check_unpacked, most_bytes
from softbins.cli.table_errors import TableError

STDIN = "-"
BLOCK = 1 << 20
GZIP_MAGIC, ZIP_MAGIC = b"\x1f\x8b", b"PK\x03\x04"
ENCRYPTED_FLAG = 0x1


def input_name(path: str | Path) -> str:
    """What messages call an input."""
    return "standard input" if str(path) == STDIN else str(path)


class OpenedInput(NamedTuple):
    """An input that is not packed (any more).

    `file` can be read again from its start, `name` is that of the file without .gz or .zip, in
    lower case, and `size` the number of bytes to read.
    """

    file: IO[bytes]
    name: str
    size: int


@contextmanager
def opened_input(path: str | Path) -> Iterator[OpenedInput]:
    """Open a file, or standard input for "-"; raise if it has changed when the block is over."""
    if str(path) == STDIN:
        with (
            _errors_in_one_line(),
            _unpacked(sys.stdin.buffer) as copy,
            _plain(copy, "", by_content=True) as opened,
        ):
            yield opened
        return
    name = Path(path).name.lower()
    with (
        _errors_in_one_line(),
        Path(path).open("rb") as file,
        _unchanged(path, file),
        _plain(file, name) as opened,
    ):
        yield opened


@contextmanager
def _unchanged(path: str | Path, file: IO[bytes]) -> Iterator[None]:
    """Raise if a file has changed when the block is over, whatever else seems wrong with it."""
    before = os.fstat(file.fileno())

    def check() -> None:
        after = os.stat(path)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise TableError("changed while it was read; try again when it is complete")

    try:
        yield
    except Exception:
        check()
        raise
    check()


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise TableError("no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"broken gzip file ({error})") from error
    except zipfile.BadZipFile as error:
        raise TableError(f"broken zip file ({error})") from error
    except OSError as error:
        raise TableError(f"cannot be read ({error.strerror})") from error


@contextmanager
def _plain(file: IO[bytes], name: str, by_content: bool = False) -> Iterator[OpenedInput]:
    """The input itself, or what is packed in it, as its suffix or its first bytes say."""
    start = file.read(4) if by_content else b""
    file.seek(0)
    if name.endswith(".gz") or start.startswith(GZIP_MAGIC):
        size = _size(file)
        with gzip.GzipFile(fileobj=file) as packed, _unpacked(packed, size) as copy:
            yield OpenedInput(copy, name.removesuffix(".gz"), _size(copy))
    elif name.endswith(".zip") or (start == ZIP_MAGIC and not _is_workbook(file)):
        with zipfile.ZipFile(file) as archive:
            member = _only_member(archive)
            size = member.compress_size
            with archive.open(member) as content, _unpacked(content, size) as copy:
                yield OpenedInput(copy, member.filename.lower(), _size(copy))
    else:
        yield OpenedInput(file, name, _size(file))


@contextmanager
def _unpacked(stream: IO[bytes] | gzip.GzipFile, packed: int | None = None) -> Iterator[IO[bytes]]:
    """A copy of a stream on disk, which can be read twice and takes no memory.

    `packed` is the number of bytes that the stream is unpacked from.
    """
    most = most_bytes()
    with tempfile.TemporaryFile() as copy:
        while block := stream.read(BLOCK):
            size = copy.tell() + len(block)
            check_size(size, most, "at least ")
            if packed is not None:
                check_unpacked(size, packed)
            copy.write(block)
        copy.seek(0)
        yield copy


def _size(file: IO[bytes]) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _is_workbook(file: IO[bytes]) -> bool:
    """Whether a zip archive is an Excel file, which is packed as well."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    file.seek(0)
    return "[Content_Types].xml" in names


def _only_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    files = [info for info in archive.infolist() if not info.is_dir()]
    # The Finder adds a folder with what it knows about the files.
    files = [info for info in files if not info.filename.startswith("__MACOSX/")]
    if len(files) != 1:
        listed = ", ".join(repr(info.filename) for info in files[:5])
        found = f"{len(files)} files ({listed})" if files else "no file"
        raise TableError(f"the zip archive holds {found}; need one, unpack it and name one")
    if files[0].flag_bits & ENCRYPTED_FLAG:
        raise TableError("the zip archive is protected by a password; unpack it first")
    return files[0]
