import math

import numpy as np
import pytest
import torch

from softbins import HistogramRegressor
from softbins.tabular.scaling import CHUNK_ROWS, MAX_FLOAT32, MAX_ROBUST_VALUE, Scaling

RNG = np.random.default_rng(0)
# One column each.
COLUMNS = {
    "normal": RNG.normal(5, 2, 400),
    "heavy tails": RNG.standard_cauchy(400),
    "lognormal": np.exp(RNG.normal(0, 4, 400)),
    "mostly zero": np.where(RNG.random(400) < 0.9, 0.0, RNG.normal(10, 1, 400)),
    "yes or no": (RNG.random(400) < 0.5).astype(float),
    "constant": np.full(400, 3.0),
    "years": RNG.integers(1950, 2020, 400).astype(float),
    "huge": np.where(np.arange(400) % 2, 1.7e308, -1.7e308),
    "one outlier": np.append(RNG.normal(size=399), 1e300),
    "tiny": RNG.normal(size=400) * 1e-300,
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 399, 400])
def test_robust_scaling_is_by_quartiles_of_values_that_are_there(name, rows):
    column = COLUMNS[name][:rows]
    found = Scaling.robust(column[:, None])
    first, median, third = np.quantile(column, (0.25, 0.5, 0.75), method="inverted_cdf")
    assert found.center == median
    if third > first:
        assert found.scale == min(third / 2 - first / 2, np.finfo(float).max / 2) * 2


@pytest.mark.parametrize("name", COLUMNS)
def test_robust_features_are_small_finite_and_in_order(name):
    column = COLUMNS[name]
    scaled = Scaling.robust(column[:, None])(column[:, None])[:, 0].numpy()
    assert scaled.dtype == np.float32
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() <= MAX_ROBUST_VALUE
    order = np.argsort(column, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


def test_golden():
    """Quartiles 1, 2 and 3: the scale is 2, and 10 is at z = 4."""
    column = np.array([0.0, 1.0, 2.0, 3.0, 10.0])[:, None]
    scaling = Scaling.robust(column)
    assert (scaling.center, scaling.scale, scaling.limit) == (2.0, 2.0, 4.0)
    bent = [math.asinh(z) for z in (-1, -0.5, 0, 0.5, 4)]
    expected = [a / math.sqrt(1 + a**2 / 16) for a in bent]
    np.testing.assert_allclose(scaling(column)[:, 0], expected, rtol=1e-6)


def test_where_quartiles_are_the_same_half_the_range_counts():
    scaling = Scaling.robust(np.array([0.0, 0, 0, 0, 0, 0, 0, 8])[:, None])
    assert scaling.scale == 4.0


@pytest.mark.parametrize("exponent", [-1000, -140, 0, 40])
def test_standard_is_the_distance_from_the_mean_up_to_a_power_of_two(exponent):
    column = np.ldexp(COLUMNS["normal"][:, None], exponent)
    scaling = Scaling.standard(column)
    distance = (column - column.mean()) / scaling.scale
    np.testing.assert_array_equal(scaling(column).numpy(), distance.astype(np.float32))
    assert math.frexp(scaling.scale.item())[0] == 0.5
    assert 0.5 <= np.abs(distance).max() < 1


def test_what_is_too_far_away_is_as_far_as_float32_goes():
    scaled = Scaling.standard(np.array([[1e-300], [-1e-300]]))(np.array([[1e30], [-1e30]]))
    assert scaled.flatten().tolist() == [MAX_FLOAT32, -MAX_FLOAT32]


def test_nothing_new_leaves_the_limit():
    scaling = Scaling.robust(COLUMNS["normal"][:, None])
    new = scaling(np.array([[1e308], [-1e308], [1e9]]))
    np.testing.assert_allclose(new[:2, 0], [MAX_ROBUST_VALUE, -MAX_ROBUST_VALUE], rtol=1e-4)
    assert new[2, 0] < MAX_ROBUST_VALUE


def test_many_rows_are_scaled_as_few():
    column = RNG.standard_cauchy((CHUNK_ROWS + 10, 1))
    scaling = Scaling.robust(column)
    whole = scaling(column)
    assert torch.equal(whole[-20:], scaling(column[-20:]))
    assert torch.equal(whole[:20], scaling(column[:20]))


@pytest.mark.parametrize("kind", ["robust", "standard"])
def test_file_and_back_to_the_bit(kind):
    features = np.stack([COLUMNS["normal"], COLUMNS["lognormal"]], 1)
    scaling = Scaling.fit(features, kind)
    tensors = scaling.tensors() | {"other": torch.zeros(1)}
    again = Scaling.from_tensors(tensors)
    assert list(tensors) == ["other"]
    assert torch.equal(again(features), scaling(features))


def test_another_kind_is_named():
    with pytest.raises(ValueError, match="scaling: expected 'robust' or 'standard', got 'minmax'"):
        HistogramRegressor(scaling="minmax").fit(RNG.normal(size=(20, 2)), np.arange(20.0))


def test_an_outlier_among_the_features_spoils_only_itself():
    x = RNG.normal(size=(300, 2))
    y = np.sin(2 * x[:, 0])
    x[0, 0] = 1e6
    errors = {}
    for scaling in ("robust", "standard"):
        how = {"scaling": scaling, "trees": False, "members": 2, "max_epochs": 20}
        model = HistogramRegressor(random_state=0, **how).fit(x, y)
        errors[scaling] = np.abs(model.predict(x[1:]) - y[1:]).mean()
    assert errors["robust"] < 0.5 * errors["standard"]
