"""What `distribution` gives goes through torch.export and ONNX, with onnxruntime as the oracle."""

import warnings

import pytest
import torch
from torch import nn

from softbins import Bins, Histogram, HistogramLoss
from tests.instances import BINS

BATCH = torch.export.Dim("batch")
OTHER_BINS = ["equal", "years", "few", "unequal"]
ANY_BATCH = {"x": {0: BATCH}, "y": {0: BATCH}}
ANSWERS = {
    "mean": lambda predicted, y: predicted.mean,
    "variance": lambda predicted, y: predicted.variance,
    "mode": lambda predicted, y: predicted.mode,
    "median": lambda predicted, y: predicted.median,
    "quantile": lambda predicted, y: predicted.quantile([0.05, 0.5, 0.95]),
    "interval": lambda predicted, y: predicted.interval(0.9),
    "shortest interval": lambda predicted, y: predicted.interval(0.9, kind="shortest"),
    "cdf": lambda predicted, y: predicted.cdf(y),
    "icdf": lambda predicted, y: predicted.icdf(torch.sigmoid(y)),
    "log_prob": lambda predicted, y: predicted.log_prob(y),
    "crps": lambda predicted, y: predicted.crps(y),
    "entropy": lambda predicted, y: predicted.entropy(),
}


class Served(nn.Module):
    """A small network with some answers of its predicted distribution."""

    def __init__(self, bins, *answers):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, bins.count))
        self.loss, self.answers = HistogramLoss(bins), answers

    def forward(self, x, y):
        predicted = self.loss.distribution(self.network(x))
        return {name: ANSWERS[name](predicted, y) for name in self.answers}


def inputs(bins, rows):
    """Features, and targets inside the bins, at their ends, and outside."""
    y = bins.low + (bins.high - bins.low) * (1.4 * torch.rand(rows) - 0.2)
    y[:2] = bins.edges[[0, -1]].float()
    return 3 * torch.randn(rows, 3), y


def run_onnx(model, example, given):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter still uses what torch deprecates
        program = torch.onnx.export(
            model, example, dynamo=True, dynamic_shapes=ANY_BATCH, verbose=False
        )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    names = [known.name for known in session.get_inputs()]
    values = dict(zip(("x", "y"), (part.numpy() for part in given), strict=True))
    return [torch.from_numpy(part) for part in session.run(None, {n: values[n] for n in names})]


def flat(answers):
    return list(torch.utils._pytree.tree_leaves(answers))


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_exported_answers_are_the_same_bits_for_any_batch(strict):
    bins = BINS["quantile"]
    model = Served(bins, *ANSWERS).eval()
    program = torch.export.export(model, inputs(bins, 5), dynamic_shapes=ANY_BATCH, strict=strict)
    for rows in (2, 9):
        given = inputs(bins, rows)
        exported, ours = program.module()(*given), model(*given)
        assert list(exported) == list(ANSWERS)
        for theirs, own in zip(flat(exported), flat(ours), strict=True):
            assert torch.equal(theirs, own)


@pytest.mark.parametrize(
    "bins",
    ["quantile", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_BINS)],
)
def test_onnxruntime_gives_the_same_answers(bins):
    bins = BINS[bins]
    model = Served(bins, *ANSWERS).eval()
    given = inputs(bins, 9)
    found = run_onnx(model, inputs(bins, 5), given)
    span = bins.high - bins.low
    for theirs, ours in zip(found, flat(model(*given)), strict=True):
        assert theirs.dtype == ours.dtype
        torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-6 * span)


def test_quantiles_are_checked_while_they_are_exported():
    class Wrong(Served):
        def forward(self, x, y):
            return self.loss.distribution(self.network(x)).quantile([0.5, 1.5])

    bins = BINS["equal"]
    with pytest.raises(ValueError, match=r"q: 1 of 2 values are outside \[0, 1\]"):
        torch.export.export(Wrong(bins), inputs(bins, 5))


def test_answers_compile_without_graph_breaks():
    torch.compiler.reset()
    bins = BINS["quantile"]
    model = Served(bins, *ANSWERS)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    given = inputs(bins, 5)
    for theirs, ours in zip(flat(compiled(*given)), flat(model(*given)), strict=True):
        torch.testing.assert_close(theirs, ours)


def test_a_compiled_distribution_still_refuses_bad_values():
    torch.compiler.reset()
    bins = Bins.uniform(0.0, 1.0, 4)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def cdf(logits, y):
        return Histogram(bins, logits=logits).cdf(y)

    logits, y = torch.zeros(3, 4), torch.tensor([0.5, -torch.inf, torch.inf])
    assert cdf(logits, y).tolist() == [0.5, 0.0, 1.0]
    with pytest.raises(ValueError, match="value: 1 of 3 values are NaN.* index 1"):
        cdf(logits, torch.tensor([0.5, torch.nan, 0.5]))
    logits[2] = -torch.inf
    with pytest.raises(ValueError, match="logits: row 2 is -inf throughout"):
        cdf(logits, y)
