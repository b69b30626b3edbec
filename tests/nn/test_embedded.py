"""EmbeddedMLP: periodic embeddings, independent members, and outputs that are added."""

import math

import pytest
import torch

from softbins import Bins, Gaussian
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.objectives import L2, HistogramObjective
from softbins.nn.random import member_generator
from softbins.nn.settings import MuonSettings, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer

MUON = MuonSettings(0.95, 2.0, max_inputs_per_unit=8)
FEATURES, OUTPUTS = 3, 5
EMBEDDED = {"none": [], "one": [1], "some": [2, 0], "all": [0, 1, 2]}


def network(embedded=(0, 2), hidden=(16, 16), seeds=(7,), outputs=OUTPUTS, **options):
    return EmbeddedMLP(FEATURES, embedded, hidden, outputs, list(seeds), **options)


def generators(seeds):
    return [member_generator(seed, "training") for seed in seeds]


# Shapes and the formula


@pytest.mark.parametrize("hidden", [(16,), (8, 20, 33)], ids=str)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("embedded", EMBEDDED)
def test_shapes(embedded, members, hidden):
    stack = network(EMBEDDED[embedded], hidden, range(members))
    outputs = stack(torch.randn(members, 11, FEATURES))
    assert outputs.shape == (members, 11, OUTPUTS)
    assert torch.isfinite(outputs).all()
    assert stack.shift.shape == stack.scale.shape == (members, 1, FEATURES)
    assert all(len(p) == members for p in stack.parameters())
    outputs.sum().backward()
    assert all(p.grad is not None for p in stack.parameters() if p.numel())


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_an_embedding_is_relu_of_waves(embedded):
    stack, x = network(EMBEDDED[embedded], seeds=(7, 8)), torch.randn(2, 6, FEATURES)
    inputs = [x]
    for place, column in enumerate(EMBEDDED[embedded]):
        for member in range(2):
            value = x[member, :, column, None]
            waves = torch.cos(value * stack.waves[member, place] + stack.phases[member, place])
            part = waves @ stack.embedding[member, place] + stack.offset[member, place]
            inputs.append(part.relu().unsqueeze(0))
    stacked = [torch.cat(inputs[i : i + 2]) for i in range(1, len(inputs), 2)]
    expected = torch.cat([x, *stacked], -1)
    for weight, bias in zip(stack.weights[:-1], stack.biases[:-1], strict=True):
        expected = (expected @ weight + bias).relu()
    expected = expected @ stack.weights[-1] + stack.biases[-1]
    torch.testing.assert_close(stack(x), expected, rtol=1e-5, atol=1e-5)


def test_the_size_of_embeddings_can_be_chosen():
    stack = network(seeds=(7, 8), frequencies_per_input=5, embedding_size=3)
    assert stack.waves.shape == stack.phases.shape == (2, 2, 1, 5)
    assert stack.embedding.shape == (2, 2, 5, 3)
    assert stack.offset.shape == (2, 2, 1, 3)
    assert stack(torch.randn(2, 4, FEATURES)).shape == (2, 4, OUTPUTS)


def test_the_scale_of_the_first_frequencies_can_be_chosen():
    """Their standard deviation is that many periods, of 2 pi each."""
    options = {"frequencies_per_input": 10_000, "embedding_size": 1}
    stack = network([0], seeds=(7,), initial_frequency_scale=0.5, **options)
    assert stack.waves.std().item() == pytest.approx(math.pi, rel=0.05)


def test_without_embeddings_it_is_the_plain_network():
    plain = StackedMLP(FEATURES, (16, 16), OUTPUTS, [7, 8])
    x = torch.randn(2, 9, FEATURES)
    torch.testing.assert_close(network([], seeds=(7, 8))(x), plain(x), rtol=0, atol=0)


def test_a_plain_network_cannot_wiggle_as_an_embedded_one_does():
    # cos(12 x) on 300 points: a few hundred steps are enough for waves, not for a line's kinks.
    x = torch.linspace(-1.7, 1.7, 300).unsqueeze(-1)
    y = torch.cos(12 * x.squeeze(-1))
    errors = []
    for embedded in ([0], []):
        stack = EmbeddedMLP(1, embedded, (16,), 1, [0])
        settings = Settings(epochs=60, batch_size=32, learning_rate=1e-2)
        data = MemberData(x, y, [torch.arange(300)])
        trainer = Trainer(stack, L2(-1.0, 1.0), data, settings, [0])
        trainer.run()
        errors.append(trainer.evaluate([torch.arange(300)])["rmse"].item())
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_weights_and_back(embedded):
    stack = network(EMBEDDED[embedded], seeds=(7, 8))
    other = network(EMBEDDED[embedded], seeds=(1, 2))
    other.load_state_dict(stack.state_dict())
    x = torch.randn(2, 4, FEATURES)
    torch.testing.assert_close(other(x), stack(x), rtol=0, atol=0)


# Standardization


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_standardize_is_part_of_the_network(embedded):
    stack, x = network(EMBEDDED[embedded], seeds=(7, 8)), torch.randn(2, 20, FEATURES)
    expected = stack(x)
    mean = torch.tensor([[5.0, -3.0, 100.0], [0.0, 1.0, 2.0]])
    deviation = torch.tensor([[2.0, 0.1, 50.0], [1.0, 10.0, 3.0]])
    stack.standardize(mean, deviation)
    raw = x * deviation.unsqueeze(1) + mean.unsqueeze(1)
    torch.testing.assert_close(stack(raw), expected, rtol=1e-3, atol=1e-3)


def test_a_column_without_spread_is_only_shifted():
    stack, x = network(seeds=(7,)), torch.randn(1, 20, FEATURES)
    expected = stack(x)
    stack.standardize(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 1.0]]))
    shifted = x + torch.tensor([9.0, 0.0, 0.0])
    torch.testing.assert_close(stack(shifted), expected, rtol=1e-4, atol=1e-4)


# Members do not depend on each other


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_a_member_alone_is_itself_in_a_stack(embedded):
    seeds, x = (3, 7, 9), torch.randn(25, FEATURES)
    stack = network(EMBEDDED[embedded], seeds=seeds)
    together = stack(x.expand(3, -1, -1), generators(seeds))
    for place, seed in enumerate(seeds):
        alone = network(EMBEDDED[embedded], seeds=(seed,))
        outputs = alone(x.unsqueeze(0), generators([seed]))
        torch.testing.assert_close(outputs[0], together[place], rtol=0, atol=1e-6)


def trained(seeds, patience=None, optimizer="adam"):
    """A few epochs, with members on rows of their own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, FEATURES, generator=generator)
    y = x[:, 0] + 0.5 * torch.randn(120, generator=generator)
    bins = Bins.uniform(-6.0, 6.0, 30)
    objective = HistogramObjective(bins.low, bins.high, bins, Gaussian.of_bins(2.0))
    stack = network(seeds=seeds, outputs=30)
    held = [torch.arange(120)[seed % 4 :: 4] for seed in seeds]
    rows = [torch.tensor([r for r in range(120) if r % 4 != seed % 4]) for seed in seeds]
    options = {"epochs": 12, "batch_size": 32, "learning_rate": 6e-2, "weight_decay": 1e-2}
    options |= {"muon": MUON if optimizer == "muon" else None, "patience": patience}
    settings = Settings(**options, schedule="cosine", monitor="rmse")
    trainer = Trainer(stack, objective, MemberData(x, y, rows, held), settings, seeds)
    trainer.run()
    with torch.no_grad():
        return stack.eval()(x.expand(len(seeds), -1, -1)), trainer


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("patience", [None, 1])
def test_a_member_trained_alone_is_itself_in_a_stack(patience, optimizer):
    seeds = (3, 4, 5, 6)
    together, trainer = trained(seeds, patience, optimizer)
    if patience is not None:
        # Members leave at different times.
        assert len(set(trainer.best_epoch.tolist())) > 1
    for place, seed in enumerate(seeds):
        alone, _ = trained((seed,), patience, optimizer)
        torch.testing.assert_close(alone[0], together[place], rtol=0, atol=1e-4)


def test_members_differ():
    x = torch.randn(10, FEATURES)
    outputs = network(seeds=(1, 2))(x.expand(2, -1, -1))
    assert (outputs[0] - outputs[1]).abs().max() > 0.01


def test_training_and_evaluation_are_the_same():
    stack, x = network(seeds=(7, 8)), torch.randn(2, 10, FEATURES)
    training = stack.train()(x, generators([7, 8]))
    torch.testing.assert_close(stack.eval()(x), training, rtol=0, atol=1e-6)


# Units and further outputs


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_outputs_are_linear_in_the_units(embedded):
    stack, x = network(EMBEDDED[embedded], seeds=(7, 8)), torch.randn(2, 10, FEATURES)
    units = stack.units(x)
    assert units.shape == (2, 10, 16)
    weight, bias = stack.last_layer()
    torch.testing.assert_close(stack(x), units @ weight + bias)


def test_further_outputs_leave_the_first_alone():
    stack, x = network(seeds=(7, 8)), torch.randn(2, 10, FEATURES)
    before, units = stack(x), stack.units(x)
    weight, bias = torch.randn(2, 16, 3), torch.randn(2, 1, 3)
    stack.add_outputs(weight, bias)
    assert stack.outputs == OUTPUTS + 3
    torch.testing.assert_close(stack(x)[..., :OUTPUTS], before)
    torch.testing.assert_close(stack(x)[..., OUTPUTS:], units @ weight + bias)
    again = network(seeds=(1, 2), outputs=OUTPUTS + 3)
    again.load_state_dict(stack.state_dict())
    torch.testing.assert_close(again(x), stack(x), rtol=0, atol=0)


def test_some_members_are_kept():
    stack, x = network(seeds=(7, 8, 9)), torch.randn(3, 10, FEATURES)
    stack.standardize(torch.randn(3, FEATURES), torch.rand(3, FEATURES))
    before = stack(x)
    stack.keep_members(torch.tensor([2, 0]))
    assert stack.members == 2
    torch.testing.assert_close(stack(x[[2, 0]]), before[[2, 0]], rtol=0, atol=1e-6)
