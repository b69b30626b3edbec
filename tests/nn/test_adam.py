import subprocess
import sys

import pytest
import torch
from torch import nn

from softbins.nn.adam import Adam

STEPS = 20


def parameters():
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 4, 5), (3, 1, 5), (7,))
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def train(values, optimizer, set_rate):
    """A bowl with a moving bottom, at a falling rate."""
    for step in range(STEPS):
        set_rate(1e-2 * (1 - step / STEPS))
        optimizer.zero_grad()
        sum((p - step / 10).square().sum() + p.sin().sum() for p in values).backward()
        optimizer.step()
    return values


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
@pytest.mark.parametrize("beta_2", [0.95, 0.999])
def test_the_bits_are_those_of_pytorch(beta_2, weight_decay):
    mine, theirs = parameters(), parameters()
    adam = Adam(mine, 1e-2, beta_2, 1e-7, weight_decay)
    how = {"betas": (0.9, beta_2), "eps": 1e-7, "weight_decay": weight_decay}
    reference = torch.optim.AdamW(theirs, lr=1e-2, fused=True, **how)
    train(mine, adam, lambda rate: setattr(adam, "rate", rate))
    train(theirs, reference, lambda rate: reference.param_groups[0].update(lr=rate))
    for one, other in zip(mine, theirs, strict=True):
        assert torch.equal(one, other)
        for name, value in reference.state[other].items():
            assert torch.equal(adam.state[one][name], value)


def test_a_parameter_without_gradient_stays():
    used, idle = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    adam = Adam([used, idle], 0.1, weight_decay=0.1)
    used.square().sum().backward()
    adam.step()
    assert (used < 1).all()
    assert torch.equal(idle, torch.ones(3))
    assert adam.state[idle]["step"] == 0


def test_a_gradient_may_lie_in_memory_as_it_likes():
    """The fused kernel would take a transposed one for another."""
    gradient, found = torch.randn(3, 4), []
    for own in (gradient, gradient.t().contiguous().t()):
        value = nn.Parameter(torch.ones(3, 4))
        value.grad = own
        Adam([value], 0.1).step()
        found.append(value.detach())
    assert torch.equal(*found)


def test_something_may_follow_every_step():
    value, seen = nn.Parameter(torch.ones(2)), []
    adam = Adam([value], 0.25)
    adam.after_step = lambda optimizer: seen.append(optimizer.rate)
    value.sum().backward()
    adam.step()
    assert seen == [0.25]


def test_a_fit_does_not_load_the_compiler():
    """It takes seconds, more than a small fit."""
    code = (
        "import sys, numpy as np, softbins\n"
        "x = np.random.default_rng(0).normal(size=(40, 2))\n"
        "model = softbins.HistogramRegressor(max_epochs=1, trees=False).fit(x, x[:, 0])\n"
        "model.predict_interval(x)\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
