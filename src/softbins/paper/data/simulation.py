"""Stand-ins for CT Position and Song Year: same size, layout and difficulty, no files needed.

They are for trying the whole pipeline and its cost. Results on them say nothing about the real
data, and `source` says so wherever they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from softbins.paper.data import phantoms

Array = NDArray[np.float64]

CT_ROWS = 53500
SONG_ROWS = 515345
SONG_BLOCK = 32768  # songs at a time, which bounds the memory


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated dataset; `groups` are the rows' patients where there are any."""

    X: NDArray[np.float32]
    y: Array
    feature_names: list[str]
    groups: NDArray[np.int64] | None
    source: str


def simulate_ct(rows: int = CT_ROWS, seed: int = 0) -> Simulated:
    """Slices of 97 body phantoms, patient by patient, with their place on the axis (0 to 100).

    The 240 features of bone and 144 of air are polar histograms as in the real file, whose column
    names they bear. Fewer rows mean fewer slices of each patient.
    """
    rng = _generator(rows, seed, least=phantoms.PATIENTS, reason="one for each patient")
    patients = phantoms.draw_patients(rng)
    y, groups = phantoms.draw_slices(rng, rows)
    X = phantoms.features(y, groups, patients, rng)
    names = [f"value{i}" for i in range(phantoms.FEATURES)]
    return Simulated(X, y, names, groups, f"simulated body phantoms (seed {seed})")


def _generator(rows: int, seed: int, least: int, reason: str) -> np.random.Generator:
    """The seed's generator, if there can be so many rows."""
    if rows < least:
        raise ValueError(f"rows: need at least {least}, {reason}; got {rows}")
    if seed < 0:
        raise ValueError(f"seed: need 0 or more, got {seed}")
    return np.random.default_rng(seed)


# Songs. Averages and covariances of 12 timbre dimensions: location, spread, and the mean and
# deviation of the logarithm of the variances, rounded from a sample of the real songs.

AVERAGE = np.array([43.4, 2.0, 8.0, 1.2, -6.4, -9.6, -2.4, -1.8, 3.6, 1.9, -0.1, 2.6])
SPREAD = np.array([6.1, 52.0, 35.4, 16.4, 22.5, 12.9, 14.3, 8.1, 10.6, 6.6, 4.4, 8.2])
LOG_VARIANCE = np.array([3.3, 7.6, 7.4, 7.1, 6.7, 6.6, 6.3, 6.1, 5.9, 5.7, 5.5, 5.6])
LOG_SPREAD = np.array([0.65, 0.65, 0.62, 0.63, 0.48, 0.62, 0.49, 0.53, 0.48, 0.48, 0.57, 0.46])
TIMBRES = 12
COVARIANCES = TIMBRES * (TIMBRES + 1) // 2
# The real file lists the covariances diagonal by diagonal, beginning with the variances.
PAIRS = np.array([(i, i + gap) for gap in range(1, TIMBRES) for i in range(TIMBRES - gap)]).T
FACTORS = 8  # what songs have in common: loudness, brightness, rhythm, ...
COMMON = 0.8  # how much of a timbre the factors explain

# Share of the real songs up to and including a year.
UP_TO = {
    1922: 0.00001,
    1940: 0.0010,
    1950: 0.0019,
    1960: 0.0076,
    1965: 0.0159,
    1970: 0.0346,
    1975: 0.0546,
    1980: 0.0823,
    1985: 0.1173,
    1990: 0.1713,
    1993: 0.2263,
    1996: 0.3080,
    1998: 0.3690,
    2000: 0.4401,
    2002: 0.5263,
    2003: 0.5794,
    2004: 0.6376,
    2005: 0.7067,
    2006: 0.7756,
    2007: 0.8536,
    2008: 0.9196,
    2009: 0.9803,
    2010: 0.99999,
}
FIRST_YEAR, LAST_YEAR = 1922, 2011

# How much of a song's year is a plain sum of its timbres and how much an interplay of them; the
# rest is unknown. Set by measuring: linear regression and a network err as on the real songs.
PLAIN, INTERPLAY = 0.50, 0.40


def simulate_song(rows: int = SONG_ROWS, seed: int = 0) -> Simulated:
    """Songs with 12 timbre averages, 78 timbre covariances, and a year from 1922 to 2011.

    Rows are independent of each other, so that any of them may serve as test rows.
    """
    rng = _generator(rows, seed, least=1, reason="a dataset cannot be empty")
    X, y = np.empty((rows, TIMBRES + COVARIANCES), np.float32), np.empty(rows)
    for start in range(0, rows, SONG_BLOCK):
        block = slice(start, min(start + SONG_BLOCK, rows))
        X[block], y[block] = _songs(block.stop - start, rng)
    names = [f"timbre_avg_{i + 1}" for i in range(TIMBRES)]
    names += [f"timbre_cov_{i + 1}" for i in range(COVARIANCES)]
    return Simulated(X, y, names, None, f"simulated songs (seed {seed})")


def _songs(rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    # The same world for every seed: seeds are samples of one population.
    world = np.random.default_rng(1922)
    factors = rng.normal(size=(rows, FACTORS))
    level = _mixed(factors, world, rng, together=0.0)
    power = _mixed(factors, world, rng, together=1.2)
    averages = AVERAGE + SPREAD * _bent(level)
    variances = np.exp(LOG_VARIANCE + LOG_SPREAD * power)
    scale = np.sqrt(variances[:, PAIRS[0]] * variances[:, PAIRS[1]])
    covariances = _correlations(factors, world, rng) * scale
    return np.concatenate([averages, variances, covariances], 1), _years(level, power, rng)


def _mixed(
    factors: Array, world: np.random.Generator, rng: np.random.Generator, together: float
) -> Array:
    """Twelve standard normals that share the factors; `together` says how much they move as one."""
    loadings = world.normal(together, 1, (FACTORS, TIMBRES))
    loadings *= COMMON / np.linalg.norm(loadings, axis=0)
    own = rng.normal(0, np.sqrt(1 - COMMON**2), (len(factors), TIMBRES))
    mixed: Array = factors @ loadings + own
    return mixed


def _bent(normal: Array) -> Array:
    """Normals with heavier tails, still of about unit variance."""
    return np.sinh(0.5 * normal) / 0.5 / 1.15


def _correlations(factors: Array, world: np.random.Generator, rng: np.random.Generator) -> Array:
    """Correlations of the pairs: what a common direction and noise of its own give a timbre."""
    usual = world.normal(0, 0.3, TIMBRES)
    loadings = world.normal(0, 0.45 / np.sqrt(FACTORS), (FACTORS, TIMBRES))
    direction = usual + factors @ loadings + rng.normal(0, 0.35, (len(factors), TIMBRES))
    direction /= np.sqrt(1 + direction**2)
    return direction[:, PAIRS[0]] * direction[:, PAIRS[1]]


def _years(level: Array, power: Array, rng: np.random.Generator) -> Array:
    """Years of songs: scores of about unit variance, read off the real distribution."""
    unknown = np.sqrt(1 - PLAIN**2 - INTERPLAY**2) * rng.normal(size=len(level))
    score = PLAIN * _plain(level, power) + INTERPLAY * _interplay(level) + unknown
    knots = [NormalDist().inv_cdf(share) for share in UP_TO.values()]
    # A year's share is that of all songs before the next year begins.
    following = [year + 1.0 for year in UP_TO]
    years: Array = np.floor(np.interp(score, knots, following)).clip(FIRST_YEAR, LAST_YEAR)
    return years


# Both have mean 0 and variance 1, by measured constants, and hardly any correlation.


def _plain(level: Array, power: Array) -> Array:
    total = level[:, 0] - 0.55 * level[:, 1] - 0.45 * level[:, 5] + 0.3 * power[:, 3]
    return total / 1.105


def _interplay(level: Array) -> Array:
    products = np.tanh(level[:, [0, 1]] * level[:, [2, 6]])
    total = products[:, 0] - products[:, 1] - 0.8 * np.abs(level[:, 5])
    return (total + 0.325) / 0.851
