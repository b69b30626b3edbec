"""Files from the network, the one wanted out of an archive, and the hash it is remembered by."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from softbins._extras import optional_import
from softbins._files import write_whole

UCI_ADDRESS = "https://archive.ics.uci.edu/static/public/"
DOWNLOAD_RETRIES = 2
CHUNK_BYTES = 2**16  # bytes between two flushes; pooch itself flushes after every 1024


def download(address: str, folder: Path, progress: bool = False) -> Path:
    """The file at an address, kept in `folder`; what is there already is not loaded again.

    A transfer that breaks is repeated twice. pooch loads into a file of another name, so that
    half a file never counts as the file.
    """
    pooch, requests = optional_import("pooch", "paper"), optional_import("requests", "paper")
    name = address.rpartition("/")[2]
    bar = progress and importlib.util.find_spec("tqdm") is not None
    keeper = pooch.create(
        folder, address.removesuffix(name), registry={name: None}, retry_if_failed=DOWNLOAD_RETRIES
    )
    try:
        loader = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK_BYTES)
        return Path(keeper.fetch(name, downloader=loader))
    # First, because requests' errors are errors of the operating system too.
    except requests.RequestException as error:
        raise OSError(
            f"{address}: cannot be downloaded ({error}); try again later, or load it with a "
            "browser and name the file with --from"
        ) from error
    except OSError as error:
        raise OSError(
            f"{folder}: cannot be written ({error}); free some space or choose another with --data"
        ) from error


def unpack(path: Path, member: str) -> tuple[str, bytes]:
    """A file's sha256, and the content of `member`, which it is or holds (.zip, .gz, both)."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in (".zip", ".csv", ".txt"):
        raise ValueError(f"{path}: unknown kind of file; need .zip, .csv, .txt, or one with .gz")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    try:
        data = gzip.decompress(data) if name.endswith(".gz") else data
        return digest, _member(data, member) if suffix == ".zip" else data
    except MemoryError:
        raise
    # Damage shows as whatever the readers trip over.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"{path}: cannot be unpacked ({reason}); it begins with {data[:20]!r}; load it again, "
            f"or unpack {member} yourself and name it with --from"
        ) from error


def _member(data: bytes, member: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).name == member:
                return archive.read(name)
        held = ", ".join(archive.namelist()[:10])
    raise ValueError(f"no {member} in it, only {held or 'nothing'}")


def read_known_hash(note: Path) -> str | None:
    """The hash in a note that `remember` wrote; None if there is no note."""
    try:
        record = json.loads(note.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{note}: not JSON ({error}); remove it") from error
    if not isinstance(record, dict) or not isinstance(record.get("member_sha256"), str):
        raise ValueError(f"{note}: no member_sha256 in it; remove it")
    return str(record["member_sha256"])


def write_note(note: Path, record: dict[str, Any]) -> None:
    """Note where a file came from, its hashes, and the time."""
    record = {**record, "when": datetime.now(UTC).isoformat(timespec="seconds")}
    write_whole(note, (json.dumps(record, indent=2) + "\n").encode())


def check_hash(what: str, digest: str, known: str | None, note: Path) -> None:
    """Raise if a hash is not the remembered one."""
    # Of the member and not of the archive, whose hash changes with whoever packs it.
    if known not in (None, digest):
        raise ValueError(
            f"{what} is not the one fetched before: sha256 expected {known}, got {digest}; "
            f"to accept it, remove {note}"
        )
