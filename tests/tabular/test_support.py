"""What targets show of the values that there can be."""

import numpy as np
import pytest

from softbins import Bins
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.support import Support

RANDOM = np.random.default_rng(0)
NORMAL = RANDOM.normal(size=1000)


def support(y, lower=None, upper=None):
    return Support.of(np.asarray(y, dtype=float), lower, upper, DEFAULTS.support)


KINDS = {
    "both signs": (NORMAL, Support()),
    "positive": (np.exp(NORMAL), Support(low=0.0)),
    "negative": (-np.exp(NORMAL), Support(high=0.0)),
    "half zeros": (np.maximum(NORMAL, 0), Support(low=0.0, atoms=(0.0,))),
    "clipped above": (np.minimum(NORMAL, 1.5), Support(high=1.5, atoms=(1.5,))),
    "a spike between": (np.where(NORMAL > 0.9, 0.25, NORMAL), Support(atoms=(0.25,))),
    "few have the smallest value": (np.append(NORMAL, [-5.0] * 4), Support()),
    "counts": (RANDOM.poisson(3, 1000), Support(low=0.0, step=1.0)),
    "two values": (np.arange(50) % 2, Support(low=0.0, high=1.0, step=1.0)),
    "halves": (RANDOM.integers(-9, 9, 1000) / 2, Support(low=-4.5, high=4.0, step=0.5)),
    "constant": (np.full(20, 7.0), Support(low=7.0, high=7.0, atoms=(7.0,))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_targets_show(kind):
    y, expected = KINDS[kind]
    assert support(y) == expected


def test_decimals_are_multiples_of_a_tenth():
    found = support(RANDOM.integers(0, 30, 500) / 10)
    assert found.step == pytest.approx(0.1)


def test_thousands_of_whole_numbers_are_no_list():
    assert support(RANDOM.integers(0, 10_000, 1000)).step is None
    assert support([0.0, 1.0, 1e6]).step is None


def test_bounds_that_are_known_come_first():
    found = support(np.maximum(NORMAL, 0), lower=-2.0, upper=9.0)
    assert (found.low, found.high, found.atoms) == (-2.0, 9.0, (0.0,))


def test_bins_end_at_bounds_and_have_the_atoms():
    cut = Support(low=0.0, high=2.0, atoms=(0.0, 1.1)).restrict(Bins.uniform(-1.0, 3.0, 8))
    assert cut.edges.tolist() == [0.0, 0.0, 0.5, 1.0, 1.1, 1.1, 1.5, 2.0]


def test_no_sliver_is_left_beside_a_bound():
    cut = Support(low=0.49, high=1.51).restrict(Bins.uniform(-1.0, 3.0, 8))
    assert cut.edges.tolist() == [0.49, 1.0, 1.51]


def test_bounds_beyond_the_bins_change_nothing():
    bins = Bins.uniform(-1.0, 3.0, 8)
    assert Support(low=-5.0, high=7.0).restrict(bins) == bins


@pytest.mark.parametrize(
    ("bounds", "first", "last"),
    [((0.0, None), 0, 11), ((None, None), 0, 11), ((0.0, 10.0), 0, 10), ((-30.0, 10.5), 0, 10)],
)
def test_a_lattice_has_a_cell_for_each_value_and_room_for_some_more(bounds, first, last):
    low, high = bounds
    y = np.arange(1.0, 11.0)  # a tenth of ten values is one
    cells = Support(low=low, high=high, step=1.0).lattice(y, margin=0.1)
    assert cells.centers.tolist() == list(range(first, last + 1))
    assert cells.step == 1.0


def test_a_lattice_of_one_value_has_two_cells():
    assert Support(low=3.0, high=3.0, step=1.0).lattice(np.array([3.0]), 0.1).count == 2
