"""A small table, and models that are fitted to it in no time."""

import numpy as np
import pandas as pd

from softbins import HistogramRegressor, NeuralRegressor


def table(rows=80, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(rows, 2)), columns=["width", "height"])
    return frame, (2 * frame["width"] + random.normal(size=rows)).to_numpy()


def fitted(objective="hl-gaussian", bins=20, **how):
    how = {"max_epochs": 4, "early_stopping": True, "random_state": 0} | how
    return NeuralRegressor(objective, (8,), bins=bins, **how).fit(*table())


def tabular(**how):
    how = {"members": 2, "max_epochs": 4, "random_state": 0} | how
    return HistogramRegressor((8,), **how).fit(*table())
