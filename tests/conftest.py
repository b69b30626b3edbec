import os
import signal

import pytest
import torch
from hypothesis import HealthCheck, settings

# Two threads inside a small operation are slower than one, and the tests run in two processes.
torch.set_num_threads(1)
# Keras settles on a backend when it is imported; tests/keras tries another one as well.
os.environ.setdefault("KERAS_BACKEND", "torch")
# What JAX compiles here runs once: to optimize it takes longer than to run it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

settings.register_profile(
    "softbins", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("softbins")


@pytest.fixture(autouse=True)
def _seeded():
    # Much quicker than torch.manual_seed, which looks for all kinds of devices.
    torch.default_generator.manual_seed(0)


@pytest.fixture
def as_in_a_terminal():
    """Interrupts raise, also where the tests run in the background, which ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
