import math

import pytest
import torch
from torch import nn

from softbins._core.model_file import read, write
from softbins.nn.objectives import METHODS, make_objective
from softbins.nn.settings import MuonSettings, Settings
from softbins.nn.stack import StackedMLP, StackedModule
from softbins.nn.stopping import Stop
from softbins.nn.trainer import MemberData, Trainer

ROWS = 300
OPTIMIZERS = {"adam": None, "muon": MuonSettings(0.95, 2.0, max_inputs_per_unit=8)}


def data(rows=ROWS, features=4):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=generator)
    return x, torch.sigmoid(x[:, 0] + x[:, 1] * x[:, 2])


def trainer(
    seeds=(0,), method="hl-gaussian", rows=None, hidden=(16, 16), dropout=0.0, net=None, **options
):
    x, y = data()
    validation, weight = options.pop("validation", None), options.pop("weight", None)
    parameters = options.pop("parameters", {})
    objective = make_objective(method, 0.0, 1.0, bins=20, **parameters)
    network = net or StackedMLP(4, hidden, objective.outputs, seeds, dropout)
    rows = rows or [torch.arange(ROWS)] * len(seeds)
    stop = options.pop("stop", None)
    settings = Settings(**{"epochs": 5, "batch_size": 64, "learning_rate": 1e-2} | options)
    members = MemberData(x, y, rows, validation, weight)
    return Trainer(network, objective, members, settings, seeds, stop=stop)


def trained(*args, **options):
    result = trainer(*args, **options)
    result.run()
    return result


def weights(result):
    return [p.detach().clone() for p in result.network.parameters()]


def assert_same_member(stack, member, alone, tolerance=1e-5):
    for ours, theirs in zip(weights(stack), weights(alone), strict=True):
        scale = theirs[0].abs().max()
        assert (ours[member] - theirs[0]).abs().max() <= tolerance * scale


# Networks


def test_initial_weights_are_lecun_uniform_and_belong_to_the_seed():
    net = StackedMLP(300, (208,), 5, seeds=[3, 4])
    bound = math.sqrt(3 / 300)
    first = net.weights[0]
    assert first.abs().max() <= bound
    assert first.var().item() == pytest.approx(1 / 300, rel=0.03)
    assert all((bias == 0).all() for bias in net.biases)
    assert torch.equal(StackedMLP(300, (208,), 5, seeds=[4]).weights[0][0], first[1])


@pytest.mark.parametrize("muon", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("method", METHODS)
def test_units_that_were_added_for_speed_stay_at_zero(method, muon):
    """45 units become 48: three vector registers of 16 numbers."""
    outputs = make_objective(method, 0.0, 1.0, bins=20).outputs
    net = StackedMLP(4, (45, 30, 20), outputs, [0, 1], dropout=0.1)
    assert [w.shape[1:] for w in net.weights] == [(4, 48), (48, 32), (32, 20), (20, outputs)]
    before = [w.detach().clone() for w in net.weights]
    trained([0, 1], method, net=net, weight_decay=0.01, muon=muon)
    for weight, old, (rows, columns) in zip(
        net.weights, before, [(4, 45), (45, 30), (30, 20), (20, outputs)], strict=True
    ):
        assert not torch.equal(weight, old)
        assert (weight[:, rows:] == 0).all()
        assert (weight[:, :, columns:] == 0).all()
    assert (net.biases[0][..., 45:] == 0).all()


def test_the_units_added_do_not_change_the_initial_network():
    net = StackedMLP(4, (45,), 3, [7])
    generator = torch.Generator().manual_seed(7)
    first = torch.empty(4, 45).uniform_(-math.sqrt(3 / 4), math.sqrt(3 / 4), generator=generator)
    last = torch.empty(45, 3).uniform_(-math.sqrt(3 / 45), math.sqrt(3 / 45), generator=generator)
    x = data()[0]
    torch.testing.assert_close(net(x[None])[0], (x @ first).relu() @ last)
    assert not torch.equal(first[0], first[1])


def test_a_stack_computes_what_its_members_would():
    net = StackedMLP(4, (8, 7), 3, seeds=[0, 1])
    x = torch.randn(2, 11, 4)
    for member in range(2):
        h = x[member]
        for layer in range(3):
            h = h @ net.weights[layer][member] + net.biases[layer][member]
            h = h.relu() if layer < 2 else h
        torch.testing.assert_close(net(x)[member], h)


def test_standardisation_lives_in_the_network_and_spares_constant_columns():
    x, _ = data()
    x = x * 100 + 5
    x[:, 2] = 7.0
    objective = make_objective("l2", 0.0, 1.0)
    net = StackedMLP(4, (8,), 1, seeds=[0, 1])
    halves = [torch.arange(150), torch.arange(150, 300)]
    Trainer(net, objective, MemberData(x, data()[1], halves), Settings(), [0, 1])
    for member, rows in enumerate(halves):
        inputs = x[rows] * net.scale[member] + net.shift[member]
        torch.testing.assert_close(inputs.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
        expected = torch.tensor([1.0, 1.0, 0.0, 1.0])
        torch.testing.assert_close(inputs.std(0, correction=0), expected, atol=1e-3, rtol=0)


def test_dropout_is_for_training_only_and_keeps_the_mean():
    net = StackedMLP(1000, (), 1, seeds=[0], dropout=0.25)
    x = torch.ones(1, 50, 1000)
    generators = [torch.Generator().manual_seed(0)]
    mask = net._mask(x, generators)
    assert mask.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert mask.mean().item() == pytest.approx(1.0, abs=0.02)
    assert torch.equal(net(x), net(x))
    assert not torch.equal(net(x, generators), net(x, generators))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StackedMLP(3, (0,), 1, [0]), r"hidden: .* got sizes \[3, 0, 1\]"),
        (lambda: StackedMLP(3, (2,), 1, [0], dropout=1.0), r"dropout: .* got 1.0"),
        (lambda: Settings(epochs=0), "epochs: must be at least 1, got 0"),
        (lambda: Settings(learning_rate=0.0), "learning_rate: must be a number, positive, got 0.0"),
        (lambda: Settings(schedule="linear"), "schedule: expected 'constant' or 'cosine'"),
        (lambda: trainer(patience=3), "patience: early stopping needs validation rows"),
        (lambda: trainer(rows=[torch.arange(5)] * 2), "rows, seeds: need one for each of 1"),
        (
            lambda: trainer([0, 1], rows=[torch.arange(64), torch.arange(65)]),
            r"same number of batches, got \[1, 2\]",
        ),
        (
            lambda: StackedMLP(3, (2,), 1, [0]).copy_hidden(StackedMLP(3, (4,), 1, [0])),
            "source: needs 1 members of shape 3-",
        ),
    ],
)
def test_bad_input_is_named_with_its_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Members


# At the paper's learning rate: matrices are summed in another order in another stack, and a large
# rate lets Adam blow a last digit up where a unit's gradient is next to nothing.
STEADY = {"epochs": 20, "learning_rate": 1e-3}


@pytest.mark.parametrize("method", METHODS)
def test_a_member_does_not_depend_on_what_it_is_stacked_with(method):
    stack = trained([5, 6, 7], method, dropout=0.1, **STEADY)
    assert_same_member(stack, 1, trained([6], method, dropout=0.1, **STEADY))


def test_members_may_have_their_own_rows_of_slightly_different_number():
    rows = [torch.arange(0, 290), torch.arange(10, 297), torch.arange(5, 300)]
    stack = trained([1, 2, 3], rows=rows, **STEADY)
    for member in range(3):
        alone = trained([member + 1], rows=[rows[member]], **STEADY)
        assert_same_member(stack, member, alone)


@pytest.mark.parametrize(
    ("method", "name", "values"),
    [
        ("hl-gaussian", "sigma", [0.5, 2.0]),
        ("hl-uniform", "epsilon", [1e-4, 1e-2]),
        ("l2-noise", "noise", [1e-3, 1e-1]),
        ("l2-clipping", "clip", [1e-2, 10.0]),
    ],
)
def test_members_may_have_their_own_parameters(method, name, values):
    each = torch.tensor(values).unsqueeze(-1)
    stack = trained([1, 1], method, parameters={name: each}, **STEADY)
    for member, value in enumerate(values):
        alone = trained([1], method, parameters={name: value}, **STEADY)
        assert_same_member(stack, member, alone)
    assert not torch.allclose(weights(stack)[0][0], weights(stack)[0][1])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits_twice(method):
    twice = [trained([3, 4], method, dropout=0.1) for _ in range(2)]
    for first, second in zip(*map(weights, twice), strict=True):
        assert torch.equal(first, second)


def test_a_users_own_module_trains_as_members():
    def factory():
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 20))

    seeds = [2, 3]
    stack = trained(seeds, net=StackedModule(factory, 4, seeds), **STEADY)
    alone = trained([3], net=StackedModule(factory, 4, [3]), **STEADY)
    assert_same_member(stack, 1, alone)
    before = trainer(seeds, net=StackedModule(factory, 4, seeds))
    start = before.evaluate(before.rows)["objective"]
    assert (stack.evaluate(stack.rows)["objective"] < start).all()
    assert [tuple(p.shape) for p in stack.network.last_layer()] == [(2, 20, 16), (2, 20)]


def test_of_a_users_own_module_nobody_knows_the_hidden_layers():
    """So that Muon is Adam there."""

    def factory():
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 20))

    both = [
        trained([2, 3], net=StackedModule(factory, 4, [2, 3]), muon=muon)
        for muon in OPTIMIZERS.values()
    ]
    for ours, theirs in zip(*map(weights, both), strict=True):
        assert torch.equal(ours, theirs)


def test_a_users_own_module_may_have_buffers():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 20)
            self.register_buffer("shift", torch.randn(20))

        def forward(self, x):
            return self.layer(x) + self.shift

    stack = StackedModule(Shifted, 4, [0, 1])
    x = torch.randn(2, 9, 4)
    assert stack.state_dict()["constant_0"].shape == (2, 20)
    for member in (0, 1):
        torch.manual_seed(member)
        torch.testing.assert_close(stack(x)[member], Shifted()(x[member]))


# The loop


def test_training_goes_on_after_a_number_of_epochs():
    held_out = {"validation": [torch.arange(50)] * 2, "patience": 5, "schedule": "cosine"}
    once, twice = (trainer([0, 1], **held_out) for _ in range(2))
    once.run()
    twice.run(until=2)
    assert twice.epoch == 2
    assert not twice.finished
    twice.run()
    assert twice.history == once.history
    for ours, theirs in zip(weights(twice), weights(once), strict=True):
        assert torch.equal(ours, theirs)


def test_one_step_is_plain_adam():
    ours = trained([0], "l2", epochs=1, batch_size=ROWS, adam_epsilon=1e-8)
    x, y = data()
    net = StackedMLP(4, (16, 16), 1, [0])
    net.standardize(x.mean(0, keepdim=True), x.std(0, correction=0, keepdim=True))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    loss = (net(x.unsqueeze(0)).squeeze() - y).square().mean()
    loss.backward()
    optimizer.step()
    for mine, theirs in zip(weights(ours), net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), atol=1e-4, rtol=0)


def test_every_row_is_seen_once_in_an_epoch():
    seen = torch.cat([index for index, _ in trainer([0, 1])._batches()], 1)
    assert seen.shape == (2, ROWS)
    for member in seen:
        assert torch.equal(member.sort().values, torch.arange(ROWS))
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("size", [1, 40, 100, 299])
@pytest.mark.parametrize("lengths", [(300, 300), (300, 299), (297, 300), (289, 296)])
def test_rows_on_disk_are_seen_once_in_ranges_of_them(monkeypatch, size, lengths):
    monkeypatch.setattr("softbins.nn.batches.BATCHES_OF_A_BLOCK", 2)
    rows = [torch.arange(n, dtype=torch.int32) for n in lengths]
    made = trainer([0, 1], rows=rows, batch_size=8, shuffled_rows=size)
    batches = list(made._batches())
    assert len(batches) == made.steps
    seen = torch.cat([index for index, _ in batches], 1)
    for member, count in zip(seen, lengths, strict=True):
        # What a shorter member has in its last batch beside its rows counts nothing.
        assert torch.equal(member[:count].sort().values, torch.arange(count))
    largest = max(size // 16, 1) * 16
    spread = seen[0, :largest].unique() // 16
    assert len(spread.unique()) <= -(-largest // 16)
    assert not torch.equal(seen[0][:256], torch.arange(256))


@pytest.mark.parametrize("threshold", [1e-3, 1e3])
def test_clipping_bounds_each_members_gradient(threshold):
    result = trainer([0, 1], "l2-clipping", parameters={"clip": threshold})
    index, weight = next(result._batches())
    x, y = result._batch(index)
    (100 * result.objective.batch_loss(result.network(x), y, weight)).backward()
    before = [p.grad.clone() for p in result.parameters]
    result._clip(threshold)
    norms = sum(p.grad.flatten(1).square().sum(1) for p in result.parameters).sqrt()
    assert (norms <= threshold * 1.0001).all()
    if threshold > 1:
        for p, old in zip(result.parameters, before, strict=True):
            assert torch.equal(p.grad, old)


def learning_rates(result, steps):
    found = []
    for step in steps:
        result._set_learning_rate(step)
        found.append(result.optimizer.rate)
    return found


def test_the_cosine_schedule_ends_at_zero():
    result = trainer(schedule="cosine", epochs=4)
    rates = learning_rates(result, [epoch * result.steps for epoch in (0, 1, 2, 4)])
    assert rates == pytest.approx([1e-2, 8.535534e-3, 5e-3, 0.0])  # (1 + cos(pi / 4)) / 2


def test_the_first_steps_of_a_cosine_are_smaller():
    """Of 100 steps five, in equal steps up to where a cosine would be."""
    result = trainer(schedule="cosine", epochs=1)
    result.steps = 100
    rates = learning_rates(result, range(10))
    cosine = [1e-2 * (1 + math.cos(math.pi * step / 100)) / 2 for step in range(10)]
    shares = [rate / full for rate, full in zip(rates, cosine, strict=True)]
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1, 1])


def test_a_cosine_of_few_steps_starts_at_once():
    result = trainer(schedule="cosine", epochs=2)
    result.steps = 10
    assert learning_rates(result, [0]) == [1e-2]


def test_a_constant_schedule_changes_nothing():
    result = trainer(schedule="constant", epochs=4)
    before = result.optimizer.rate
    assert learning_rates(result, [3 * result.steps]) == [before]


def test_sample_weights_are_repeated_rows():
    x, y = data()
    objective = make_objective("l2", 0.0, 1.0)
    weight = (torch.arange(ROWS) % 3 + 1).float()
    repeated = torch.arange(ROWS).repeat_interleave(weight.long())
    settings = Settings(epochs=30, batch_size=1000)
    results = []
    for rows, w in ((torch.arange(ROWS), weight), (repeated, None)):
        net = StackedMLP(4, (16,), 1, [0])
        Trainer(net, objective, MemberData(x, y, [rows], weight=w), settings, [0]).run()
        results.append(net(x.unsqueeze(0)))
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-3)


def test_early_stopping_restores_each_members_best_epoch():
    validation = [torch.arange(240, 300)] * 2
    rows = [torch.arange(24)] * 2
    result = trained(
        [0, 1], rows=rows, validation=validation, patience=5, epochs=400, monitor="mae"
    )
    assert result.epoch < 400
    history = {m: [r for r in result.history if r["member"] == m] for m in (0, 1)}
    for member in (0, 1):
        best = int(result.best_epoch[member])
        scores = [row["validation_mae"] for row in history[member]]
        assert len(scores) == best + 5  # who has stopped leaves
        assert min(scores) == scores[best - 1]
        now = result.evaluate(validation)["mae"][member].item()
        assert now == pytest.approx(scores[best - 1], rel=1e-6)


def test_a_stopped_member_is_not_changed_by_others_that_go_on():
    validation, rows = [torch.arange(240, 300)] * 3, [torch.arange(24)] * 3
    options = {"patience": 3, "epochs": 300, "learning_rate": 3e-3}
    stack = trained([0, 1, 2], rows=rows, validation=validation, **options)
    for member in range(3):
        alone = trained([member], rows=rows[:1], validation=validation[:1], **options)
        assert_same_member(stack, member, alone, tolerance=1e-4)
        assert stack.best_epoch[member] == alone.best_epoch[0]


def test_history_holds_what_was_asked_for():
    result = trained(
        [0, 1],
        validation=[torch.arange(50)] * 2,
        evaluate=("train", "validation"),
        gradient_norm=True,
    )
    assert len(result.history) == 2 * 5
    names = {
        f"{part}_{s}" for part in ("train", "validation") for s in ("objective", "mae", "rmse")
    }
    assert set(result.history[0]) == {"member", "epoch", "gradient_norm"} | names
    last = [row for row in result.history if row["epoch"] == 5]
    scores = result.evaluate(result.rows)
    assert [row["train_mae"] for row in last] == pytest.approx(scores["mae"].tolist())


def test_evaluation_is_right_for_rows_of_different_number():
    result = trained([0, 1], "l2")
    rows = [torch.arange(10), torch.arange(100, 257)]
    scores = result.evaluate(rows)
    for member in (0, 1):
        x, y = result.x[rows[member]], result.y[rows[member]]
        prediction = result.network(x.expand(2, -1, -1))[member].squeeze(-1).detach()
        assert scores["mae"][member].item() == pytest.approx((prediction - y).abs().mean().item())
        mse = (prediction - y).square().mean().item()
        assert scores["rmse"][member].item() == pytest.approx(math.sqrt(mse), rel=1e-5)
        assert scores["objective"][member].item() == pytest.approx(mse, rel=1e-5)


def test_gradient_norm_is_that_of_the_last_layer():
    result = trained([0, 1], "l2")
    loss = result.objective.batch_loss(
        result.network(result.x.expand(2, -1, -1)), result.y.expand(2, -1)
    )
    gradients = torch.autograd.grad(loss, result.network.last_layer())
    expected = sum(g.flatten(1).square().sum(1) for g in gradients).sqrt()
    torch.testing.assert_close(result.gradient_norm(), expected, atol=1e-7, rtol=1e-4)


def test_time_limit_and_progress():
    calls = []
    result = trainer(epochs=100_000, stop=Stop(0.3))
    result.run(lambda *call: calls.append(call))
    assert 1 <= result.epoch == len(calls) < 100_000
    epoch, epochs, seconds, summary = calls[-1]
    assert (epoch, epochs) == (result.epoch, 100_000)
    assert seconds > 0
    assert summary == {}
    assert result.is_cut


def test_what_ends_by_itself_is_not_cut():
    result = trainer(epochs=2, stop=Stop(1000.0))
    result.run()
    result.stop.ask()
    assert result.finished
    assert not result.is_cut


def test_a_first_step_is_taken_however_little_time_there_is():
    stop = Stop()
    stop.ask()
    result, untrained = trainer(stop=stop), trainer()
    result.run()
    assert result.epoch == 1
    assert all((a != b).any() for a, b in zip(weights(result), weights(untrained), strict=True))


# Representations (Table 2)


def test_frozen_hidden_layers_stay_and_the_last_one_learns():
    source = trained([0, 1], "l2")
    net = StackedMLP(4, (16, 16), 20, [7, 8])
    net.copy_hidden(source.network)
    net.freeze_hidden()
    result = trained([7, 8], net=net)
    for layer in range(2):
        assert torch.equal(net.weights[layer], source.network.weights[layer])
        assert torch.equal(net.biases[layer], source.network.biases[layer])
    assert not torch.equal(net.weights[-1], StackedMLP(4, (16, 16), 20, [7, 8]).weights[-1])
    assert len(result.parameters) == 2


def test_hidden_layers_taken_over_as_a_start_go_on_learning():
    source = trained([0], "l2")
    net = StackedMLP(4, (16, 16), 20, [7])
    net.copy_hidden(source.network)
    assert torch.equal(net.weights[0], source.network.weights[0])
    trained([7], net=net)
    assert not torch.equal(net.weights[0], source.network.weights[0])


# Checkpoints


@pytest.mark.parametrize("stop", [1, 4, 7])
@pytest.mark.parametrize("muon", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("method", ["hl-gaussian", "l2-noise", "l2-clipping"])
def test_stopping_after_any_epoch_and_resuming_gives_the_same_bits(method, muon, stop, tmp_path):
    options = {"method": method, "dropout": 0.1, "epochs": 8, "schedule": "cosine"}
    options |= {"muon": muon}
    options |= {"validation": [torch.arange(40)] * 2, "patience": 50}
    whole = trained([1, 2], **options)

    def keep(epoch, *_):
        if epoch == stop:
            write(tmp_path / "checkpoint", *first.checkpoint())

    first = trainer([1, 2], **options)
    first.run(keep)
    second = trainer([1, 2], **options)
    second.resume(*read(tmp_path / "checkpoint"))
    second.run()
    for ours, theirs in zip(weights(whole), weights(second), strict=True):
        assert torch.equal(ours, theirs)
    assert second.history == whole.history
    assert second.epoch == whole.epoch


@pytest.mark.parametrize("method", ["hl-gaussian", "l2-noise", "l2-clipping"])
@pytest.mark.parametrize("muon", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("frozen", [False, True], ids=["all", "frozen"])
def test_resuming_after_a_member_has_left_the_stack_gives_the_same_bits(
    method, frozen, muon, tmp_path
):
    """Members have parameters of their own, which must leave with them."""
    name = {"hl-gaussian": "sigma", "l2-noise": "noise", "l2-clipping": "clip"}[method]
    values = torch.tensor([[0.5], [1.0], [2.0]])
    options = {"method": method, "parameters": {name: values}, "epochs": 300, "patience": 1}
    options |= {"validation": [torch.arange(240, 300)] * 3, "rows": [torch.arange(24)] * 3}
    options |= {"muon": muon}

    def made():
        network = StackedMLP(4, (16, 16), 20 if method == "hl-gaussian" else 1, [1, 2, 3])
        if frozen:
            network.freeze_hidden()
        return trainer([1, 2, 3], net=network, **options)

    whole, left = made(), []

    def keep(epoch, *_):
        left.append(len(whole.running))
        if left[-1] < 3 and left[-2] == 3:
            write(tmp_path / "checkpoint", *whole.checkpoint())

    whole.run(keep)
    assert min(left) < 3, "no member stopped before the others"
    second = made()
    second.resume(*read(tmp_path / "checkpoint"))
    assert len(second.running) < 3
    second.run()
    assert second.running == whole.running == [0, 1, 2]
    assert second.network.members == 3
    for ours, theirs in zip(weights(whole), weights(second), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(whole.network.buffers(), second.network.buffers(), strict=True):
        assert torch.equal(ours, theirs)
        assert len(ours) == 3
    assert second.history == whole.history
