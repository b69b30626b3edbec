"""Whether Keras can be imported, with the backend that was chosen for it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from softbins._core.extras import optional_import

# What Keras itself takes where nothing was chosen.
DEFAULT_BACKEND = "tensorflow"


def require_keras() -> None:
    """Raise an `ImportError` that says what is missing if Keras or its backend is not there.

    Keras settles on a backend while it is imported, and an import that fails leaves half of it
    behind. The backend is looked for first, so that another one can be chosen afterwards.
    """
    if "keras" not in sys.modules and importlib.util.find_spec("keras"):
        backend = _chosen_backend()
        if importlib.util.find_spec(backend) is None:
            raise ImportError(
                f"keras: its backend {backend!r} is not installed; install it, or choose another "
                "before Keras is imported, such as os.environ['KERAS_BACKEND'] = 'torch'"
            )
    optional_import("keras", "keras")


def _chosen_backend() -> str:
    """The backend of the environment, or else of the file in which Keras keeps its settings."""
    chosen = os.environ.get("KERAS_BACKEND")
    if chosen:
        return chosen
    folder = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    try:
        settings = json.loads((Path(folder) / "keras.json").read_text())
    except (OSError, ValueError):
        settings = {}
    return str(settings.get("backend", DEFAULT_BACKEND))
