"""Model files: named tensors and a JSON header in one safetensors file, whole or not at all.

`model_content` says what is in such a file, and reads it without torch.
"""

from __future__ import annotations

import math
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from softbins._core.files import FilePath, checked_path, write_whole
from softbins._core.model_content import (
    DTYPES,
    FORMAT_VERSION,
    MAGIC,
    ModelFileError,
    StoredTensor,
    compact_json,
    damaged,
    digest,
    read_stored,
)

__all__ = ["ModelFileError", "digest_of", "read", "write"]

# Within this, whatever can be written can also be read, by every Python.
_DEEPEST_HEADER = 100
_LONGEST_INTEGER = 2048

_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES.values()}


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
        "sha256": digest_of(header, copies),
        "header": header,
    }
    write_whole(path, safetensors.torch.save(copies, metadata={MAGIC: compact_json(envelope)}))


def read(path: FilePath) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors of a model file, by sorted name, after everything was verified.

    The tensors are on the CPU and own their memory. Errors are those of `read_stored`.
    """
    header, stored = read_stored(path)
    try:
        return header, {name: _tensor(part) for name, part in stored.items()}
    # What torch makes of an impossible shape.
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise damaged(checked_path(path), "its tensors cannot be parsed") from error


def digest_of(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """The digest of a file with this header and these dense tensors on the CPU."""
    return digest(header, {name: _stored(value) for name, value in tensors.items()})


def _stored(value: Tensor) -> StoredTensor:
    name = str(value.dtype).removeprefix("torch.")
    data = value.reshape(-1).view(torch.uint8).numpy().data
    return StoredTensor(name, tuple(value.shape), data)


def _tensor(part: StoredTensor) -> Tensor:
    dtype = _DTYPES[part.dtype]
    if 0 in part.shape:
        return torch.empty(part.shape, dtype=dtype)
    return torch.frombuffer(part.data, dtype=dtype).reshape(part.shape)


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
    if value.dtype not in _DTYPES.values() or value.layout != torch.strided or value.is_meta:
        raise ValueError(
            f"tensors[{name!r}]: cannot store a {value.layout} tensor of {value.dtype} on "
            f"{value.device}; need a dense one with values, of {', '.join(_DTYPES)}"
        )
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)
