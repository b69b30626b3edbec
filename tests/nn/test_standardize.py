import math

import pytest
import torch

from softbins.nn import standardize
from softbins.nn.standardize import moments

X = torch.tensor([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0], [11.0, 5.0]])


def test_each_member_has_the_moments_of_its_rows():
    mean, deviation = moments(X, [torch.tensor([0, 1]), torch.tensor([1, 2, 3])], None)
    assert mean.tolist() == [[2.0, 5.0], [pytest.approx(19 / 3), 5.0]]
    # Of 3, 5 and 11: their squares are 155 together.
    assert deviation.tolist() == [[1.0, 0.0], [pytest.approx(math.sqrt(155 / 3 - 361 / 9)), 0.0]]


def test_a_row_of_weight_three_is_three_rows():
    weight = torch.tensor([3.0, 1.0, 0.0, 1.0])
    weighted = moments(X, [torch.arange(4)], weight)
    repeated = moments(X, [torch.tensor([0, 0, 0, 1, 3])], None)
    for one, other in zip(weighted, repeated, strict=True):
        torch.testing.assert_close(one, other)


def test_rounding_gives_a_constant_column_no_spread():
    _, deviation = moments(torch.full((1000, 1), 0.1), [torch.arange(1000)], torch.rand(1000))
    assert deviation.item() == 0.0


def test_members_that_share_their_rows_share_the_work(monkeypatch):
    computed, original = [], standardize._moments_of_rows

    def counted(x, index, *rest):
        computed.append(index)
        return original(x, index, *rest)

    monkeypatch.setattr(standardize, "_moments_of_rows", counted)
    some, others = torch.tensor([0, 1]), torch.tensor([2, 3])
    mean, _ = moments(X, [some, others, some, some.clone()], None)
    assert len(computed) == 2
    assert mean[:, 0].tolist() == [2.0, 8.0, 2.0, 2.0]


def test_many_rows_are_read_in_chunks():
    x = torch.randn(standardize.CHUNK_ROWS + 7, 2, generator=torch.Generator().manual_seed(0))
    mean, deviation = moments(x, [torch.arange(len(x))], None)
    torch.testing.assert_close(mean[0], x.mean(0), atol=1e-5, rtol=0)
    torch.testing.assert_close(deviation[0], x.std(0, correction=0))
