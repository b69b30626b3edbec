import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import nn

from softbins.nn.adam import Adam
from softbins.nn.muon import QUINTICS, Muon, orthogonalize
from softbins.nn.settings import MuonSettings

MUON = MuonSettings(momentum=0.95, rate_factor=2.0, max_inputs_per_unit=8)

SHAPES = [(1, 1, 1), (1, 5, 5), (3, 8, 5), (3, 5, 8), (2, 40, 6), (2, 64, 64)]


def random(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def quintic(x):
    """Both in turn, of singular values."""
    for a, b, c in QUINTICS:
        x = a * x + b * x**3 + c * x**5
    return x


# The polynomials


def closest_quintic(low, high):
    """By a linear program on a grid: coefficients of x, x^3, x^5, and the distance from 1."""
    x = np.linspace(low, high, 2000)
    powers, ones = np.stack([x, x**3, x**5], 1), np.ones((len(x), 1))
    bounds = np.block([[powers, -ones], [-powers, -ones]])
    free = [(None, None)] * 3 + [(0, None)]
    found = linprog([0, 0, 0, 1], bounds, np.concatenate([ones, -ones]), bounds=free).x
    return found[:3], found[3]


def test_the_quintics_are_the_closest_to_one():
    """The second is for where the first leaves the values of [0.02, 1]."""
    first, distance = closest_quintic(0.02, 1.0)
    second, left = closest_quintic(1 - distance, 1 + distance)
    assert pytest.approx(first, rel=1e-3) == QUINTICS[0]
    assert pytest.approx(second, rel=1e-3) == QUINTICS[1]
    values = quintic(np.linspace(0.02, 1, 1000))
    assert np.abs(values - 1).max() == pytest.approx(left, abs=2e-3)
    assert left == pytest.approx(0.513, abs=1e-3)


# Orthogonalized matrices


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_vectors_stay_and_values_follow_the_quintics(shape):
    matrices = random(shape).double()
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    norms = s.pow(4).sum(-1, keepdim=True).pow(0.25)
    expected = (u * quintic(s / norms).unsqueeze(-2)) @ v
    torch.testing.assert_close(orthogonalize(matrices), expected)


@given(st.integers(0, 10**6), st.floats(-15, 15))
def test_the_size_of_a_gradient_does_not_matter(seed, exponent):
    matrices = random((2, 6, 4), seed)
    larger = orthogonalize(matrices * 10**exponent)
    torch.testing.assert_close(larger, orthogonalize(matrices), rtol=1e-4, atol=1e-4)


def test_a_gradient_of_nothing_moves_nothing():
    assert (orthogonalize(torch.zeros(2, 3, 4)) == 0).all()


def test_rows_and_columns_of_zeros_stay():
    matrices = random((2, 6, 5))
    matrices[:, 4:], matrices[:, :, 3:] = 0, 0
    found = orthogonalize(matrices)
    assert (found[:, 4:] == 0).all()
    assert (found[:, :, 3:] == 0).all()
    torch.testing.assert_close(found[:, :4, :3], orthogonalize(matrices[:, :4, :3]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_member_does_not_depend_on_the_others(shape):
    matrices = random(shape)
    for member, found in zip(matrices, orthogonalize(matrices), strict=True):
        torch.testing.assert_close(orthogonalize(member[None])[0], found)


# Steps


def test_a_step_follows_the_mean_gradient_and_the_layers_shape():
    """Rate 0.1: the matrix shrinks by 0.1 times the decay, then moves against the mean gradient."""
    start, gradients = random((2, 6, 3)), [random((2, 6, 3), seed) for seed in (1, 2)]
    matrix, bias = nn.Parameter(start.clone()), nn.Parameter(torch.zeros(2, 1, 3))
    muon = Muon([matrix, bias], [matrix], 0.1, MUON, weight_decay=0.5)
    mean, expected = torch.zeros_like(start), start
    for gradient in gradients:
        matrix.grad, bias.grad = gradient, torch.ones_like(bias)
        muon.step()
        mean = MUON.momentum * mean + (1 - MUON.momentum) * gradient
        ahead = MUON.momentum * mean + (1 - MUON.momentum) * gradient
        expected = 0.95 * expected - 0.1 * MUON.rate_factor * math.sqrt(3 / 6) * orthogonalize(
            ahead
        )
    torch.testing.assert_close(matrix.detach(), expected)
    torch.testing.assert_close(muon.state[matrix]["exp_avg"], mean)


def layers(seed=0):
    shapes = ((2, 4, 6), (2, 1, 6), (2, 6, 3))
    return [nn.Parameter(random(shape, seed + i)) for i, shape in enumerate(shapes)]


def test_other_parameters_are_adams():
    mine, theirs = layers(), layers()
    how = {"beta_2": 0.95, "epsilon": 1e-7, "weight_decay": 0.01}
    muon, adam = Muon(mine, mine[:1], 0.1, MUON, **how), Adam(theirs, 0.1, **how)
    for step in range(5):
        for values, optimizer in ((mine, muon), (theirs, adam)):
            optimizer.zero_grad()
            assert all(value.grad is None for value in values)
            for place, value in enumerate(values):
                value.grad = random(value.shape, 10 * step + place)
            optimizer.step()
    assert not torch.allclose(mine[0], theirs[0])
    for one, other in zip(mine[1:], theirs[1:], strict=True):
        assert torch.equal(one, other)


def test_many_more_inputs_than_units_are_left_to_adam():
    units = 4
    few, many = (
        nn.Parameter(torch.ones(1, inputs, units)) for inputs in (8 * units, 8 * units + 1)
    )
    muon = Muon([few, many], [few, many], 0.1, MUON)
    assert [id(matrix) for matrix in muon.matrices] == [id(few)]
    assert [id(parameter) for parameter in muon.parameters] == [id(many)]


def test_without_a_gradient_or_if_frozen_a_matrix_stays():
    idle, bias, frozen = *layers()[:2], layers()[0].requires_grad_(False)
    muon = Muon([idle, bias], [idle, frozen], 0.1, MUON, weight_decay=0.1)
    bias.grad = torch.ones_like(bias)
    muon.step()
    for matrix in (idle, frozen):
        assert torch.equal(matrix, layers()[0])
    assert [id(matrix) for matrix in muon.matrices] == [id(idle)]


def test_all_directions_of_a_bowl_are_descended_alike():
    """Where gradient descent would go thirty times as far in one as in another."""
    curvature = torch.tensor([30.0, 5.0, 1.0]).diag()[None]
    matrix, bias = nn.Parameter(torch.eye(3)[None].clone()), nn.Parameter(torch.zeros(1, 1, 3))
    rate = 0.02
    muon = Muon([matrix, bias], [matrix], rate, MUON)
    for step in range(1, 6):
        matrix.grad, bias.grad = curvature @ matrix.detach(), torch.zeros_like(bias)
        muon.step()
        moved = 1 - matrix[0].detach().diag()
        assert (moved > 0.4 * step * rate * MUON.rate_factor).all()
        assert (moved < 1.6 * step * rate * MUON.rate_factor).all()
