"""`torch.load(..., weights_only=True)` gives bins and targets back, and runs nothing but checks."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.distributions import Laplace

from softbins import (
    Bins,
    FromCDF,
    Gaussian,
    HistogramLoss,
    OneBin,
    Payoff,
    Similarity,
    TwoHot,
    UniformMix,
)
from softbins.bins import Bias
from tests.instances import BINS, squared

TARGETS = {
    "gaussian": Gaussian(0.3, outside="tail"),
    "gaussian of bins": Gaussian.of_bins(0.75),
    "gaussian of many": Gaussian(torch.tensor([[0.5], [2.0]])),
    "onebin": OneBin(outside="error"),
    "uniform": UniformMix(0.01),
    "uniform of many": UniformMix(torch.tensor([0.0, 0.01])),
    "twohot": TwoHot(),
    "similarity": Similarity(0.4),
}


def reloaded(item, path):
    torch.save(item, path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("name", BINS)
def test_bins_come_back(name, tmp_path):
    bins = BINS[name]
    again = reloaded({"bins": bins}, tmp_path / "file.pt")["bins"]
    assert again == bins
    assert again.step == bins.step
    assert torch.equal(again.centers, bins.centers)
    assert again.bias is None


def test_bins_keep_what_they_cost(tmp_path):
    bins = BINS["equal"].with_bias(Bias(0.25, 0.5))
    assert reloaded(bins, tmp_path / "file.pt").bias == bins.bias
    assert pickle.loads(pickle.dumps(bins)).bias == bins.bias
    assert copy.copy(bins).bias == bins.bias


@pytest.mark.parametrize("name", TARGETS)
def test_targets_come_back(name, tmp_path):
    target = TARGETS[name]
    again = reloaded({"target": target}, tmp_path / "file.pt")["target"]
    assert again == target
    assert hash(again) == hash(target)
    y = torch.tensor([0.1, 0.7])
    weights = target.weights(y, BINS["equal"])
    assert torch.equal(again.weights(y, BINS["equal"]), weights)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_equals_itself_alone(name):
    target = TARGETS[name]
    assert target != repr(target)
    assert [other for other, it in TARGETS.items() if it == copy.deepcopy(target)] == [name]


def test_parts_of_a_module_without_values_can_be_copied():
    loss = HistogramLoss(BINS["equal"]).to("meta")
    assert copy.deepcopy(loss).bins.edges.device.type == "meta"


# A file that was tampered with


class Reduced:
    """Pickled as anything that `__reduce__` may say."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def unchecked(kind, **state):
    """A target that was never checked."""
    target = object.__new__(kind)
    target.__dict__.update(state)
    return target


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Reduced(Bins, (torch.tensor([0.0, 2.0, 1.0]),)), "edges: must increase"),
        (Reduced(Bins, (torch.tensor([0.0, 1.0, 2.0]),), {"edges": 3}), "unpack"),
        (unchecked(Gaussian, sigma=-1.0), "sigma must be positive"),
        (unchecked(Gaussian, sigma=1.0, outside="no"), "outside: expected"),
        (unchecked(Gaussian, sigma=1.0, weights=2.0), "weights: a checkpoint must not replace"),
        (unchecked(UniformMix, epsilon=0.7), "epsilon must lie in"),
    ],
    ids=["edges", "state", "sigma", "outside", "method", "epsilon"],
)
def test_what_a_new_one_would_refuse_is_refused(item, message, tmp_path):
    torch.save(item, tmp_path / "file.pt")
    with pytest.raises(ValueError, match=message):
        torch.load(tmp_path / "file.pt", weights_only=True)


ran = []


def note(*parts):
    ran.append(parts)
    return torch.tensor([0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "item",
    [
        Reduced(Bins, (Reduced(note, ()),)),
        unchecked(Gaussian, sigma=Reduced(note, ())),
        FromCDF(note),
        Payoff(squared, 1.0),
        nn.ModuleList([HistogramLoss(BINS["equal"])]),
    ],
    ids=["bins", "gaussian", "from cdf", "payoff", "module"],
)
def test_functions_and_modules_are_still_refused(item, tmp_path):
    torch.save(item, tmp_path / "file.pt")
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global|not an allowed global"):
        torch.load(tmp_path / "file.pt", weights_only=True)
    assert ran == []


def laplace(y):
    return Laplace(y, 0.5)


def test_a_target_with_a_function_comes_back_if_both_are_trusted(tmp_path):
    torch.save(FromCDF(laplace), tmp_path / "file.pt")
    with torch.serialization.safe_globals([FromCDF, laplace]):
        assert torch.load(tmp_path / "file.pt", weights_only=True) == FromCDF(laplace)


# A process for each statement, which has imported nothing but torch before it.
LOAD = """
import os, sys, torch
for imported in sys.argv[1:]:
    if os.fork() == 0:
        exec(imported)
        try:
            print(torch.load("file.pt", weights_only=True), flush=True)
        except Exception as error:
            print(*str(error).split(), flush=True)
        os._exit(0)
    os.wait()
"""
FINDS = "[Bins(4 equal bins on [0, 1]), Gaussian("
REFUSES = "add_safe_globals([softbins.bins.Bins])"


def test_what_has_to_be_imported_before_a_file_is_read(tmp_path):
    torch.save([Bins.uniform(0.0, 1.0, 4), Gaussian(0.5)], tmp_path / "file.pt")
    said = {
        "": REFUSES,
        "import softbins": REFUSES,
        "from softbins import HistogramLoss": FINDS,
        "import softbins.targets": FINDS,
    }
    command = [sys.executable, "-c", LOAD, *said]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    for (imported, expected), line in zip(said.items(), done.stdout.splitlines(), strict=True):
        assert expected in line, imported
