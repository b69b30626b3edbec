"""A histogram is indexed, counted and iterated like a tensor of its batch shape."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.distributions import Independent, TransformedDistribution, kl_divergence
from torch.distributions.transforms import AffineTransform

from softbins import Bins, Histogram
from tests.instances import BINS

MASK = [True, False, True, True]
INDICES = {
    "int": 1,
    "last": -1,
    "numpy int": np.int64(2),
    "slice": slice(1, 3),
    "steps": slice(None, None, 2),
    "nothing": slice(0, 0),
    "list": [2, 0, 2],
    "mask": torch.tensor(MASK),
    "numpy mask": np.array(MASK),
    "column of a frame": pd.Series(MASK),
    "index array": np.array([3, 1]),
    "small index array": np.array([3, 1], dtype=np.uint8),
    "index tensor": torch.tensor([[0, 1], [2, 3]]),
    "two dimensions": (1, slice(None)),
    "one of each": (slice(None), 2),
    "ellipsis": (..., 0),
    "all": ...,
    "new dimension": None,
}


def four_by_three(bins):
    torch.manual_seed(0)
    return Histogram(bins, logits=torch.randn(4, 3, bins.count, dtype=torch.float64))


@pytest.mark.parametrize("bins", BINS.values(), ids=BINS)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_an_index_picks_what_it_picks_of_a_tensor(bins, index):
    histogram = four_by_three(bins)
    found = histogram[index]
    plain = np.array(index).astype(int) if "uint8" in repr(index) else index
    plain = plain.to_numpy(copy=True) if isinstance(index, pd.Series) else plain
    assert found.bins == bins
    assert found.batch_shape == histogram.mean[plain].shape
    assert torch.allclose(found.mean, histogram.mean[plain])
    assert torch.allclose(found.variance, histogram.variance[plain])
    assert found.probs.shape == (*found.batch_shape, bins.count)


def test_length_and_iteration_go_over_the_first_dimension():
    histogram = four_by_three(BINS["few"])
    rows = list(histogram)
    assert len(histogram) == len(rows) == 4
    assert all(row.batch_shape == (3,) for row in rows)
    assert torch.allclose(torch.stack([row.mean for row in rows]), histogram.mean)
    assert list(histogram[:0]) == []


@pytest.mark.parametrize("index", [4, -5, (0, 0, 0), (0, 0, slice(None)), [0, 9]])
def test_no_index_reaches_beyond_the_batch_or_into_the_bins(index):
    with pytest.raises(IndexError):
        four_by_three(BINS["few"])[index]


def test_a_single_histogram_has_no_length_and_no_rows():
    one = four_by_three(BINS["few"])[0, 0]
    with pytest.raises(TypeError, match="single histogram"):
        len(one)
    with pytest.raises(TypeError, match="single histogram"):
        iter(one)
    with pytest.raises(IndexError):
        one[0]
    assert one[...].batch_shape == ()
    # Whether there is a histogram is not a question of its length.
    assert one
    assert four_by_three(BINS["few"])[:0]


def test_gradients_reach_what_was_picked_and_nothing_else():
    logits = torch.randn(4, 5, requires_grad=True)
    Histogram(Bins.uniform(0, 1, 5), logits=logits)[1:3].mean.sum().backward()
    assert (logits.grad.abs().sum(-1) > 0).tolist() == [False, True, True, False]


def test_the_machinery_of_torch_takes_it_as_before():
    histogram = four_by_three(BINS["equal"])
    y = torch.rand(4, 3, dtype=torch.float64)
    independent = Independent(histogram, 1)
    assert torch.allclose(independent.log_prob(y), histogram.log_prob(y).sum(-1))
    moved = TransformedDistribution(histogram, [AffineTransform(1.0, 2.0)])
    assert torch.allclose(moved.log_prob(2 * y + 1), histogram.log_prob(y) - np.log(2))
    assert histogram[0].expand((2, 3)).batch_shape == (2, 3)
    zero = kl_divergence(histogram, histogram[1]).abs() < 1e-12
    assert zero.all(-1).tolist() == [False, True, False, False]
    assert histogram[1:].sample((7,)).shape == (7, 3, 3)
