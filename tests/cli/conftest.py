"""The commands of the paper are tested with the same small store and scale as the paper itself."""

from tests.paper.conftest import scale, store

__all__ = ["scale", "store"]
