"""The loss and the decoder agree with PyTorch on the backend that is chosen, and train and save.

In the ordinary run that is the torch backend; test_backends.py runs this file on others.
"""

import math
import re

import keras
import numpy as np
import pytest
import torch

from softbins import Bins, FromCDF, Gaussian, Histogram, OneBin, TwoHot, UniformMix
from softbins.keras import HistogramDecoder, HistogramLoss
from tests.instances import BINS, WITHOUT_ATOMS, array_cases
from tests.torch_reference import TOLERANCE, assert_equal_to_torch, references

TARGETS = [
    Gaussian.of_bins(0.7),
    Gaussian(0.3, outside="tail"),
    OneBin(),
    TwoHot(),
    UniformMix(0.01),
]


def losses_and_gradient(loss, y, logits):
    """The losses of rows, and the gradient of their sum, by the backend that is chosen."""
    name = keras.backend.backend()
    if name == "torch":
        leaf = torch.tensor(logits, requires_grad=True)
        losses = loss(y, leaf)
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradient
    if name == "jax":
        jax = pytest.importorskip("jax")
        both = jax.jit(lambda z: (loss(y, z), jax.grad(lambda z: loss(y, z).sum())(z)))
        return both(logits)
    tensorflow = pytest.importorskip("tensorflow")
    with tensorflow.GradientTape() as tape:
        leaf = tensorflow.Variable(logits)
        losses = loss(y, leaf)
        total = tensorflow.reduce_sum(losses)
    return losses, tape.gradient(total, leaf)


@pytest.mark.parametrize(("bins", "outside"), array_cases())
def test_losses_and_gradients_are_those_of_torch(bins, outside):
    for name, case in references(bins, outside).items():
        loss = HistogramLoss(case.bins, case.target, reduction=None)
        losses, gradient = losses_and_gradient(loss, case.y, case.logits)
        assert_equal_to_torch(losses, case.losses, name, relative=TOLERANCE)
        assert_equal_to_torch(gradient, case.gradient, name)


@pytest.mark.parametrize("bins", WITHOUT_ATOMS)
def test_the_decoder_says_what_the_histogram_says(bins):
    bins, levels = BINS[bins], [0.05, 0.5, 0.95]
    logits = torch.randn(50, bins.count)
    known = Histogram(bins, logits=logits.double())
    found = HistogramDecoder(bins, levels)(logits.numpy())
    scale = max(abs(bins.low), abs(bins.high), bins.high - bins.low)
    mean = keras.ops.convert_to_numpy(found["mean"])
    np.testing.assert_allclose(mean / scale, known.mean / scale, atol=TOLERANCE)
    quantiles = torch.tensor(keras.ops.convert_to_numpy(found["quantiles"]))
    reached = known.cdf(quantiles.T).T
    np.testing.assert_allclose(reached, np.broadcast_to(levels, reached.shape), atol=5e-5)


def test_a_column_of_targets_is_as_good_as_a_list_of_them():
    loss, logits = HistogramLoss(BINS["equal"]), np.eye(3, 100, dtype="float32")
    y = np.array([0.1, 0.2, 0.9])
    assert float(loss(y, logits)) == float(loss(y[:, None], logits))


def test_sample_weights_are_those_of_keras():
    loss, logits, y = HistogramLoss(BINS["equal"]), np.eye(2, 100, dtype="float32"), np.arange(2.0)
    first, second = (float(loss(y[rows], logits[rows])) for rows in ([0], [1]))
    weighted = float(loss(y, logits, sample_weight=np.array([3.0, 1.0])))
    assert weighted == pytest.approx((3 * first + second) / 2, rel=1e-6)


def test_low_precision_logits_are_worked_on_in_float32():
    loss = HistogramLoss(BINS["equal"], dtype="bfloat16")
    found = loss.call(np.array([0.5]), keras.ops.zeros((1, 100), dtype="bfloat16"))
    assert float(found[0]) == pytest.approx(math.log(100), rel=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_target_that_is_not_finite_has_a_loss_of_nan(bad):
    loss = HistogramLoss(BINS["few"], OneBin())
    assert math.isnan(float(loss(np.array([0.5, bad]), np.zeros((2, 2)))))


# Training and files


@pytest.fixture(scope="module")
def trained():
    """A small model, the table it has learnt, and its losses over the epochs."""
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    x = random.normal(size=(256, 3)).astype("float32")
    y = (x.sum(-1) + 0.1 * random.normal(size=256)).astype("float32")
    bins = Bins.covering(y, 20)
    dense = keras.layers.Dense
    model = keras.Sequential([keras.Input((3,)), dense(32, activation="relu"), dense(bins.count)])
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=HistogramLoss(bins))
    history = model.fit(x, y, epochs=15, batch_size=64, verbose=0)
    return model, x, y, history.history["loss"]


def test_training_lowers_the_loss_and_predicts_means_and_quantiles(trained):
    model, x, y, losses = trained
    assert losses[-1] < 0.8 * losses[0]
    predictor = keras.Sequential([model, HistogramDecoder(model.loss.bins, [0.05, 0.95])])
    found = predictor.predict(x, verbose=0)
    assert found["mean"].shape == (256,)
    assert np.abs(found["mean"] - y).mean() < 0.3 * y.std()
    low, high = found["quantiles"].T
    assert ((low <= y) & (y <= high)).mean() > 0.85


def test_a_file_keeps_the_model_its_loss_and_its_decoder(trained, tmp_path):
    model, x, y, _ = trained
    predictor = keras.Sequential([model, HistogramDecoder(model.loss.bins, [0.1])])
    model.save(tmp_path / "model.keras")
    predictor.save(tmp_path / "predictor.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.loss.bins == model.loss.bins
    assert again.evaluate(x, y, verbose=0) == pytest.approx(model.evaluate(x, y, verbose=0))
    decoded = keras.models.load_model(tmp_path / "predictor.keras").predict(x, verbose=0)
    for name, values in predictor.predict(x, verbose=0).items():
        np.testing.assert_array_equal(decoded[name], values)


@pytest.mark.parametrize("bins", ["quantile", "symlog"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_a_configuration_is_the_whole_loss(target, bins):
    loss = HistogramLoss(BINS[bins], target, reduction="sum", name="own")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (again.bins, again.reduction, again.name) == (loss.bins, "sum", "own")
    assert repr(again.target) == repr(target)


# What has to be refused


LOGITS, TWO, THREE = np.zeros((2, 2), "float32"), [0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]
REFUSED = {
    "y: shape (3,) does not match logits": lambda: HistogramLoss(TWO)(np.zeros(3), LOGITS),
    "logits: last dimension must be": lambda: HistogramLoss(THREE)(np.zeros(2), LOGITS),
    "number of bins, 3, got shape": lambda: HistogramDecoder(THREE)(LOGITS),
    "target: expected one of Gaussian": lambda: HistogramLoss(TWO, FromCDF(None)),
    "target: sigma must be a number": lambda: HistogramLoss(TWO, Gaussian(torch.ones(2))),
    "quantiles: 1 of 2 values are outside [0, 1]": lambda: HistogramDecoder(TWO, [0.5, 2]),
    "quantiles: need a list of levels": lambda: HistogramDecoder(TWO, 0.5),
    "edges: must increase": lambda: HistogramLoss([0.0, 2.0, 1.0]),
    "bins: an atom, at 1.0, has no counterpart": lambda: HistogramLoss([0.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("complaint", REFUSED)
def test_what_is_wrong_is_said(complaint):
    with pytest.raises((TypeError, ValueError), match=re.escape(complaint)):
        REFUSED[complaint]()
