"""JSON files with a seal, a digest of their own text, so that a change of any byte is noticed.

The digest finds damage. It is no signature: whoever can change a file can also renew its seal.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softbins._core.files import mode_of_file

SEAL = "sha256"
# More than any file of a store has. Whatever is larger is not read.
LONGEST_FILE = 50_000_000
# What the process lacks is not the fault of the file that it was about to read.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def seal(content: Mapping[str, Any]) -> bytes:
    """The bytes of a file with this content; `ValueError` for NaN and infinity."""
    digest = hashlib.sha256(_text(content).encode()).hexdigest()
    return _text({**content, SEAL: digest}).encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The content that `seal` made into these very bytes; `ValueError` with the reason if none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON" if data else "it is empty") from error
    if type(found) is not dict:
        raise ValueError("it is not a JSON object")
    content = {name: value for name, value in found.items() if name != SEAL}
    try:
        is_whole = seal(content) == data
    except (ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        raise ValueError("it was changed after it was written")
    return content


def read_sealed(
    path: Path, check: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any] | None, str]:
    """The content of a sealed file, and what is wrong with it.

    The content is None without a file, and with one that is damaged or that `check` refuses by a
    `ValueError`. What is wrong is empty without a file and with a whole one.
    """
    try:
        data = _read_data(path)
        if data is None:
            return None, ""
        content = unseal(data)
        check(content)
    except ValueError as error:
        return None, str(error)
    return content, ""


def _read_data(path: Path) -> bytes | None:
    """The bytes of a file, None if nothing is there, `ValueError` if it cannot be a sealed file."""
    try:
        mode_of_file(str(path))
        with path.open("rb") as file:
            data = file.read(LONGEST_FILE + 1)
    except OSError as error:
        if not os.path.lexists(path):
            return None
        if error.errno in _EXHAUSTED:
            raise
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    if len(data) > LONGEST_FILE:
        raise ValueError("it is far too large")
    return data


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False) + "\n"
