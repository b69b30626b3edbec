"""Bins with width and atoms apart: each is worked with in another way."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from softbins.bins import Bins


class AtomParts(NamedTuple):
    """Where the bins with width and the atoms are among the k bins, and what they look like."""

    wide: Tensor
    """Numbers of the bins with width."""
    atoms: Tensor
    """Numbers of the atoms."""
    order: Tensor
    """Where each of the k bins is found in those two behind each other."""
    edges: Tensor
    """The edges of the bins with width, each of them once."""
    places: Tensor
    """The values of the atoms."""

    def split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Of values (..., k) those of the bins with width, and those of the atoms."""
        return values.index_select(-1, self.wide), values.index_select(-1, self.atoms)

    def joined(self, wide: Tensor, atoms: Tensor) -> Tensor:
        """The values (..., k) of all bins, from both parts."""
        return torch.cat([wide, atoms], -1).index_select(-1, self.order)


@lru_cache(maxsize=64)
def atom_parts(bins: Bins) -> AtomParts:
    """The parts of bins with atoms, found once: finding looks at values, which no export can."""
    assert bins.atoms is not None
    wide, atoms = (torch.nonzero(part).squeeze(-1) for part in (~bins.atoms, bins.atoms))
    order = torch.argsort(torch.cat([wide, atoms]))
    edges = torch.unique_consecutive(bins.edges)
    return AtomParts(wide, atoms, order, edges, bins.centers[atoms])
