"""The folder of tables and models in which commands run."""

from tests.cli.conftest import folder, models

__all__ = ["folder", "models"]
