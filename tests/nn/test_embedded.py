"""EmbeddedMLP: periodic embeddings, hidden dropout, and outputs that only listen."""

import pytest
import torch

from softbins import Bins, Gaussian
from softbins.nn.objectives import L2, HistogramObjective
from softbins.nn.stack import EmbeddedMLP, StackedMLP
from softbins.nn.trainer import TRAINING_STREAM, Settings, Trainer

FEATURES, OUTPUTS = 3, 5
EMBEDDED = {"none": [], "one": [1], "some": [2, 0], "all": [0, 1, 2]}


def network(embedded=(0, 2), hidden=(16, 16), seeds=(7,), dropout=0.0, outputs=OUTPUTS):
    return EmbeddedMLP(FEATURES, embedded, hidden, outputs, list(seeds), dropout)


def generators(seeds):
    return [torch.Generator().manual_seed(seed + TRAINING_STREAM) for seed in seeds]


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
        trainer = Trainer(stack, L2(-1.0, 1.0), x, y, [torch.arange(300)], [0], settings)
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


# Standardisation


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_standardise_is_part_of_the_network(embedded):
    stack, x = network(EMBEDDED[embedded], seeds=(7, 8)), torch.randn(2, 20, FEATURES)
    expected = stack(x)
    mean = torch.tensor([[5.0, -3.0, 100.0], [0.0, 1.0, 2.0]])
    deviation = torch.tensor([[2.0, 0.1, 50.0], [1.0, 10.0, 3.0]])
    stack.standardise(mean, deviation)
    raw = x * deviation.unsqueeze(1) + mean.unsqueeze(1)
    torch.testing.assert_close(stack(raw), expected, rtol=1e-3, atol=1e-3)


def test_a_column_without_spread_is_only_shifted():
    stack, x = network(seeds=(7,)), torch.randn(1, 20, FEATURES)
    expected = stack(x)
    stack.standardise(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 1.0]]))
    shifted = x + torch.tensor([9.0, 0.0, 0.0])
    torch.testing.assert_close(stack(shifted), expected, rtol=1e-4, atol=1e-4)


# Members do not depend on each other


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("embedded", EMBEDDED)
def test_a_member_alone_is_itself_in_a_stack(embedded, dropout):
    seeds, x = (3, 7, 9), torch.randn(25, FEATURES)
    stack = network(EMBEDDED[embedded], seeds=seeds, dropout=dropout)
    together = stack(x.expand(3, -1, -1), generators(seeds))
    for place, seed in enumerate(seeds):
        alone = network(EMBEDDED[embedded], seeds=(seed,), dropout=dropout)
        outputs = alone(x.unsqueeze(0), generators([seed]))
        torch.testing.assert_close(outputs[0], together[place], rtol=0, atol=1e-6)


def trained(seeds, patience=None, optimiser="adam"):
    """A few epochs with dropout, members on rows of their own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, FEATURES, generator=generator)
    y = x[:, 0] + 0.5 * torch.randn(120, generator=generator)
    bins = Bins.uniform(-6.0, 6.0, 30)
    objective = HistogramObjective(bins.low, bins.high, bins, Gaussian.of_bins(2.0))
    stack = network(seeds=seeds, dropout=0.2, outputs=30)
    held = [torch.arange(120)[seed % 4 :: 4] for seed in seeds]
    rows = [torch.tensor([r for r in range(120) if r % 4 != seed % 4]) for seed in seeds]
    options = {"epochs": 12, "batch_size": 32, "learning_rate": 6e-2, "weight_decay": 1e-2}
    options |= {"optimiser": optimiser, "patience": patience}
    settings = Settings(**options, schedule="cosine", monitor="rmse")
    trainer = Trainer(stack, objective, x, y, rows, seeds, settings, held)
    trainer.run()
    with torch.no_grad():
        return stack.eval()(x.expand(len(seeds), -1, -1)), trainer


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
@pytest.mark.parametrize("patience", [None, 1])
def test_a_member_trained_alone_is_itself_in_a_stack(patience, optimiser):
    seeds = (3, 4, 5, 6)
    together, trainer = trained(seeds, patience, optimiser)
    if patience is not None:
        # Members leave at different times.
        assert len(set(trainer.best_epoch.tolist())) > 1
    for place, seed in enumerate(seeds):
        alone, _ = trained((seed,), patience, optimiser)
        torch.testing.assert_close(alone[0], together[place], rtol=0, atol=1e-4)


def test_members_differ():
    x = torch.randn(10, FEATURES)
    outputs = network(seeds=(1, 2))(x.expand(2, -1, -1))
    assert (outputs[0] - outputs[1]).abs().max() > 0.01


# Dropout


def test_without_dropout_training_and_evaluation_are_the_same():
    stack, x = network(seeds=(7, 8)), torch.randn(2, 10, FEATURES)
    training = stack.train()(x, generators([7, 8]))
    torch.testing.assert_close(stack.eval()(x), training, rtol=0, atol=1e-6)


def test_dropout_is_in_hidden_layers_and_in_training_only():
    stack, x = network(seeds=(7,), dropout=0.5), torch.randn(1, 10, FEATURES)
    plain = network(seeds=(7,))
    torch.testing.assert_close(stack(x), plain(x), rtol=0, atol=0)
    draws = generators([7])
    first, second = stack(x, draws), stack(x, draws)
    assert (first - second).abs().max() > 1e-3
    # Inputs are never dropped: with dropout in one hidden layer of weights that ignore it,
    # outputs stay what they are.
    with torch.no_grad():
        stack.weights[-1].zero_()
        stack.biases[-1].fill_(3.0)
    assert (stack(x, draws) == 3.0).all()


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(dropout):
    # One hidden layer: outputs are linear in what is dropped.
    stack, x = network(hidden=(64,), seeds=(7,), dropout=dropout), torch.randn(1, 4, FEATURES)
    draws = generators([7])
    with torch.no_grad():
        samples = torch.stack([stack(x, draws) for _ in range(1000)])
    error = samples.std(0) / 1000**0.5
    assert ((samples.mean(0) - stack(x)).abs() <= 5 * error).all()


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.999])
def test_dropout_drops_its_share(dropout):
    stack = network(hidden=(4000,), seeds=(7,), dropout=dropout)
    mask = stack._mask(torch.ones(1, 50, 4000), generators([7]))
    kept = (mask > 0).double().mean().item()
    assert kept == pytest.approx(1 - dropout, abs=0.005)  # rates are rounded to 1 / 256
    assert mask.mean().item() == pytest.approx(1, abs=0.1)
    assert torch.isfinite(mask).all()


def test_dropout_without_strength_draws_nothing():
    stack, x = network(seeds=(7,), dropout=0.5), torch.randn(1, 10, FEATURES)
    stack.strength = 0.0
    draws = generators([7])
    before = draws[0].get_state()
    torch.testing.assert_close(stack(x, draws), stack(x), rtol=0, atol=0)
    assert torch.equal(draws[0].get_state(), before)


@pytest.mark.parametrize("strength", [0.5, 0.0])
def test_dropout_may_weaken(strength):
    stack = network(hidden=(4000,), seeds=(7,), dropout=0.5)
    stack.strength = strength
    mask = stack._mask(torch.ones(1, 50, 4000), generators([7]))
    kept = (mask > 0).double().mean().item()
    assert kept == pytest.approx(1 - 0.5 * strength, abs=0.005)
    assert mask.mean().item() == pytest.approx(1, abs=0.01)


def test_masks_are_windows_of_one_strip():
    stack, draws = network(hidden=(16, 40), seeds=(7, 8), dropout=0.5), generators([7, 8])
    shapes = [(2, rows, units) for rows in (30, 30, 11) for units in (16, 40)]
    masks = [stack._mask(torch.ones(shape), draws) for shape in shapes]
    assert [mask.shape for mask in masks] == shapes
    memory = {mask.untyped_storage().data_ptr() for mask in masks}
    assert len(memory) == 1
    assert len({mask.data_ptr() for mask in masks}) == len(masks)  # none is there twice
    for mask in masks:
        assert mask.mean().item() == pytest.approx(1, abs=0.2)
        assert (mask[0] != mask[1]).any()


def test_a_strip_is_used_for_a_few_masks_only(monkeypatch):
    monkeypatch.setattr("softbins.nn.stack.USES", 3)
    stack, draws = network(seeds=(7,), dropout=0.5), generators([7])
    masks = [stack._mask(torch.ones(1, 30, 16), draws) for _ in range(7)]
    memory = [mask.untyped_storage().data_ptr() for mask in masks]
    assert [memory.index(place) for place in memory] == [0, 0, 0, 3, 3, 3, 6]


def test_each_epoch_has_masks_of_its_own():
    stack, draws, x = network(seeds=(7,), dropout=0.5), generators([7]), torch.ones(1, 30, 16)
    first = stack._mask(x, draws)
    stack.forget_masks()
    assert (stack._mask(x, draws) != first).any()


def test_a_larger_batch_gets_a_longer_strip():
    stack, draws = network(seeds=(7,), dropout=0.5), generators([7])
    stack._mask(torch.ones(1, 2, 16), draws)
    assert stack._mask(torch.ones(1, 500, 16), draws).shape == (1, 500, 16)


def test_a_strip_for_large_batches_is_little_longer_than_a_mask(monkeypatch):
    monkeypatch.setattr("softbins.nn.stack.MOST_SPARE", 100)
    stack = network(seeds=(7,), dropout=0.5)
    mask = stack._mask(torch.ones(1, 50, 16), generators([7]))
    assert mask.shape == (1, 50, 16)
    assert 900 <= stack.strip.shape[1] < 908  # drawn eight at a time


def test_no_mask_outlives_the_training():
    _, trainer = trained([3, 4])
    assert trainer.network.strip is None


@pytest.mark.parametrize("dropout", [1.0, -0.1, 2.0])
def test_a_wrong_dropout_is_named(dropout):
    with pytest.raises(ValueError, match="^dropout: "):
        network(dropout=dropout)


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
    stack.standardise(torch.randn(3, FEATURES), torch.rand(3, FEATURES))
    before = stack(x)
    stack.keep(torch.tensor([2, 0]))
    assert stack.members == 2
    torch.testing.assert_close(stack(x[[2, 0]]), before[[2, 0]], rtol=0, atol=1e-6)
