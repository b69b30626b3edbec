"""The pieces of the array mathematics, in float64 with NumPy as the array library."""

import numpy as np
import torch

from softbins._core.array_bins import array_bins
from softbins._core.array_weights import scaled_erfc
from softbins.bins import Bins
from tests.instances import BINS


def test_the_scaled_erfc_is_exact_from_0_to_the_end_of_float64():
    x = np.concatenate([np.linspace(0, 30, 3001), np.logspace(1, 300, 1000)])
    exact = torch.special.erfcx(torch.tensor(x)).numpy()
    np.testing.assert_allclose(scaled_erfc(np, x), exact, rtol=1e-13)


def test_a_distance_has_the_right_sign_where_float32_rounds_the_edge():
    bins = Bins.uniform(1922.0, 2011.0, 100)
    edges = array_bins(bins, "float32").edges
    near = np.stack(
        [np.nextafter(edges.main, np.float32(side)) for side in (0, 1e9)] + [edges.main]
    )
    for y in near.astype(np.float32):
        found = edges.distance_from(np, y, "float32")
        exact = bins.edges.numpy() - y.astype(np.float64)
        assert (np.sign(found) == np.sign(exact)).all()
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-12)


def test_bins_are_made_into_arrays_once():
    assert array_bins(BINS["equal"], "float32") is array_bins(Bins.uniform(0, 1, 100), "float32")
