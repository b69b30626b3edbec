"""Body phantoms: what a CT slice's polar histograms would be if people were made of ellipsoids.

A person is a table of bones and air spaces along the axis of the body, from 0 (top of the head)
to 100 (soles). Each patient has a build, and every part its own deviation. A slice counts bone
in 24 sectors of 10 shells and air in 18 sectors of 8 shells, the layout of the real descriptors
(Graf et al. 2011); cells outside the body hold -0.25. Lengths are in cm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Index = NDArray[np.int64]
Points = NDArray[np.complex64]

PATIENTS = 97
WHOLE_BODY = 27  # patients scanned from head to feet; the others are scanned in part
LOWEST, HIGHEST = 1.738733, 97.489115  # the real targets' range
OUTSIDE = -0.25
BLOCK = 512  # slices at a time, so that the sample points of a block stay in the cache
EDGE = 0.15  # width of a part's soft border, in its radius
GAS = 6  # bubbles of gas in the bowel of every patient


class Part(NamedTuple):
    """An ellipsoid between two places of the axis; `lean` moves its centre from end to end."""

    top: float
    bottom: float
    x: float
    y: float
    width: float
    depth: float
    lean_x: float = 0.0
    lean_y: float = 0.0
    hollow: float = 0.0  # share of the radius that is empty, for shells such as the skull
    beads: int = 0  # how many pieces a slice cuts the shell into, as it cuts the ribs
    paired: bool = False  # there is another one at -x


BONES = (
    Part(0.5, 11, 0, 0, 7.2, 9, hollow=0.82),  # skull
    Part(6, 11, 3.5, 5, 1.8, 1.8, 0.5, -1, hollow=0.4, paired=True),  # face
    Part(9, 14, 3.6, 4, 1.1, 3.2, -1.0, 1.5, paired=True),  # jaw
    Part(10, 18.5, 0, -2, 1.6, 2.0, 0, -1.5),  # neck
    Part(17, 36.5, 0, -6.5, 2.2, 2.6, 0, -1),  # chest's spine
    Part(36, 46, 0, -5.0, 2.7, 3.0, 0, 1),  # loin's spine
    Part(45, 51, 0, -7.5, 4.5, 2.2, 0, -1),  # sacrum
    Part(17, 20, 8, 4, 8, 1.0, 1, -1, paired=True),  # collar bone
    Part(18, 27, 11, -8, 5, 1.0, -2, -0.5, paired=True),  # shoulder blade
    Part(17.5, 34.5, 19, 0, 1.9, 1.9, 4, 0, paired=True),  # upper arm
    Part(20, 31, 0, 8.5, 2.2, 0.9, 0, 1.5),  # breast bone
    Part(18, 39, 0, 0, 14, 10, hollow=0.86, beads=9),  # ribs
    Part(42, 50, 9.5, -2, 4.5, 1.5, -2, 4, hollow=0.3, paired=True),  # hip bone
    Part(48.5, 53.5, 5, 3, 3.0, 1.4, -2, -4, hollow=0.3, paired=True),  # seat
    Part(48.5, 52.5, 9.5, 0, 2.6, 2.6, 2, 0, paired=True),  # head of the thigh bone
    Part(51, 73, 10, 0.5, 1.7, 1.7, -3, -1, hollow=0.3, paired=True),  # thigh
    Part(70, 75, 7, -0.5, 4.0, 3.4, -0.3, 0, paired=True),  # knee
    Part(70.5, 73, 7, 4.5, 2.0, 1.0, paired=True),  # knee cap
    Part(73, 96, 6, 1.0, 1.6, 1.6, -1, -1, hollow=0.3, paired=True),  # shin
    Part(74, 96.5, 9, -1.2, 0.8, 0.8, -1, 0, paired=True),  # calf
    Part(94, 99.5, 5.5, 1, 2.6, 5.5, 0, 3, hollow=0.3, paired=True),  # foot
)
AIRS = (
    Part(5, 9.5, 0, 6, 2.2, 2.0, 0, 0.5),  # nose
    Part(7.5, 10, 3.6, 4, 1.4, 1.6, paired=True),  # sinuses
    Part(9, 14, 0, 2.5, 1.0, 1.4, 0, -1.5),  # throat
    Part(13, 26, 0, 1.0, 0.9, 0.9, 0, -2),  # windpipe
    Part(18.5, 35, 7, -0.5, 4.2, 6.0, 1.2, -0.8, paired=True),  # lungs
    Part(30, 37, 8, 0.5, 3.2, 4.5, 1.2, -2),  # left lung's base
    Part(34, 39, 5, 4, 3.2, 1.8, -2, 1),  # stomach
    Part(47, 52, 0, -4.5, 1.2, 1.2, 0, -2),  # rectum
)
ALONG = (0, 3, 7, 12, 15, 18, 22, 30, 38, 44, 50, 56, 65, 73, 80, 88, 95, 100)
HALF_WIDTH = (3, 7, 8, 7.5, 6.5, 15, 22, 20, 17, 17.5, 19, 18, 14.5, 11.5, 11.5, 9.5, 8.5, 8)
HALF_DEPTH = (3, 8.5, 10, 9.5, 6.5, 8.5, 10.5, 12, 11.5, 11, 11.5, 10, 8.5, 7, 6.5, 5.5, 7, 10)


class Grid(NamedTuple):
    """Polar cells for one kind of tissue, with `fine` x `fine` sample points in each."""

    sectors: int
    shells: int
    saturation: float  # area in square cm at which a cell's value is one half
    fine: int = 3


BONE_GRID = Grid(24, 10, 0.3)
AIR_GRID = Grid(18, 8, 0.02)
FEATURES = BONE_GRID.sectors * BONE_GRID.shells + AIR_GRID.sectors * AIR_GRID.shells


@dataclass(frozen=True)
class Patients:
    """The build of every patient, and how every part of theirs deviates from the table."""

    frame: Array
    flesh: Array
    flatness: Array
    stretch: Array
    shift: Array
    tilt: Array
    phase: Array
    bones: Array  # (patients, parts, 6): shifts in x, y, z and factors of the three radii
    airs: Array
    gas: Array  # (patients, bubbles, 6): place and radii


def draw_patients(rng: np.random.Generator) -> Patients:
    """The patients of one simulated study."""

    def about(mean: float, deviation: float, *shape: int) -> Array:
        return rng.normal(mean, deviation, (PATIENTS, *shape))

    return Patients(
        frame=about(1, 0.06).clip(0.8, 1.2),
        flesh=about(1.05, 0.09).clip(0.85, 1.4),
        flatness=about(1, 0.06).clip(0.85, 1.15),
        stretch=about(1, 0.03),
        shift=about(0, 1.5),
        tilt=about(0, 0.03, 2),
        phase=rng.uniform(0, 2 * np.pi, PATIENTS),
        bones=_deviations(rng, len(BONES)),
        airs=_deviations(rng, len(AIRS)),
        gas=_bubbles(rng),
    )


def _deviations(rng: np.random.Generator, parts: int) -> Array:
    places = rng.normal(0, 0.8, (PATIENTS, parts, 3))
    factors = rng.normal(1, 0.12, (PATIENTS, parts, 3)).clip(0.7, 1.3)
    return np.concatenate([places, factors], -1)


def _bubbles(rng: np.random.Generator) -> Array:
    low, high = (-11, -3, 36, 1, 1, 0.6), (11, 8, 49, 3.2, 2.4, 1.8)
    return rng.uniform(low, high, (PATIENTS, GAS, 6))


def draw_slices(rng: np.random.Generator, rows: int) -> tuple[Array, Index]:
    """Where the slices are on the axis and whose they are, patient by patient from the top."""
    whole = np.arange(PATIENTS) < WHOLE_BODY
    rng.shuffle(whole)
    # Half of the shorter scans end below the chest, the other half below the pelvis.
    chest = rng.random(PATIENTS) < 0.5
    top = np.where(whole, rng.normal(7.3, 2.0, PATIENTS), rng.normal(27, 2, PATIENTS))
    centre, spread = np.where(whole, 92.3, np.where(chest, 38, 57)), np.where(whole, 2.5, 3)
    bottom = rng.normal(centre, spread).clip(top + 2, HIGHEST)
    top = top.clip(LOWEST)
    # Long scans have about 17 slices in a unit of the axis, short ones about 10.
    sizes = _shares((bottom - top) * np.where(whole, 17.2, 10.2), rows)
    groups = np.repeat(np.arange(PATIENTS), sizes)
    position = np.arange(rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    fraction = (position + 0.5) / sizes[groups]
    return top[groups] + fraction * (bottom - top)[groups], groups


def _shares(weights: Array, rows: int) -> Index:
    """Split the rows in proportion to the weights, at least one for each."""
    ends = np.cumsum(weights) / weights.sum() * (rows - len(weights))
    sizes: Index = 1 + np.diff(np.rint(ends).astype(np.int64), prepend=0)
    return sizes


def features(
    location: Array, groups: Index, patients: Patients, rng: np.random.Generator
) -> Single:
    """The polar histograms (slices, 384) of slices at `location` of the patients `groups`."""
    result = np.empty((len(location), FEATURES), np.float32)
    for start in range(0, len(location), BLOCK):
        block = slice(start, start + BLOCK)
        result[block] = _block(location[block], groups[block], patients, rng)
    return result


def _block(z: Array, who: Index, patients: Patients, rng: np.random.Generator) -> Single:
    cut = _cut(z, who, patients, rng)
    bone = _histogram(BONE_GRID, cut, _parts(BONES, patients.bones[who]), rng)
    inside = [*_parts(AIRS, patients.airs[who]), *_gas(patients.gas[who])]
    air = _histogram(AIR_GRID, cut, inside, rng)
    return np.concatenate([bone, air], 1)


@dataclass(frozen=True)
class Cut:
    """A block of slices: where they cut the body, and the body's outline there."""

    z: Array
    frame: Array
    width: Array
    depth: Array
    offset: Array  # (slices, 2): the scanner's centre is not the body's
    phase: Array

    @property
    def reach(self) -> Array:
        """Radius of the polar grid."""
        return np.maximum(self.width, self.depth)


def _cut(z: Array, who: Index, patients: Patients, rng: np.random.Generator) -> Cut:
    # People breathe and move: the slice is not quite where the table was.
    moved = z + rng.normal(0, 0.02, len(z))
    place = 50 + (moved - 50) * patients.stretch[who] + patients.shift[who]
    size = patients.frame[who] * patients.flesh[who]
    return Cut(
        z=place,
        frame=patients.frame[who],
        width=np.interp(place, ALONG, HALF_WIDTH) * size,
        depth=np.interp(place, ALONG, HALF_DEPTH) * size * patients.flatness[who],
        offset=patients.tilt[who] * (place - 40)[:, None] + rng.normal(0, 0.02, (len(z), 2)),
        # Ribs descend, so that the pieces in a slice wander around it.
        phase=patients.phase[who] + 3.0 * place,
    )


@dataclass(frozen=True)
class Ellipses:
    """One part in every slice of a block: its ellipsoids, and their look."""

    centre: Array  # (slices, 3)
    radii: Array
    lean: tuple[float, float] = (0.0, 0.0)
    hollow: float = 0.0
    beads: int = 0


def _parts(table: tuple[Part, ...], deviations: Array) -> list[Ellipses]:
    result = []
    for number, part in enumerate(table):
        for side in (1, -1) if part.paired else (1,):
            result.append(_placed(part, side, deviations[:, number]))
    return result


def _placed(part: Part, side: int, deviation: Array) -> Ellipses:
    middle, half = (part.top + part.bottom) / 2, (part.bottom - part.top) / 2
    centre = np.array([side * part.x, part.y, middle]) + deviation[:, :3]
    radii = np.array([part.width, part.depth, half]) * deviation[:, 3:]
    return Ellipses(centre, radii, (side * part.lean_x, part.lean_y), part.hollow, part.beads)


def _gas(bubbles: Array) -> list[Ellipses]:
    return [Ellipses(bubbles[:, i, :3], bubbles[:, i, 3:]) for i in range(GAS)]


def _histogram(grid: Grid, cut: Cut, parts: list[Ellipses], rng: np.random.Generator) -> Single:
    """Values in [0, 1] of every cell, sector by sector from the centre outwards."""
    points = _points(grid)
    cover = np.zeros((len(cut.z), len(points)), np.float32)
    for part in parts:
        _add(cover, part, cut, points)
    cells = cover.reshape(-1, grid.sectors, grid.fine, grid.shells, grid.fine).mean((2, 4))
    noise = rng.normal(1, 0.02, cells.shape).astype(np.float32).clip(0.8, 1.2)
    area = cells * noise * _areas(grid, cut)
    values = np.where(_outside(grid, cut), OUTSIDE, area / (area + grid.saturation))
    return values.reshape(len(values), -1)


def _points(grid: Grid) -> Points:
    """The sample points as complex numbers in the unit disc, ray by ray."""
    rays, rings = grid.sectors * grid.fine, grid.shells * grid.fine
    angle, radius = (np.arange(rays) + 0.5) * (2 * np.pi / rays), (np.arange(rings) + 0.5) / rings
    points: Points = (radius * np.exp(1j * angle)[:, None]).astype(np.complex64).ravel()
    return points


def _areas(grid: Grid, cut: Cut) -> Single:
    """Area of the cells in square cm, (slices, 1, shells)."""
    rings = np.diff(np.linspace(0, 1, grid.shells + 1) ** 2) * np.pi / grid.sectors
    return (cut.reach[:, None, None] ** 2 * rings).astype(np.float32)


def _outside(grid: Grid, cut: Cut) -> NDArray[np.bool_]:
    """Which cells begin beyond the outline of the body."""
    angle = (np.arange(grid.sectors) + 0.5) * (2 * np.pi / grid.sectors)
    across, along = np.cos(angle) / cut.width[:, None], np.sin(angle) / cut.depth[:, None]
    border = 1 / np.hypot(across, along) / cut.reach[:, None]
    begins: NDArray[np.bool_] = np.arange(grid.shells) / grid.shells >= border[:, :, None]
    return begins


def _add(cover: Single, part: Ellipses, cut: Cut, points: Points) -> None:
    """Cover what lies in the part, in the slices that meet it."""
    height = (cut.z - part.centre[:, 2]) / part.radii[:, 2]
    met = np.flatnonzero(np.abs(height) < 0.999)
    if not len(met):
        return
    height = height[met]
    # Blunt ends: most parts are rather cylinders than balls.
    size = np.sqrt(1 - height**4) * cut.frame[met]
    distance = _distance(part, cut, met, height, size, points)
    inside = ((1 - distance) / EDGE + 0.5).clip(0, 1)
    if part.hollow:
        inside *= ((distance - part.hollow) / EDGE + 0.5).clip(0, 1)
    if part.beads:
        turn = part.beads * np.angle(points) + cut.phase[met, None].astype(np.float32)
        inside *= (0.5 + 1.5 * np.cos(turn)).clip(0, 1)
    cover[met] = np.maximum(cover[met], inside)


def _distance(
    part: Ellipses, cut: Cut, met: Index, height: Array, size: Array, points: Points
) -> Single:
    """How far the sample points lie from the part's centre, in its radii."""
    result = np.zeros((len(met), len(points)), np.float32)
    for axis, unit in enumerate((points.real, points.imag)):
        centre = (part.centre[met, axis] + part.lean[axis] * height) * cut.frame[met]
        radius = part.radii[met, axis] * size
        scale = (cut.reach[met] / radius).astype(np.float32)
        shift = ((centre + cut.offset[met, axis]) / radius).astype(np.float32)
        result += (scale[:, None] * unit - shift[:, None]) ** 2
    return np.sqrt(result, out=result)
