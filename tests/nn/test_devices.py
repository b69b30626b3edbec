"""All tensors of a training are on the device that was asked for.

There is no second device here, and so torch's meta device stands for one: it computes nothing, but
refuses to mix its tensors with those of the processor.
"""

from functools import partial

import pytest
import torch

from softbins._core import loss_reduction, tensor_checks
from softbins.bins import Bins
from softbins.nn.devices import on_device
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.groups import GroupTask, HeadTask, SharedTable, train_group
from softbins.nn.objectives import make_objective
from softbins.nn.settings import HeadSettings, MuonSettings, Settings
from softbins.nn.stack import StackedMLP
from softbins.tabular.objectives import histogram_objective

ROWS = 40
FOLDS = [torch.arange(5), torch.arange(5, 10)]
HEAD = HeadSettings(4, 1, 2, 0.01, 16, 2**20)
MUON = MuonSettings(momentum=0.9, rate_factor=2.0, max_inputs_per_unit=8)
OBJECTIVES = {
    "hl-gaussian for tables": histogram_objective(Bins.uniform(0, 1, 8), 1.0),
    **{
        name: make_objective(name, 0.0, 1.0, bins=8)
        for name in ("l2", "l1", "l2-noise", "l2-clipping", "l2-softmax", "hl-gaussian", "mdn")
    },
}


@pytest.fixture
def nothing_comes_back(monkeypatch):
    """What a training asks back of the meta device, which has no numbers, are zeros, and fine."""
    monkeypatch.setattr(tensor_checks, "_all_within", lambda *_: True)
    monkeypatch.setattr(loss_reduction, "holds_nan", lambda *_: False)
    monkeypatch.setattr(
        torch.Tensor,
        "cpu",
        lambda self: torch.zeros(self.shape, dtype=self.dtype),
    )


def network(kind, outputs, seeds):
    if kind == "plain":
        return StackedMLP(2, (16,), outputs, seeds, dropout=0.1)
    return EmbeddedMLP(2, [0], (16, 16), outputs, seeds)


def trained_on_meta(objective, kind, weighted=False, head=None):
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, 2), torch.rand(ROWS)
    everything = torch.arange(ROWS)
    settings = Settings(
        epochs=3,
        batch_size=16,
        patience=1,
        muon=MUON if kind == "embedded" else None,
        evaluate=("train", "validation"),
    )
    task = GroupTask(
        members=[0, 1],
        seeds=[0, 1],
        rows=[everything[5:], torch.cat([everything[:5], everything[10:]])],
        validation=FOLDS,
        objective=objective,
        settings=settings,
        make_network=partial(network, kind, objective.outputs),
        device="meta",
        head=head,
    )
    weight = torch.rand(ROWS).double().numpy() if weighted else None
    return train_group(*SharedTable.of(x.numpy(), y, weight, objective, settings), task)


@pytest.mark.usefixtures("nothing_comes_back")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["plain", "embedded"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_training_mixes_no_devices(name, kind, weighted):
    group = trained_on_meta(OBJECTIVES[name], kind, weighted)
    assert group.epoch >= 1
    assert {value.device.type for value in group.network.state_dict().values()} == {"cpu"}


@pytest.mark.usefixtures("nothing_comes_back")
def test_a_head_mixes_no_devices():
    objective = OBJECTIVES["hl-gaussian for tables"]
    group = trained_on_meta(objective, "embedded", head=HeadTask(objective, HEAD))
    assert group.head.weight.device.type == "cpu"


@pytest.mark.parametrize("bins", [Bins.uniform(0, 1, 8), Bins([0.0, 0.1, 0.3, 1.0])])
def test_an_objective_moves_with_its_bins_and_widths(bins):
    objective = histogram_objective(bins, 1.0)
    moved = on_device(objective, "meta")
    assert type(moved) is type(objective)
    assert moved.bins.edges.device.type == "meta"
    assert on_device(objective, "cpu").bins is objective.bins
