"""Small models of every kind that a service meets, and rows for them."""

import numpy as np
import pandas as pd

from softbins import HistogramRegressor, NeuralRegressor


def houses(rows=80):
    """A table with a column of each kind."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(100, 20, rows).round(1)})
    frame.loc[3, "size"] = np.nan
    frame["garden"] = random.random(rows) < 0.5
    frame["town"] = random.choice(["Aachen", "Bönen", "<b>&amp;"], rows)
    frame["zone"] = random.integers(1, 4, rows).astype(float)
    frame["nothing"] = np.full(rows, np.nan)
    price = 2 * frame["size"].fillna(100) + 30 * frame["garden"] + random.normal(0, 10, rows)
    return frame, price.to_numpy()


def house_model():
    how = {"members": 2, "max_epochs": 4, "trees": False, "random_state": 0}
    columns = ["garden", "town", "zone"]
    return HistogramRegressor((8,), categorical_features=columns, **how).fit(*houses())


def boolean_model():
    """A model that takes a boolean for what it is, and remembers where it comes from."""
    frame, price = houses()
    frame.loc[:1, "size"] = 50.0, 150.5
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2, random_state=0)
    model.set_params(categorical_features=None).fit(
        frame[["size", "garden"]], pd.Series(price, name="price")
    )
    return model


def nameless_model(objective="hl-gaussian"):
    x = np.random.default_rng(0).normal(size=(60, 2))
    return NeuralRegressor(objective, (8,), bins=20, max_epochs=2, random_state=0).fit(x, x[:, 0])


ROWS = {
    "houses": [
        {"size": 90.5, "garden": "True", "town": "Aachen", "zone": 2, "nothing": None},
        {"town": "never seen", "size": None, "nothing": 7},
        {},
    ],
    "boolean": [{"size": 90, "garden": True}, {"garden": None}],
    "nameless": [{"x0": 0.5, "x1": -1}, {"x1": 2.5}],
    "l2": [{"x0": 0.5, "x1": -1}],
}


def frame_of(kind):
    """The rows as a data frame, made by hand."""
    if kind == "houses":
        return pd.DataFrame(
            {
                "size": [90.5, np.nan, np.nan],
                "garden": ["True", None, None],
                "town": ["Aachen", "never seen", None],
                "zone": [2.0, np.nan, np.nan],
                "nothing": [np.nan] * 3,
            }
        )
    if kind == "boolean":
        return pd.DataFrame({"size": [90.0, np.nan], "garden": [True, None]})
    return np.array([[0.5, -1.0], [np.nan, 2.5]])[: len(ROWS[kind])]
