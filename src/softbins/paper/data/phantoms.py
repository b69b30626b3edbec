"""Body phantoms: people made of ellipsoids, and the polar histograms of slices through them.

They stand in for the patients of CT Position. `anatomy` has the standard body. Each patient has a
build, and each part of each patient deviates from the standard. A slice counts bone in 24 sectors
of 10 shells and air in 18 sectors of 8 shells, which is the layout of the real descriptors (Graf
et al. 2011). Places on the axis are in its own unit, other lengths are in cm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softbins.paper.data.anatomy import AIR_SPACES, BONES, OUTLINE, Part

Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]
Index = NDArray[np.int64]
Points = NDArray[np.complex64]

N_PATIENTS = 97
# So many patients are scanned from head to feet, the others in part.
N_WHOLE_BODY_SCANS = 27
# The range of the real targets.
LOWEST_TARGET, HIGHEST_TARGET = 1.738733, 97.489115
# Cells outside the body hold this value in the real file.
OUTSIDE_BODY_VALUE = -0.25
# The sample points of so many slices fit into the processor's cache.
SLICES_PER_BLOCK = 512
# The border of a part is soft over this share of its radius.
SOFT_BORDER_WIDTH = 0.15
# The bowel of every patient holds so many bubbles of gas.
N_GAS_BUBBLES = 6


class PolarGrid(NamedTuple):
    """The polar cells that count one kind of tissue.

    A cell has `samples_per_side` x `samples_per_side` sample points. Its value is one half if
    `saturation` square cm of it are tissue.
    """

    sectors: int
    shells: int
    saturation: float
    samples_per_side: int = 3


BONE_GRID = PolarGrid(24, 10, 0.3)
AIR_GRID = PolarGrid(18, 8, 0.02)
N_FEATURES = BONE_GRID.sectors * BONE_GRID.shells + AIR_GRID.sectors * AIR_GRID.shells


@dataclass(frozen=True)
class Patients:
    """The build of every patient, and how their parts deviate from the standard body.

    `frame` scales the skeleton and, times `flesh` and `flatness`, the outline. `stretch` and
    `shift` move places along the axis, `tilt` (patients, 2) moves the center of the scanner, and
    `phase` turns the ribs. `bones` and `air_spaces` (patients, parts, 6) hold shifts in x, y, z
    and factors of the three radii. `gas` (patients, bubbles, 6) holds centers and radii.
    """

    frame: Array
    flesh: Array
    flatness: Array
    stretch: Array
    shift: Array
    tilt: Array
    phase: Array
    bones: Array
    air_spaces: Array
    gas: Array


def draw_patients(rng: np.random.Generator) -> Patients:
    """Draw the patients of one simulated study."""
    return Patients(
        frame=rng.normal(1, 0.06, N_PATIENTS).clip(0.8, 1.2),
        flesh=rng.normal(1.05, 0.09, N_PATIENTS).clip(0.85, 1.4),
        flatness=rng.normal(1, 0.06, N_PATIENTS).clip(0.85, 1.15),
        stretch=rng.normal(1, 0.03, N_PATIENTS),
        shift=rng.normal(0, 1.5, N_PATIENTS),
        tilt=rng.normal(0, 0.03, (N_PATIENTS, 2)),
        phase=rng.uniform(0, 2 * np.pi, N_PATIENTS),
        bones=_draw_deviations(rng, len(BONES)),
        air_spaces=_draw_deviations(rng, len(AIR_SPACES)),
        gas=_draw_bubbles(rng),
    )


def _draw_deviations(rng: np.random.Generator, n_parts: int) -> Array:
    places = rng.normal(0, 0.8, (N_PATIENTS, n_parts, 3))
    factors = rng.normal(1, 0.12, (N_PATIENTS, n_parts, 3)).clip(0.7, 1.3)
    return np.concatenate([places, factors], -1)


def _draw_bubbles(rng: np.random.Generator) -> Array:
    low, high = (-11, -3, 36, 1, 1, 0.6), (11, 8, 49, 3.2, 2.4, 1.8)
    return rng.uniform(low, high, (N_PATIENTS, N_GAS_BUBBLES, 6))


def draw_slices(rng: np.random.Generator, n_slices: int) -> tuple[Array, Index]:
    """Draw the places of slices on the axis, patient by patient from the top, and their patients.

    Half of the shorter scans end below the chest, the other half below the pelvis.
    """
    is_whole = np.arange(N_PATIENTS) < N_WHOLE_BODY_SCANS
    rng.shuffle(is_whole)
    ends_at_chest = rng.random(N_PATIENTS) < 0.5
    top = np.where(is_whole, rng.normal(7.3, 2.0, N_PATIENTS), rng.normal(27, 2, N_PATIENTS))
    mean_bottom = np.where(is_whole, 92.3, np.where(ends_at_chest, 38, 57))
    bottom = rng.normal(mean_bottom, np.where(is_whole, 2.5, 3)).clip(top + 2, HIGHEST_TARGET)
    top = top.clip(LOWEST_TARGET)
    # Long scans have about 17 slices in a unit of the axis, short ones about 10.
    sizes = _share_slices((bottom - top) * np.where(is_whole, 17.2, 10.2), n_slices)
    groups = np.repeat(np.arange(N_PATIENTS), sizes)
    number = np.arange(n_slices) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    fraction = (number + 0.5) / sizes[groups]
    return top[groups] + fraction * (bottom - top)[groups], groups


def _share_slices(weights: Array, n_slices: int) -> Index:
    """Share the slices out in proportion to the weights, at least one for each."""
    ends = np.cumsum(weights) / weights.sum() * (n_slices - len(weights))
    sizes: Index = 1 + np.diff(np.rint(ends).astype(np.int64), prepend=0)
    return sizes


def polar_histograms(
    location: Array, groups: Index, patients: Patients, rng: np.random.Generator
) -> Float32Array:
    """Make the polar histograms (slices, 384) of slices at `location` of the patients `groups`."""
    result = np.empty((len(location), N_FEATURES), np.float32)
    for start in range(0, len(location), SLICES_PER_BLOCK):
        block = slice(start, start + SLICES_PER_BLOCK)
        result[block] = _block_histograms(location[block], groups[block], patients, rng)
    return result


def _block_histograms(
    location: Array, groups: Index, patients: Patients, rng: np.random.Generator
) -> Float32Array:
    block = _make_block(location, groups, patients, rng)
    bones = _place_parts(BONES, patients.bones[groups])
    bone_values = _cell_values(BONE_GRID, block, bones, rng)
    air_spaces = _place_parts(AIR_SPACES, patients.air_spaces[groups])
    bubbles = _place_gas(patients.gas[groups])
    air_values = _cell_values(AIR_GRID, block, [*air_spaces, *bubbles], rng)
    return np.concatenate([bone_values, air_values], 1)


@dataclass(frozen=True)
class SliceBlock:
    """A block of slices: their place in the body, and the outline of the body there.

    `z` is the place in the standard body, `frame` the scale of the skeleton, `width` and `depth`
    are the half-axes of the outline. `offset` (slices, 2) leads from the center of the body to
    that of the scanner, and `phase` turns the ribs.
    """

    z: Array
    frame: Array
    width: Array
    depth: Array
    offset: Array
    phase: Array

    @property
    def grid_radius(self) -> Array:
        """The radius of the polar grid, which just covers the body."""
        return np.maximum(self.width, self.depth)


def _make_block(
    location: Array, groups: Index, patients: Patients, rng: np.random.Generator
) -> SliceBlock:
    # People breathe and move: the slice is not quite where the scanner's table was.
    moved = location + rng.normal(0, 0.02, len(location))
    z = 50 + (moved - 50) * patients.stretch[groups] + patients.shift[groups]
    size = patients.frame[groups] * patients.flesh[groups]
    places, half_widths, half_depths = np.array(OUTLINE, dtype=np.float64).T
    jitter = rng.normal(0, 0.02, (len(location), 2))
    return SliceBlock(
        z=z,
        frame=patients.frame[groups],
        width=np.interp(z, places, half_widths) * size,
        depth=np.interp(z, places, half_depths) * size * patients.flatness[groups],
        offset=patients.tilt[groups] * (z - 40)[:, None] + jitter,
        # Ribs descend, so that the pieces in a slice wander around it.
        phase=patients.phase[groups] + 3.0 * z,
    )


@dataclass(frozen=True)
class Ellipses:
    """One part of the body in every slice of a block: centers and radii (slices, 3), and its look.

    `lean`, `hollow` and `beads` are those of `Part`.
    """

    center: Array
    radii: Array
    lean: tuple[float, float] = (0.0, 0.0)
    hollow: float = 0.0
    beads: int = 0


def _place_parts(table: tuple[Part, ...], deviations: Array) -> list[Ellipses]:
    result = []
    for number, part in enumerate(table):
        for side in (1, -1) if part.paired else (1,):
            result.append(_place_part(part, side, deviations[:, number]))
    return result


def _place_part(part: Part, side: int, deviation: Array) -> Ellipses:
    middle, half = (part.top + part.bottom) / 2, (part.bottom - part.top) / 2
    center = np.array([side * part.x, part.y, middle]) + deviation[:, :3]
    radii = np.array([part.width, part.depth, half]) * deviation[:, 3:]
    return Ellipses(center, radii, (side * part.lean_x, part.lean_y), part.hollow, part.beads)


def _place_gas(bubbles: Array) -> list[Ellipses]:
    return [Ellipses(bubbles[:, i, :3], bubbles[:, i, 3:]) for i in range(N_GAS_BUBBLES)]


def _cell_values(
    grid: PolarGrid, block: SliceBlock, parts: list[Ellipses], rng: np.random.Generator
) -> Float32Array:
    """The values in [0, 1] of all cells, sector by sector from the center outwards."""
    points = _sample_points(grid)
    cover = np.zeros((len(block.z), len(points)), np.float32)
    for part in parts:
        _add_part(cover, part, block, points)
    side = grid.samples_per_side
    cells = cover.reshape(-1, grid.sectors, side, grid.shells, side).mean((2, 4))
    noise = rng.normal(1, 0.02, cells.shape).astype(np.float32).clip(0.8, 1.2)
    area = cells * noise * _cell_areas(grid, block)
    inside = area / (area + grid.saturation)
    values = np.where(_is_outside(grid, block), OUTSIDE_BODY_VALUE, inside)
    return values.reshape(len(values), -1)


def _sample_points(grid: PolarGrid) -> Points:
    """The sample points as complex numbers in the unit disc, ray by ray."""
    rays, rings = grid.sectors * grid.samples_per_side, grid.shells * grid.samples_per_side
    angle, radius = (np.arange(rays) + 0.5) * (2 * np.pi / rays), (np.arange(rings) + 0.5) / rings
    points: Points = (radius * np.exp(1j * angle)[:, None]).astype(np.complex64).ravel()
    return points


def _cell_areas(grid: PolarGrid, block: SliceBlock) -> Float32Array:
    """The areas of the cells in square cm, of shape (slices, 1, shells)."""
    rings = np.diff(np.linspace(0, 1, grid.shells + 1) ** 2) * np.pi / grid.sectors
    return (block.grid_radius[:, None, None] ** 2 * rings).astype(np.float32)


def _is_outside(grid: PolarGrid, block: SliceBlock) -> NDArray[np.bool_]:
    """Which cells begin beyond the outline of the body."""
    angle = (np.arange(grid.sectors) + 0.5) * (2 * np.pi / grid.sectors)
    across, along = np.cos(angle) / block.width[:, None], np.sin(angle) / block.depth[:, None]
    border = 1 / np.hypot(across, along) / block.grid_radius[:, None]
    begins: NDArray[np.bool_] = np.arange(grid.shells) / grid.shells >= border[:, :, None]
    return begins


def _add_part(cover: Float32Array, part: Ellipses, block: SliceBlock, points: Points) -> None:
    """Cover the sample points that lie in a part, in the slices that touch it."""
    height = (block.z - part.center[:, 2]) / part.radii[:, 2]
    touched = np.flatnonzero(np.abs(height) < 0.999)
    if not len(touched):
        return
    height = height[touched]
    # The fourth power makes the ends blunt: most parts are more like cylinders than like balls.
    size = np.sqrt(1 - height**4) * block.frame[touched]
    distance = _distance_in_radii(part, block, touched, height, size, points)
    inside = ((1 - distance) / SOFT_BORDER_WIDTH + 0.5).clip(0, 1)
    if part.hollow:
        inside *= ((distance - part.hollow) / SOFT_BORDER_WIDTH + 0.5).clip(0, 1)
    if part.beads:
        turn = part.beads * np.angle(points) + block.phase[touched, None].astype(np.float32)
        inside *= (0.5 + 1.5 * np.cos(turn)).clip(0, 1)
    cover[touched] = np.maximum(cover[touched], inside)


def _distance_in_radii(
    part: Ellipses, block: SliceBlock, touched: Index, height: Array, size: Array, points: Points
) -> Float32Array:
    """How far the sample points lie from the center of a part, in units of its radii."""
    result = np.zeros((len(touched), len(points)), np.float32)
    for axis, unit in enumerate((points.real, points.imag)):
        center = (part.center[touched, axis] + part.lean[axis] * height) * block.frame[touched]
        radius = part.radii[touched, axis] * size
        scale = (block.grid_radius[touched] / radius).astype(np.float32)
        shift = ((center + block.offset[touched, axis]) / radius).astype(np.float32)
        result += (scale[:, None] * unit - shift[:, None]) ** 2
    return np.sqrt(result, out=result)
