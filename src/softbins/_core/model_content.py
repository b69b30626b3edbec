"""What is in a model file, verified without torch, which takes seconds to import.

The file is plain safetensors, which any safetensors reader opens and which holds data only:
reading it executes nothing. Its metadata has one entry, "softbins", a JSON object of the format's
version, the header, and a SHA-256 digest of everything else. One entry and sorted keys, because
then equal contents give equal files. The digest finds damage. It is no signature: whoever can
change the file can also renew the digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import safetensors

from softbins._core.files import FilePath, checked_path, explained, mode_of_file

MAGIC = "softbins"
FORMAT_VERSION = 1

# Bounds within which whatever can be written can also be read, by every Python and safetensors:
# Python promises to parse 640 digits of an integer, and safetensors 100 MB of header.
_LONGEST_HEADER = 10_000_000
_LONGEST_PREAMBLE = 100_000_000

# Kinds of numbers that every safetensors since 0.4 gives back unchanged, by its names for them.
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


class ModelFileError(ValueError):
    """A file that cannot be a model: foreign, cut short, damaged, changed, or too new.

    Raised by `softbins.load`; the message names the file and the way out.

    Examples
    --------
    >>> import tempfile
    >>> from softbins import ModelFileError, load
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         load(file.name)
    ...     except ModelFileError:
    ...         print("not a model")
    not a model
    """


class StoredTensor(NamedTuple):
    """A tensor as its bytes: the kind of its numbers, such as "float32", and its shape."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


def read_stored(path: FilePath) -> tuple[dict[str, Any], dict[str, StoredTensor]]:
    """The header and the tensors of a model file, by sorted name, after the digest was verified.

    Any fault of the content raises `ModelFileError`; a path that cannot be read raises `OSError`
    (`FileNotFoundError`, `IsADirectoryError`, ...). "~" is not expanded.
    """
    place = checked_path(path)
    try:
        with _opened(place) as file:
            envelope = _envelope(place, file)
            _require_known_version(place, envelope)
            file.seek(0)
            data = file.read()
    except OSError as error:
        raise explained("read", place, error) from error
    tensors = _parsed_tensors(place, data)
    return _verified_header(place, envelope, tensors), tensors


def digest(header: dict[str, Any], tensors: Mapping[str, StoredTensor]) -> str:
    """What a file's entry has to say of its header and tensors, in hexadecimal digits."""
    names = sorted(tensors)
    # JSON says where it ends and the layout how many bytes belong to whom: nothing can be moved
    # from one part to another without changing what is digested.
    layout = [[name, f"torch.{tensors[name].dtype}", list(tensors[name].shape)] for name in names]
    text = compact_json([FORMAT_VERSION, header, layout])
    if len(text) > _LONGEST_HEADER:
        raise ValueError(f"header: {len(text)} characters as JSON are too many; use tensors")
    found = hashlib.sha256(text.encode())
    for name in names:
        found.update(tensors[name].data)
    return found.hexdigest()


def compact_json(value: Any) -> str:
    """The one text that equal values have as JSON."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _opened(place: str) -> BinaryIO:
    mode_of_file(place)
    return open(place, "rb")


def _envelope(place: str, file: BinaryIO) -> dict[str, Any]:
    """The entry of ours in the file's metadata, read without the tensors behind it."""
    try:
        length = int.from_bytes(file.read(8), "little")
        # The length is what the file claims. Only as much is read as there really is.
        if length > min(os.fstat(file.fileno()).st_size - 8, _LONGEST_PREAMBLE):
            raise ValueError("foreign or cut short")
        envelope = json.loads(json.loads(file.read(length))["__metadata__"][MAGIC])
        if type(envelope) is not dict:
            raise ValueError("its softbins entry is not an object")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(
            f"{place}: not a softbins model file, or only a piece of one; give the path of a "
            "file that softbins saved, or save the model again"
        ) from error
    return envelope


def _require_known_version(place: str, envelope: dict[str, Any]) -> None:
    version = envelope.get("version")
    if type(version) is not int or version < 1:
        raise damaged(place, "no valid format version")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{place}: written by a newer softbins (format {version}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade softbins"
        )


def _parsed_tensors(place: str, data: bytes) -> dict[str, StoredTensor]:
    try:
        found = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]
        return {name: _stored(found[name]) for name in sorted(found)}
    except MemoryError:
        raise
    # A SafetensorError, or a KeyError for a kind that softbins does not write. Both mean that
    # the file is not as we wrote it.
    except Exception as error:
        raise damaged(place, "its tensors cannot be parsed") from error


def _stored(part: Mapping[str, Any]) -> StoredTensor:
    return StoredTensor(DTYPES[part["dtype"]], tuple(part["shape"]), part["data"])


def _verified_header(
    place: str, envelope: dict[str, Any], tensors: Mapping[str, StoredTensor]
) -> dict[str, Any]:
    header = envelope.get("header")
    if type(header) is not dict:
        raise damaged(place, "no valid header")
    try:
        found = digest(header, tensors)
    # A NaN, or a depth or length, that `write` does not write.
    except (ValueError, RecursionError) as error:
        raise damaged(place, "no valid header") from error
    if found != envelope.get("sha256"):
        raise damaged(place, "the digest does not match the content")
    return header


def damaged(place: str, reason: str) -> ModelFileError:
    """The error for a file that is not as it was written."""
    advice = "restore a copy of it or save the model again"
    return ModelFileError(f"{place}: damaged or changed after it was written ({reason}); {advice}")
