"""Train a network in JAX with the Histogram Loss and optax, and say how good it is.

    python examples/jax_optax.py

The data is simulated: a sum of waves, with noise that grows with the first input.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import softbins.jax
from softbins import Bins, Gaussian

ROWS, HIDDEN, BINS, STEPS, BATCH = 2000, 64, 50, 500, 200


def simulate(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(size=(ROWS, 3)).astype("float32")
    y = np.sin(4 * x).sum(-1) + 0.3 * x[:, 0] * random.normal(size=ROWS)
    return x, y.astype("float32")


def initial(key):
    first, second = jax.random.split(key)
    w1 = jax.random.normal(first, (3, HIDDEN)) / 3**0.5
    w2 = jax.random.normal(second, (HIDDEN, BINS)) / HIDDEN**0.5
    return w1, jnp.zeros(HIDDEN), w2, jnp.zeros(BINS)


def network(params, x):
    w1, b1, w2, b2 = params
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


(x, y), (x_test, y_test) = simulate(0), simulate(1)
bins, target, optimizer = Bins.covering(y, BINS), Gaussian.of_bins(1.0), optax.adam(1e-2)


@jax.jit
def step(params, state, x, y):
    def mean_loss(params):
        return softbins.jax.loss(network(params, x), y, bins, target).mean()

    updates, state = optimizer.update(jax.grad(mean_loss)(params), state)
    return optax.apply_updates(params, updates), state


params = initial(jax.random.key(0))
state = optimizer.init(params)
for rows in np.random.default_rng(0).integers(ROWS, size=(STEPS, BATCH)):
    params, state = step(params, state, x[rows], y[rows])

logits = network(params, x_test)
low, high = softbins.jax.quantile(logits, [0.05, 0.95], bins).T
print(f"MAE: {jnp.abs(softbins.jax.mean(logits, bins) - y_test).mean():.3f}")
print(f"CRPS: {softbins.jax.crps(logits, y_test, bins).mean():.3f}")
print(f"90% interval covers: {((low <= y_test) & (y_test <= high)).mean():.3f}")
