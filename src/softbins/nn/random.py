"""Random numbers: one generator for each member and purpose, so that nobody draws another's."""

from __future__ import annotations

from typing import Literal

import torch

Purpose = Literal["weights", "training", "embeddings"]

# Seeds of members are below 2**32, so that streams of different purposes never meet.
_STREAMS: dict[Purpose, int] = {"weights": 0, "training": 2**32, "embeddings": 2**33}


def member_generator(seed: int, purpose: Purpose) -> torch.Generator:
    """The generator of the member with that seed, for that purpose."""
    return torch.Generator().manual_seed(seed + _STREAMS[purpose])
