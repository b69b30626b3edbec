"""Train a Keras model with the Histogram Loss, save it, and predict means and quantiles.

    KERAS_BACKEND=torch python examples/keras_model.py

The backend may as well be jax or tensorflow. The data is simulated: a sum of waves, with noise that
grows with the first input. Writes waves.keras to build/, or to the folder given as argument.
"""

import sys
from pathlib import Path

import keras
import numpy as np

from softbins import Bins, Gaussian
from softbins.keras import HistogramDecoder, HistogramLoss

ROWS = 2000


def simulate(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(size=(ROWS, 3)).astype("float32")
    noise = 0.3 * x[:, 0] * random.normal(size=ROWS)
    return x, (np.sin(4 * x).sum(-1) + noise).astype("float32")


keras.utils.set_random_seed(0)
(x, y), (x_test, y_test) = simulate(0), simulate(1)
bins = Bins.covering(y, 50)
model = keras.Sequential(
    [keras.Input((3,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(bins.count)]
)
loss = HistogramLoss(bins, Gaussian.of_bins(1.0))
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss)
history = model.fit(x, y, epochs=30, batch_size=100, verbose=0)

# The decoder goes behind the trained model; the file then holds both.
predictor = keras.Sequential([model, HistogramDecoder(bins, quantiles=[0.05, 0.95])])
predictor.predict(x_test[:1], verbose=0)
path = Path(sys.argv[1] if len(sys.argv) > 1 else "build") / "waves.keras"
path.parent.mkdir(parents=True, exist_ok=True)
predictor.save(path)

predicted = keras.models.load_model(path).predict(x_test, verbose=0)
low, high = predicted["quantiles"].T
print(f"loss: {history.history['loss'][0]:.3f} at first, {history.history['loss'][-1]:.3f} at last")
print(f"MAE: {np.abs(predicted['mean'] - y_test).mean():.3f}")
print(f"90% interval covers: {((low <= y_test) & (y_test <= high)).mean():.3f}")
