"""Model files: named tensors and a JSON header in one safetensors file, whole or not at all.

The file is plain safetensors, which any safetensors reader opens and which holds data only:
reading it executes nothing. Its metadata has one entry, "softbins", a JSON object of the format's
version, the header, and a SHA-256 digest of everything else. One entry and sorted keys, because
then equal contents give equal files. The digest finds damage. It is no signature: whoever can
change the file can also renew the digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import Any, BinaryIO

import safetensors.torch
import torch
from torch import Tensor

from softbins._core.files import FilePath, checked_path, explained, mode_of_file, write_whole

MAGIC = "softbins"
FORMAT_VERSION = 1

# Bounds within which whatever can be written can also be read, by every Python and safetensors:
# Python promises to parse 640 digits of an integer, and safetensors 100 MB of header.
_DEEPEST_HEADER = 100
_LONGEST_INTEGER = 2048
_LONGEST_HEADER = 10_000_000
_LONGEST_PREAMBLE = 100_000_000

# Kinds of numbers that every safetensors since 0.4 gives back unchanged.
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_DTYPES = (*_FLOATS, *_INTEGERS, torch.bool)


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


def write(path: FilePath, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model file: afterwards `path` is the whole new file, or untouched by an error.

    The header takes dict (with text as keys), list, str, int, finite float, bool and None, of
    exactly these types, so that it comes back equal; others, tuples too, are refused with their
    place. NaN and infinity are refused because JSON has none; a tensor keeps them bit for bit.
    Tensors are stored dense and independent of each other, without device and requires_grad.
    Bad arguments raise `ValueError` and a failing disk `OSError`; `path` is as for `write_whole`.
    """
    checked_path(path)
    if type(header) is not dict:
        raise ValueError(f"header: need a dict, got {type(header).__name__}")
    _require_plain(header, "header", 1)
    copies = {_checked_name(name): _dense_copy(name, value) for name, value in tensors.items()}
    envelope = {
        "version": FORMAT_VERSION,
        "sha256": _digest(header, copies),
        "header": header,
    }
    write_whole(path, safetensors.torch.save(copies, metadata={MAGIC: _text(envelope)}))


def read(path: FilePath) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors of a model file, by sorted name, after everything was verified.

    The tensors are on the CPU and own their memory. Any fault of the content raises
    `ModelFileError`; a path that cannot be read raises `OSError` (`FileNotFoundError`,
    `IsADirectoryError`, ...). "~" is not expanded.
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


def is_model_file(path: FilePath) -> bool:
    """Whether a file says that it is a model of softbins, of any version and also if damaged."""
    place = checked_path(path)
    try:
        with _opened(place) as file:
            _envelope(place, file)
    except (OSError, ModelFileError):
        return False
    return True


def _require_plain(value: Any, place: str, depth: int) -> None:
    """Raise `ValueError` unless JSON gives `value` back equal and of the same types."""
    if depth > _DEEPEST_HEADER:
        raise ValueError(f"header: nested deeper than {_DEEPEST_HEADER}, or in itself; flatten it")
    if type(value) is dict:
        _require_text_keys(value, place)
        items = list(value.items())
    elif type(value) is list:
        items = list(enumerate(value))
    else:
        _require_plain_leaf(value, place)
        return
    for key, item in items:
        _require_plain(item, f"{place}[{key!r}]", depth + 1)


def _require_text_keys(value: dict[Any, Any], place: str) -> None:
    for key in value:
        if not _is_text(key):
            raise ValueError(f"{place}: keys must be text, got {key!r}; use str(key)")


def _require_plain_leaf(value: Any, place: str) -> None:
    kind = type(value)
    if value is not None and kind not in (str, int, float, bool):
        raise ValueError(
            f"{place}: {kind.__name__} is not plain JSON; use dict, list, str, int, float, bool "
            "or None, and tensors for arrays"
        )
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{place}: JSON has no {value}; use None or text, or keep it in a tensor")
    if kind is int and value.bit_length() > _LONGEST_INTEGER:
        raise ValueError(f"{place}: integer of more than {_LONGEST_INTEGER} bits; use text")
    if kind is str and not _is_text(value):
        raise ValueError(f"{place}: {value!r} has half a surrogate pair; decode the text rightly")


def _is_text(value: Any) -> bool:
    """Whether it is text of whole characters: halves of a surrogate pair may fuse in JSON."""
    try:
        return type(value) is str and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _checked_name(name: str) -> str:
    # safetensors keeps its own metadata under that one name.
    if not _is_text(name) or name == "__metadata__":
        raise ValueError(f"tensors: need names in text other than '__metadata__', got {name!r}")
    return name


def _dense_copy(name: str, value: Tensor) -> Tensor:
    """A contiguous copy on the CPU, which shares nothing with the others or with the training."""
    if not isinstance(value, Tensor):
        raise ValueError(f"tensors[{name!r}]: need a tensor, got {type(value).__name__}")
    if value.dtype not in _DTYPES or value.layout != torch.strided or value.is_meta:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise ValueError(
            f"tensors[{name!r}]: cannot store a {value.layout} tensor of {value.dtype} on "
            f"{value.device}; need a dense one with values, of {known}"
        )
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)


def _digest(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    names = sorted(tensors)
    # JSON says where it ends and the layout how many bytes belong to whom: nothing can be moved
    # from one part to another without changing what is digested.
    layout = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in names]
    text = _text([FORMAT_VERSION, header, layout])
    if len(text) > _LONGEST_HEADER:
        raise ValueError(f"header: {len(text)} characters as JSON are too many; use tensors")
    digest = hashlib.sha256(text.encode())
    for name in names:
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _text(value: Any) -> str:
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
        raise _damaged(place, "no valid format version")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{place}: written by a newer softbins (format {version}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade softbins"
        )


def _parsed_tensors(place: str, data: bytes) -> dict[str, Tensor]:
    try:
        tensors = safetensors.torch.load(data)
    except MemoryError:
        raise
    # Its Rust half raises SafetensorError, its Python half KeyError, AssertionError and what
    # torch makes of an impossible shape. All of them mean that the file is not as we wrote it.
    except Exception as error:
        raise _damaged(place, "its tensors cannot be parsed") from error
    return {name: tensors[name] for name in sorted(tensors)}


def _verified_header(
    place: str, envelope: dict[str, Any], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    header = envelope.get("header")
    if type(header) is not dict:
        raise _damaged(place, "no valid header")
    try:
        digest = _digest(header, tensors)
    # A NaN, or a depth or length, that `write` does not write.
    except (ValueError, RecursionError) as error:
        raise _damaged(place, "no valid header") from error
    if digest != envelope.get("sha256"):
        raise _damaged(place, "the digest does not match the content")
    return header


def _damaged(place: str, reason: str) -> ModelFileError:
    advice = "restore a copy of it or save the model again"
    return ModelFileError(f"{place}: damaged or changed after it was written ({reason}); {advice}")
