"""Simulated stand-ins for CT Position and Song Year: same size, layout and difficulty, no files.

They are for trying the whole pipeline and for measuring what it costs. Results on them say nothing
about the real data, and `source` says so wherever they are shown.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from softbins.paper.data import phantoms
from softbins.paper.data.datasets import RawDataset

Array = NDArray[np.float64]

N_CT_ROWS = 53500
N_SONG_ROWS = 515345
# Songs are made in blocks of this many, which bounds the memory.
SONGS_PER_BLOCK = 32768


def simulate_ct(n_rows: int = N_CT_ROWS, seed: int = 0) -> RawDataset:
    """Simulate slices of 97 body phantoms, patient by patient, with their place on the axis.

    The 240 features of bone and 144 of air are polar histograms as in the real file, whose column
    names they bear. Fewer rows mean fewer slices of each patient. The places lie between 0 (top of
    the head) and 100 (soles), and `groups` are the patients.
    """
    if n_rows < phantoms.N_PATIENTS:
        least = phantoms.N_PATIENTS
        raise ValueError(f"n_rows: need at least {least}, one for each patient; got {n_rows}")
    rng = _make_generator(seed)
    patients = phantoms.draw_patients(rng)
    y, groups = phantoms.draw_slices(rng, n_rows)
    X = phantoms.polar_histograms(y, groups, patients, rng)
    names = [f"value{i}" for i in range(phantoms.N_FEATURES)]
    return RawDataset(X, y, names, groups, f"simulated body phantoms (seed {seed})")


def _make_generator(seed: int) -> np.random.Generator:
    if seed < 0:
        raise ValueError(f"seed: need 0 or more, got {seed}")
    return np.random.default_rng(seed)


# Songs are described by the averages and covariances of 12 timbre dimensions. The next four arrays
# hold, for each dimension, the mean and the deviation of the averages, and the mean and the
# deviation of the logarithm of the variances. They are rounded from a sample of the real songs.

AVERAGE_MEAN = np.array([43.4, 2.0, 8.0, 1.2, -6.4, -9.6, -2.4, -1.8, 3.6, 1.9, -0.1, 2.6])
AVERAGE_DEVIATION = np.array([6.1, 52.0, 35.4, 16.4, 22.5, 12.9, 14.3, 8.1, 10.6, 6.6, 4.4, 8.2])
LOG_VARIANCE_MEAN = np.array([3.3, 7.6, 7.4, 7.1, 6.7, 6.6, 6.3, 6.1, 5.9, 5.7, 5.5, 5.6])
LOG_VARIANCE_DEVIATION = np.array(
    [0.65, 0.65, 0.62, 0.63, 0.48, 0.62, 0.49, 0.53, 0.48, 0.48, 0.57, 0.46]
)
N_TIMBRES = 12
N_COVARIANCES = N_TIMBRES * (N_TIMBRES + 1) // 2
# The real file lists the covariances diagonal by diagonal, beginning with the variances.
TIMBRE_PAIRS = np.array(
    [(i, i + gap) for gap in range(1, N_TIMBRES) for i in range(N_TIMBRES - gap)]
).T
# Songs have factors in common, such as loudness, brightness and rhythm, from which each timbre
# takes this much of its unit length.
N_FACTORS = 8
FACTOR_LOADING = 0.8

# The share of the real songs that are from this year or an earlier one.
CUMULATIVE_SHARES = {
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

# A song's year is a sum of three parts: one linear in its timbres, one of products of timbres, and
# one that cannot be known. The weights were chosen by measuring, so that linear regression and a
# network have about the errors that they have on the real songs.
LINEAR_WEIGHT, PRODUCT_WEIGHT = 0.50, 0.40
# All seeds are samples of one population, whose loadings come from this seed.
POPULATION_SEED = 1922


def simulate_song(n_rows: int = N_SONG_ROWS, seed: int = 0) -> RawDataset:
    """Simulate songs with 12 timbre averages, 78 timbre covariances, and a year, 1922 to 2011.

    The rows are independent of each other, so that any of them may serve as test rows.
    """
    if n_rows < 1:
        raise ValueError(f"n_rows: need at least 1, a dataset cannot be empty; got {n_rows}")
    rng = _make_generator(seed)
    X, y = np.empty((n_rows, N_TIMBRES + N_COVARIANCES), np.float32), np.empty(n_rows)
    for start in range(0, n_rows, SONGS_PER_BLOCK):
        block = slice(start, min(start + SONGS_PER_BLOCK, n_rows))
        X[block], y[block] = _draw_songs(block.stop - start, rng)
    names = [f"timbre_avg_{i + 1}" for i in range(N_TIMBRES)]
    names += [f"timbre_cov_{i + 1}" for i in range(N_COVARIANCES)]
    return RawDataset(X, y, names, None, f"simulated songs (seed {seed})")


def _draw_songs(n_songs: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Features (songs, 90) and years (songs,)."""
    population = np.random.default_rng(POPULATION_SEED)
    factors = rng.normal(size=(n_songs, N_FACTORS))
    level = _draw_timbres(factors, population, rng, mean_loading=0.0)
    power = _draw_timbres(factors, population, rng, mean_loading=1.2)
    averages = AVERAGE_MEAN + AVERAGE_DEVIATION * _heavier_tails(level)
    variances = np.exp(LOG_VARIANCE_MEAN + LOG_VARIANCE_DEVIATION * power)
    scale = np.sqrt(variances[:, TIMBRE_PAIRS[0]] * variances[:, TIMBRE_PAIRS[1]])
    covariances = _draw_correlations(factors, population, rng) * scale
    return np.concatenate([averages, variances, covariances], 1), _draw_years(level, power, rng)


def _draw_timbres(
    factors: Array, population: np.random.Generator, rng: np.random.Generator, mean_loading: float
) -> Array:
    """Twelve standard normals for each song, which share its factors.

    With a larger mean of the loadings they move together more.
    """
    loadings = population.normal(mean_loading, 1, (N_FACTORS, N_TIMBRES))
    loadings *= FACTOR_LOADING / np.linalg.norm(loadings, axis=0)
    own = rng.normal(0, np.sqrt(1 - FACTOR_LOADING**2), (len(factors), N_TIMBRES))
    timbres: Array = factors @ loadings + own
    return timbres


def _heavier_tails(normal: Array) -> Array:
    """Bend standard normals so that they have heavier tails and still about unit variance."""
    return np.sinh(0.5 * normal) / 0.5 / 1.15


def _draw_correlations(
    factors: Array, population: np.random.Generator, rng: np.random.Generator
) -> Array:
    """Correlations of the pairs of timbres: each timbre follows one direction to some extent."""
    usual = population.normal(0, 0.3, N_TIMBRES)
    loadings = population.normal(0, 0.45 / np.sqrt(N_FACTORS), (N_FACTORS, N_TIMBRES))
    direction = usual + factors @ loadings + rng.normal(0, 0.35, (len(factors), N_TIMBRES))
    direction /= np.sqrt(1 + direction**2)
    return direction[:, TIMBRE_PAIRS[0]] * direction[:, TIMBRE_PAIRS[1]]


def _draw_years(level: Array, power: Array, rng: np.random.Generator) -> Array:
    """Years of songs: scores of about unit variance, mapped to the real distribution of years."""
    unknown = np.sqrt(1 - LINEAR_WEIGHT**2 - PRODUCT_WEIGHT**2) * rng.normal(size=len(level))
    score = LINEAR_WEIGHT * _linear_part(level, power) + PRODUCT_WEIGHT * _product_part(level)
    knots = [NormalDist().inv_cdf(share) for share in CUMULATIVE_SHARES.values()]
    # The share of a year includes all songs before the next year begins.
    next_years = [year + 1.0 for year in CUMULATIVE_SHARES]
    years: Array = np.floor(np.interp(score + unknown, knots, next_years))
    return years.clip(FIRST_YEAR, LAST_YEAR)


# Both parts have mean 0 and variance 1, which the measured constants below see to, and hardly any
# correlation with each other.


def _linear_part(level: Array, power: Array) -> Array:
    total = level[:, 0] - 0.55 * level[:, 1] - 0.45 * level[:, 5] + 0.3 * power[:, 3]
    return total / 1.105


def _product_part(level: Array) -> Array:
    products = np.tanh(level[:, [0, 1]] * level[:, [2, 6]])
    total = products[:, 0] - products[:, 1] - 0.8 * np.abs(level[:, 5])
    return (total + 0.325) / 0.851
