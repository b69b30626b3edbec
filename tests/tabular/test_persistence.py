"""Model files of wrong sizes, kinds and numbers, though well-formed and with a right digest.

`tests/faults/test_model_fuzz.py` makes edits by the thousand; here are those that need a hand.
"""

import math
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from softbins import Bins, HistogramRegressor, ModelFileError, NeuralRegressor, load
from softbins._core.model_file import read, write
from softbins.tabular.model_schema import check_model
from tests.forked import in_a_fork
from tests.tabular.quick import with_few_rounds

REFUSED = Path(__file__).parent / "model_files" / "refused" / "calibrated_by_temperature.model"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] > 0, 5.0, 0.0) + 0.1 * RNG.normal(size=80)
LITTLE_MEMORY = 400_000_000  # bytes


@pytest.fixture(scope="module")
def histogram(tmp_path_factory):
    """Header and tensors of a small model with trees."""
    model = HistogramRegressor((8,), members=2, bins=16, max_epochs=5, random_state=0)
    model._defaults = with_few_rounds(5)
    model.fit(X, Y).save(tmp_path_factory.mktemp("model") / "m")
    assert model.forest_ is not None
    return read(tmp_path_factory.getbasetemp() / "model0" / "m")


def changed(header, place, value):
    """A copy of the header with another value at a place, which is given by its keys."""
    key, *rest = place
    copy = list(header) if isinstance(header, list) else dict(header)
    copy[key] = changed(copy[key], rest, value) if rest else value
    return copy


LIES = [
    (("parameters", "members"), -3),
    (("parameters", "batch_size"), 0),
    (("range",), ["a", "b"]),
    (("range",), [0.0, 1.0]),
    (("epochs",), -1),
    (("history",), [{}]),
    (("history", 0), {"member": 0, "epoch": 1}),
    (("history", 0, "member"), None),
    (("network", "hidden"), [20_000, 20_000]),
    (("network", "hidden"), [20_000]),
    (("network", "members"), 100_000),
    (("network", "embedded"), [50]),
    (("network", "embedded"), [1, 0]),
    (("network", "embedded"), [0, 0]),
    (("bias",), [-1.0, 0.0]),
    (("blur",), 0.0),
    (("blur",), 10**400),
    (("aggregator", "bin_splits"), 0),
    (("aggregator", "bin_splits"), 10**6),
    (("aggregator", "shares"), None),
    (("aggregator", "shares"), {"trees": 1.5}),
    (("aggregator", "shares"), {"others": 0.5}),
    (("aggregator", "is_lattice"), 1),
    (("aggregator", "rows"), 0),
    (("aggregator", "calibration", "before"), [0.0]),
    (("aggregator", "calibration", "before"), [1.0, 0.0]),
    (("aggregator", "calibration", "after"), [0.0, 10.0**9]),
    (("parameters", "lower"), "0"),
    (("columns", "parts", 0, "fill"), 1e39),
    (("columns", "parts", 0, "kind"), "empty"),
    (("trees",), False),
]


@pytest.mark.parametrize(("place", "value"), LIES)
def test_a_header_that_lies_is_refused_at_once(histogram, tmp_path, place, value):
    header, tensors = histogram
    write(tmp_path / "m", changed(header, place, value), tensors)
    start = time.process_time()
    with pytest.raises(ModelFileError, match="holds no model") as caught:
        load(tmp_path / "m")
    assert time.process_time() - start < 1
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_tensor_may_hold_what_is_not_finite(histogram, tmp_path, value):
    header, tensors = histogram
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and (name, value) != ("scaling.limit", math.inf):
            spoiled = tensor.clone()
            spoiled.view(-1)[-1] = value
            write(tmp_path / "m", header, tensors | {name: spoiled})
            with pytest.raises(ModelFileError, match=name.replace("scaling.limit", "limit")):
                load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 0, 0),  # back to the root, for ever
        ("right", 0, -1),  # the last tree's last node
        ("roots", 0, 1),
        ("roots", -1, 0),
        ("depths", 0, 1000),
        ("feature", 0, 10**6),
        ("rest", 1, 1e6),
    ],
)
def test_trees_lead_from_the_root_to_a_leaf(histogram, name, place, value):
    header, tensors = histogram
    spoiled = tensors[f"forest.{name}"].clone()
    spoiled[place] = len(tensors["forest.left"]) - 1 if value == -1 else value
    with pytest.raises(ValueError, match="tensor forest"):
        check_model(header, tensors | {f"forest.{name}": spoiled})


def test_weights_whose_outputs_could_overflow_are_refused(tmp_path):
    model = NeuralRegressor("l2", (8,) * 12, max_epochs=1, random_state=0).fit(X, Y)
    model.save(tmp_path / "m")
    header, tensors = read(tmp_path / "m")
    large = {name: 1e30 * value for name, value in tensors.items() if name.startswith("weights")}
    write(tmp_path / "m", header, tensors | large)
    with pytest.raises(ModelFileError, match="weights: so large"):
        load(tmp_path / "m")


def test_a_mixture_needs_a_range_that_its_bins_can_cut(tmp_path):
    NeuralRegressor("mdn", (8,), max_epochs=1, random_state=0).fit(X, Y).save(tmp_path / "m")
    header, tensors = read(tmp_path / "m")
    write(tmp_path / "m", header | {"range": [1.0, 1.0 + 1e-15]}, tensors)
    with pytest.raises(ModelFileError, match="too narrow"):
        load(tmp_path / "m")


def test_bins_that_cannot_be_cut_are_refused(histogram):
    header, tensors = histogram
    narrow = 1e6 + 1e-9 * torch.arange(17, dtype=torch.float64)
    header = header | {"range": [narrow[0].item(), narrow[-1].item()]}
    header = changed(header, ("aggregator", "bin_splits"), 1)
    check_model(header, tensors | {"edges": narrow})
    header = changed(header, ("aggregator", "bin_splits"), 4)
    with pytest.raises(ValueError, match="bin_splits"):
        check_model(header, tensors | {"edges": narrow})


def test_a_model_that_diverged_is_not_saved(tmp_path):
    model = NeuralRegressor("l2", (8,), max_epochs=1, random_state=0).fit(X, Y)
    model.network_.weights[0].data[0, 0, 0] = math.nan
    with pytest.raises(ValueError, match="model: cannot be saved.*weights.0.*NaN"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


# A file that is honest, but strange: as much memory as it is large, and not more.


def prediction_in_little_memory(path):
    """What the model in a file says of one row, in a process with little time and memory."""
    return in_a_fork(_prediction_in_little_memory, path)


def _prediction_in_little_memory(path):
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + LITTLE_MEMORY,) * 2)
    start = time.process_time()
    model = load(path)
    assert time.process_time() - start < 1
    return model.predict([[0.0, 1.0]]).item()


def test_many_members_take_no_time(tmp_path):
    one = NeuralRegressor("l2", (1,), max_epochs=1, random_state=0).fit(X, Y)
    one.save(tmp_path / "m")
    header, tensors = read(tmp_path / "m")
    many = {n: t if "scaling" in n else t.repeat(50_000, 1, 1) for n, t in tensors.items()}
    write(tmp_path / "m", changed(header, ("parameters", "members"), 50_000), many)
    # All members are the same, and so is their mean.
    expected = one.predict([[0.0, 1.0]]).item()
    assert prediction_in_little_memory(tmp_path / "m") == pytest.approx(expected, rel=1e-12)


def test_many_unequal_bins_take_no_memory(tmp_path):
    model = HistogramRegressor(
        (1,), bins=Bins.quantile(Y, 20), blur=None, members=1, early_stopping=False, max_epochs=1
    )
    with pytest.warns(UserWarning, match="^bins: "):
        model.fit(X, Y)
    model.save(tmp_path / "m")
    header, tensors = read(tmp_path / "m")
    count = 10_000
    edges = torch.linspace(0, 3, count + 1, dtype=torch.float64).exp()
    tensors |= {"edges": edges, "weights.1": torch.zeros(1, 1, count)}
    tensors["biases.1"] = torch.zeros(1, 1, count)
    header = changed(header, ("parameters", "bins"), count)
    write(tmp_path / "m", header | {"range": [edges[0].item(), edges[-1].item()]}, tensors)
    # Logits of 0 give every bin the same probability.
    expected = Bins(edges).centers.mean().item()
    assert prediction_in_little_memory(tmp_path / "m") == pytest.approx(expected, rel=1e-12)


def test_hidden_layers_that_were_widened_come_back(tmp_path):
    # 30 units are stored as 32, because matrix products are quicker then.
    model = NeuralRegressor("l2", (30,), members=3, max_epochs=1, random_state=0).fit(X, Y)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.network_.hidden == (30,)
    assert again.network_.members == len(again.network_.seeds) == 3
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_a_calibration_of_an_older_version_is_refused_in_one_line():
    with pytest.raises(ModelFileError) as caught:
        load(REFUSED)
    message = str(caught.value)
    assert "calibrated by an older version" in message
    assert message.endswith("fit it again)")
    assert "\n" not in message
