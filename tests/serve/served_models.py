"""Small models of every kind that a service meets, and rows for them."""

import warnings

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


def dated_model():
    """A model of dates with and without a zone, times, durations, and names that it ignores."""
    day = pd.Series(pd.date_range("2024-01-31", periods=80, freq="31h"))
    frame = pd.DataFrame({"day": day.dt.strftime("%d.%m.%Y"), "sold": day.dt.tz_localize("UTC")})
    frame = frame.assign(time=day.dt.time, wait=day - day[0], name=[f"p{i}" for i in range(80)])
    model = NeuralRegressor(hidden=(8,), bins=20, max_epochs=2, random_state=0)
    with warnings.catch_warnings(action="ignore"):  # of the names
        return model.fit(frame, np.arange(80.0))


ROWS = {
    "houses": [
        {"size": 90.5, "garden": "True", "town": "Aachen", "zone": 2, "nothing": None},
        {"town": "never seen", "size": None, "nothing": 7},
        {},
    ],
    "boolean": [{"size": 90, "garden": True}, {"garden": None}],
    "nameless": [{"x0": 0.5, "x1": -1}, {"x1": 2.5}],
    "l2": [{"x0": 0.5, "x1": -1}],
    "dated": [
        {"day": "1.2.2024", "sold": "2024-02-01T12:30+01:00", "time": "12:30", "wait": 3600},
        {"day": "2024-02-01", "name": "anybody"},
        {"time": None},
    ],
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
    if kind == "dated":
        return pd.DataFrame(
            {
                "day": pd.to_datetime(["2024-02-01", "2024-02-01", None]),
                "sold": pd.to_datetime(["2024-02-01 11:30Z", None, None]),
                "time": ["12:30:00", None, None],
                "wait": pd.to_timedelta([1, None, None], unit="h"),
                "name": None,
            }
        )
    if kind == "boolean":
        return pd.DataFrame({"size": [90.0, np.nan], "garden": [True, None]})
    return np.array([[0.5, -1.0], [np.nan, 2.5]])[: len(ROWS[kind])]
