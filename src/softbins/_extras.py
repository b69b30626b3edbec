"""Libraries that are not always installed: imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any


def optional_import(name: str, extra: str = "cli") -> Any:
    """An optional library, imported on first use so that `softbins --help` is quick."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = name.partition(".")[0]
        raise ImportError(f'{missing} is not installed: pip install "softbins[{extra}]"') from error
