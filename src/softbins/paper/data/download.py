"""Downloads, archives, and notes of what was downloaded.

`softbins paper fetch` loads an archive, takes one member out of it, and writes a note with the
member's hash. A later download whose member has another hash is refused.
"""

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

from softbins._core.extras import optional_import
from softbins._core.files import write_whole

UCI_ADDRESS = "https://archive.ics.uci.edu/static/public/"
DOWNLOAD_RETRIES = 2
# A download is written to disk in pieces of this size. pooch's own pieces of 1024 bytes are slow.
CHUNK_BYTES = 2**16


def download(address: str, folder: Path, progress: bool = False) -> Path:
    """Load the file at an address into `folder`, unless it is there already, and return its path.

    A transfer that breaks is tried again. pooch gives the file its name only once it is complete,
    so that half a file never counts as the file.
    """
    pooch, requests = optional_import("pooch", "paper"), optional_import("requests", "paper")
    name = address.rpartition("/")[2]
    progress_bar = progress and importlib.util.find_spec("tqdm") is not None
    keeper = pooch.create(
        folder, address.removesuffix(name), registry={name: None}, retry_if_failed=DOWNLOAD_RETRIES
    )
    try:
        loader = pooch.HTTPDownloader(progressbar=progress_bar, chunk_size=CHUNK_BYTES)
        return Path(keeper.fetch(name, downloader=loader))
    # This comes before OSError, because requests' errors are OSErrors as well.
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
    """Read a file's sha256 and the content of `member`.

    The file is a .zip archive that holds the member, or the member itself (.csv, .txt). Either may
    be compressed once more with gzip.
    """
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in (".zip", ".csv", ".txt"):
        raise ValueError(f"{path}: unknown kind of file; need .zip, .csv, .txt, or one with .gz")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    try:
        data = gzip.decompress(data) if name.endswith(".gz") else data
        return digest, _read_member(data, member) if suffix == ".zip" else data
    except MemoryError:
        raise
    # A damaged file can make the readers raise almost any exception.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"{path}: cannot be unpacked ({reason}); it begins with {data[:20]!r}; load it again, "
            f"or unpack {member} yourself and name it with --from"
        ) from error


def _read_member(data: bytes, member: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).name == member:
                return archive.read(name)
        first_names = ", ".join(archive.namelist()[:10])
    raise ValueError(f"no {member} in it, only {first_names or 'nothing'}")


def read_known_hash(note: Path) -> str | None:
    """Read the member's hash from a note that `write_note` wrote; None if there is no note."""
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
    """Write down where a file came from and its hashes, together with the present time."""
    record = {**record, "when": datetime.now(UTC).isoformat(timespec="seconds")}
    write_whole(note, (json.dumps(record, indent=2) + "\n").encode())


def check_hash(subject: str, digest: str, known: str | None, note: Path) -> None:
    """Raise `ValueError` if the member's hash is not the one that the note knows.

    Archives are not compared: their hash changes whenever somebody packs the same data anew.
    """
    if known not in (None, digest):
        raise ValueError(
            f"{subject} is not the one fetched before: sha256 expected {known}, got {digest}; "
            f"to accept it, remove {note}"
        )
