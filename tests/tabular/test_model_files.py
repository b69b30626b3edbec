"""Model files that an earlier version of the library wrote load, and predict what they did then."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import softbins

FILES = Path(__file__).parent / "model_files"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.fixture(scope="module", params=sorted(EXPECTED))
def case(request):
    return softbins.load(FILES / f"{request.param}.model"), EXPECTED[request.param]


@pytest.fixture(scope="module")
def rows():
    """Rows with a gap, a missing category and one that training had not seen."""
    return pd.read_csv(FILES / "rows.csv")


@pytest.mark.parametrize(
    ("name", "predicted"),
    [
        ("mean", lambda model, X: model.predict(X)),
        ("median", lambda model, X: model.predict(X, "median")),
        ("interval", lambda model, X: model.predict_interval(X, 0.8)),
        ("quantiles", lambda model, X: model.predict_quantiles(X, [0.1, 0.5, 0.9])),
        ("cdf", lambda model, X: model.predict_cdf(X, [100.0, 200.0])),
        ("variance", lambda model, X: model.predict_distribution(X).variance),
    ],
)
def test_an_old_model_predicts_what_it_did(case, rows, name, predicted):
    model, expected = case
    # Another processor may add up in another order: nothing else may differ. Where inputs are
    # bounded, networks compute in float32 today, which moves predictions by a millionth of their
    # spread at most.
    bounded = np.isfinite(model.scaling_.limit)
    rtol, atol = (0, 1e-6 * np.std(expected[name])) if bounded else (1e-10, 1e-12)
    if name != "mean" and getattr(model, "aggregator_", None) is not None:
        # The map of this file was made for histograms that were shifted to the mean after it. Today
        # they are moved in odds, which changes little.
        rtol, atol = 0.2, 0.05 * np.std(expected[name])
    np.testing.assert_allclose(predicted(model, rows), expected[name], rtol=rtol, atol=atol)


def test_an_old_model_can_be_saved_again(case, rows, tmp_path):
    model, _ = case
    model.save(tmp_path / "again.model")
    again = softbins.load(tmp_path / "again.model")
    assert again.predict(rows).tolist() == model.predict(rows).tolist()
    assert again.predict_interval(rows).tolist() == model.predict_interval(rows).tolist()
