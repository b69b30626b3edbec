"""Optional libraries, which come with an extra of the package and are imported on first use."""

from __future__ import annotations

import importlib
from typing import Any


def optional_import(name: str, extra: str = "cli") -> Any:
    """A module of an optional library, or an `ImportError` that names the extra to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = name.partition(".")[0]
        raise ImportError(f'{missing} is not installed: pip install "softbins[{extra}]"') from error
