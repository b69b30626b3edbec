"""A head whose support follows its targets, and predicts on what it predicted."""

import copy
import math
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import distributed, nn

from softbins import Bins, Gaussian, HistogramHead, StackedBins
from tests.forked import in_a_fork

START = Bins.uniform(-1.0, 1.0, 40)


def made(spare=40, bins=START, ratio=0.75, **options):
    return HistogramHead(8, bins, Gaussian.of_bins(ratio), spare=spare, **options)


def sharp(head, places, ratio=0.75):
    """Features for which the head predicts Gaussians of `ratio` bins about places in bins."""
    # Logits -(i - u)^2 / (2 r^2) are linear in u and 1, up to a constant for each row.
    number = torch.arange(head.bins.count) + 0.5
    with torch.no_grad():
        head.linear.weight.zero_()
        head.linear.bias.zero_()
        weight, bias = (head._by_row(part) for part in head.linear.parameters())
        weight[:, : head.bins.count, 0] = number / ratio**2
        bias[:, : head.bins.count] = -(number**2) / (2 * ratio**2)
    return nn.functional.pad(places.unsqueeze(-1), (0, 7))


def change(head, x, *targets):
    """How far the means of these features move, as a share of the new range."""
    with torch.no_grad():
        before = head(x).mean
        moved = [head.observe(torch.tensor(y)) for y in targets]
        assert moved[0]
        return ((head(x).mean - before).abs().max() / (head.bins.high - head.bins.low)).item()


@pytest.mark.parametrize("ratio", [0.3, 0.75, 2.0])
@pytest.mark.parametrize(
    "targets",
    [([1.5],), ([-1.2, 3.0],), ([1000.0, 1001.0],) * 5, ([1e6, -1e30],) * 3, ([0.999],)],
    ids=["a little", "both sides", "far away", "very far away", "the last half bin"],
)
@pytest.mark.parametrize("outputs", [None, 3])
def test_what_was_predicted_is_predicted(targets, ratio, outputs):
    head = made(ratio=ratio, outputs=outputs)
    x = sharp(head, torch.linspace(0.5, 39.5, 200), ratio)
    assert change(head, x, *targets) < 1e-3
    low, high = head.bins.centers[0], head.bins.centers[-1]
    assert low <= min(targets[0])
    assert max(targets[0]) <= high


def test_random_networks_predict_on():
    torch.manual_seed(0)
    head, x = made(), 3 * torch.randn(100, 8)
    assert change(head, x, [5.0, -3.0], [5.0, 4.0], [5.0], [4.0], [2.0]) < 1e-3


def test_bins_are_cut_where_targets_are():
    head, y = made(spare=60), 100 + 2 * torch.rand(64)
    for _ in range(600):  # until the old targets are forgotten
        head.observe(y)
    bins = head.bins
    there = (bins.edges[:-1] < y.max()) & (bins.edges[1:] > y.min())
    assert bins.widths[there].max() < 2 / 10
    torch.testing.assert_close(bins.edges[:41], START.edges)


def test_without_a_free_output_the_narrowest_bins_are_merged():
    head = made(spare=6, zero_init=True)
    x = torch.randn(5, 8)
    for size in 3.0 ** torch.arange(12):
        y = size * torch.linspace(-1, 1, 33)
        before = head(x).mean
        head.observe(y)
        assert head.bins.count <= 46
        assert head.bins.low < y.min()
        assert y.max() < head.bins.high
        miss = (head(x).mean - before).abs().max() / (head.bins.high - head.bins.low)
        assert miss < 1e-3
    assert sorted(head.support.rows.tolist()) == list(range(46))


def test_targets_inside_move_nothing():
    head = made()
    assert not head.observe(torch.linspace(-0.9, 0.9, 50))
    assert not head.observe(torch.empty(0))
    assert head.bins == Bins(START.edges, START.step)


@pytest.mark.parametrize("bins", [START, Bins.symlog(3.0, 40)], ids=["equal", "symlog"])
def test_the_loss_observes_in_training(bins):
    x, y = torch.randn(4, 8), torch.tensor([0.0, 1.0, 50.0, 99.0])
    head = made(bins=bins)
    head.eval()
    head.loss(x, y)
    assert head.bins.high < 99
    made(bins=bins, auto_observe=False).loss(x, y)
    head.train()
    head.loss(x, y).backward()
    assert head.bins.high > 99
    assert (head.linear.weight.grad != 0).any(-1).sum() == head.bins.count


def test_it_learns_a_target_that_grows_a_thousandfold():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
    head = HistogramHead(32, START, Gaussian.of_bins(0.75), spare=60, zero_init=True)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-2)
    for step in range(400):
        x = torch.rand(64, 2)
        scale = min(1000.0, 1000 ** (step / 250))
        y = scale * (x[:, 0] - x[:, 1])
        optimizer.zero_grad()
        head.loss(body(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        assert (head(body(x)).mean - y).abs().mean() < 0.15 * y.std()


def test_a_checkpoint_carries_the_support(tmp_path):
    head, x = made(), torch.randn(4, 8)
    for far in ([3.0], [2.0], [1.5, -30.0]):
        head.observe(torch.tensor(far))
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other = made()
    other.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    assert other.bins == head.bins
    for one in (head, other, copy.deepcopy(head)):
        assert torch.equal(one(x).mean, head(x).mean)
    assert other.observe(torch.tensor([500.0]))
    head.observe(torch.tensor([500.0]))
    assert torch.equal(other(x).mean, head(x).mean)
    with pytest.raises(RuntimeError, match="size mismatch"):
        made(spare=41).load_state_dict(head.state_dict())


@pytest.mark.parametrize(("precision", "outputs"), [(torch.float32, 3), (torch.bfloat16, None)])
def test_one_compiled_graph_trains_like_none(precision, outputs):
    plain, compiled = (trained(precision, outputs, backend) for backend in (None, "aot_eager"))
    torch.testing.assert_close(plain[0], compiled[0], rtol=2e-3, atol=2e-3)
    assert plain[1].bins == compiled[1].bins
    assert compiled[1].bins.high > 4.0**11


def trained(precision, outputs, backend):
    """Losses in training, and the head, whose support moves more often than torch would compile."""
    torch.manual_seed(0)
    body, head = nn.Linear(3, 8), made(outputs=outputs)

    def loss(x, y, weight):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
            return head.loss(torch.relu(body(x)), y, weight)

    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=1e-2)
    step = torch.compile(loss, fullgraph=True, backend=backend) if backend else loss
    found = []
    for size in 4.0 ** torch.arange(12):
        y = size * torch.randn((4, outputs) if outputs else (4,))
        optimizer.zero_grad()
        value = step(torch.randn(4, 3), y, torch.rand(y.shape))
        value.backward()
        optimizer.step()
        found.append(value.detach())
    return torch.stack(found), head


def test_a_compiled_loss_refuses_targets_and_changes_nothing():
    head = made()
    loss = torch.compile(head.loss, fullgraph=True, backend="aot_eager")
    loss(torch.zeros(2, 8), torch.tensor([0.0, 5.0]))
    before = state(head)
    with pytest.raises(ValueError, match="y: 1 of 2 values are NaN or infinite, .* at index 1"):
        loss(torch.zeros(2, 8), torch.tensor([9.0, math.nan]))
    assert all(torch.equal(now, before[name]) for name, now in state(head).items())


@pytest.mark.slow
def test_inductor_compiles_it_whole():
    plain, compiled = (trained(torch.float32, None, backend) for backend in (None, "inductor"))
    torch.testing.assert_close(plain[0], compiled[0], rtol=2e-3, atol=2e-3)
    assert plain[1].bins == compiled[1].bins


def test_low_precision_leaves_the_support_alone():
    head = made().half()
    assert head.linear.weight.dtype == torch.float16
    assert head.support.recent.dtype == head.bins.edges.dtype == torch.float64


@pytest.mark.parametrize("values", [(-3.0, 9.0), (5.0, 6.0)], ids=str)
def test_a_network_learns_from_first_targets_outside(values):
    """A network that is pushed into one direction at first cannot tell its rows apart later."""
    torch.manual_seed(0)
    x, y = torch.eye(2), torch.tensor(values)
    body = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    head = HistogramHead(64, START, Gaussian.of_bins(0.75), spare=60, zero_init=True)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        head.loss(body(x), y).backward()
        optimizer.step()
    assert (head(body(x)).mean - y).abs().max() < 0.1 * (y.max() - y.min())
    assert not head.support.held.any()


class Network(nn.Module):
    """A network that gives its loss, as those that several processes train do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(3, 8), made(zero_init=True)

    def forward(self, x, y):
        return self.head.loss(torch.relu(self.body(x)), y)


def batches():
    """Rows whose targets grow, the largest of them in every other row."""
    generator = torch.Generator().manual_seed(1)
    for size in 2.0 ** torch.arange(12):
        x = torch.randn(8, 3, generator=generator)
        yield x, size * x[:, 0] * torch.tensor([0.1, 1.0]).repeat(4)


def train(network, rows):
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for x, y in rows:
        optimizer.zero_grad()
        network(x, y).backward()
        optimizer.step()


def trained_with_another(rank, address, path):
    """The error of one of two processes that train together, and then observe a NaN."""
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    network = Network()
    together = nn.parallel.DistributedDataParallel(network)
    train(together, [(x[rank::2], y[rank::2]) for x, y in batches()])
    with pytest.raises(ValueError, match="^y: ") as refused:
        network.head.observe(torch.tensor([float("nan") if rank else 1e3]))
    torch.save(network.state_dict(), path)
    distributed.destroy_process_group()
    return str(refused.value)


def test_two_processes_train_like_one(tmp_path, monkeypatch):
    if sys.platform == "linux":
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    paths = [tmp_path / "0", tmp_path / "1"]
    with ThreadPoolExecutor(2) as threads:
        run = threads.map(
            lambda rank: in_a_fork(trained_with_another, rank, address, paths[rank]), (0, 1)
        )
    first, second = run
    assert first == "y: another process has targets that are NaN or infinite"
    assert second.startswith("y: 1 of 1 values are NaN or infinite, the first at index 0")
    one, other = (torch.load(path, weights_only=True) for path in paths)
    assert all(torch.equal(one[name], other[name]) for name in one)
    alone = Network()
    train(alone, batches())
    assert alone.head.bins.high > 1000
    for name, values in alone.state_dict().items():
        torch.testing.assert_close(one[name], values, rtol=1e-3, atol=1e-3)


def state(head):
    return copy.deepcopy(head.state_dict())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, math.nan, 5.0], "y: 1 of 3 values are NaN or infinite, the first at index 1"),
        ([5.0, math.inf], "y: 1 of 2 values are NaN or infinite, the first at index 1"),
        ([5.0, 2e38], "y: for targets in .* beyond float32; scale the targets"),
    ],
)
def test_bad_targets_change_nothing(y, message):
    head = made()
    head.observe(torch.tensor([2.0]))
    before = state(head)
    for call in (head.observe, lambda bad: head.loss(torch.zeros(len(bad), 8), bad)):
        with pytest.raises(ValueError, match=message):
            call(torch.tensor(y))
    assert all(torch.equal(now, before[name]) for name, now in state(head).items())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: made(spare=-1), "spare: need a whole number of at least 0, got -1"),
        (
            lambda: made(bins=StackedBins([START, START])),
            "spare: outputs with a range each cannot move",
        ),
        (lambda: made(bins=Bins([0.0, 1.0, 3.0])), "bins: .* cannot move; use Bins.uniform"),
        (lambda: made(spare=0).observe(torch.zeros(2)), "spare: the support of this head does not"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
