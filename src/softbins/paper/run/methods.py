"""The ten methods of Table 1 in its order, their names in print, and the grids they choose from."""

from __future__ import annotations

from collections.abc import Mapping

METHODS = (
    "linear",
    "l2",
    "hl-gaussian",
    "l1",
    "l2-noise",
    "l2-clipping",
    "hl-onebin",
    "hl-uniform",
    "mdn",
    "l2-softmax",
)
METHOD_TITLES = {
    "linear": "Linear Reg.",
    "l2": "l2",
    "hl-gaussian": "HL-Gaussian",
    "l1": "l1",
    "l2-noise": "l2+Noise",
    "l2-clipping": "l2+Clipping",
    "hl-onebin": "HL-OneBin",
    "hl-uniform": "HL-Uniform",
    "mdn": "MDN",
    "l2-softmax": "l2+Softmax",
    "l2-many": "l2, 100 outputs",
}
# The parameter that a method chooses, and its values (Section 4). The paper's grid for epsilon also
# has 0.1, which is left out: 0.1 in each of 99 bins adds up to more than 1.
PARAMETER_GRIDS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "l2-noise": ("noise", (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
    "l2-clipping": ("clip", (0.01, 0.1, 1.0, 10.0)),
    "hl-uniform": ("epsilon", (1e-5, 1e-4, 1e-3, 1e-2)),
    "mdn": ("components", (2, 4, 8, 16, 32)),
}
# The one value of each grid that scales without full grids use.
SINGLE_VALUES = {"l2-noise": 1e-3, "l2-clipping": 0.1, "hl-uniform": 1e-4, "mdn": 8}

Parameters = dict[str, float | int]


def parameter_grid(method: str, full: bool = True) -> list[Parameters]:
    """The settings that a method is trained with: the whole grid, or one value of it.

    A method without a grid has one setting without parameters.
    """
    if method not in PARAMETER_GRIDS:
        return [{}]
    name, values = PARAMETER_GRIDS[method]
    return [{name: value} for value in values] if full else [{name: SINGLE_VALUES[method]}]
