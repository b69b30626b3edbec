"""Names, numbers of rows and free text are left out; categories never are."""

import numpy as np
import pandas as pd
import pytest

from softbins import NeuralRegressor, load
from softbins.tabular.columns import Columns
from softbins.tabular.text_kind import text_kind

QUICK = {"objective": "l2", "hidden": (8,), "max_epochs": 2, "random_state": 0}
SENTENCE = "the kitchen is new and the neighbours are quiet, number"

# Cells, and why they are left out; None for categories.
TEXTS = {
    "names": ([f"person {i}" for i in range(60)], "names"),
    "names, of which some come again": ([f"person {i % 56}" for i in range(60)], "names"),
    "names with gaps": ([f"id {i}" if i % 2 else None for i in range(120)], "names"),
    "free text": ([f"{SENTENCE} {i % 40}" for i in range(60)], "free text"),
    "few rows": ([f"person {i}" for i in range(49)], None),
    "five rows of each": ([f"town {i % 200}" for i in range(1000)], None),
    "two rows of each": ([f"town {i % 500}" for i in range(1000)], None),
    "few long texts": ([f"{SENTENCE} {i % 20}" for i in range(100)], None),
    "nothing": ([None] * 60, None),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_that_never_comes_again_is_left_out(case):
    cells, left_out = TEXTS[case]
    found = text_kind(cells)
    assert found.left_out == left_out
    assert found.kind == ("category" if left_out is None else "ignored")


def table(rows=60):
    x = np.arange(float(rows))
    return pd.DataFrame({"size": x, "name": [f"person {i}" for i in range(rows)]}), 2 * x


def test_a_warning_says_so_and_predictions_ignore_the_column(tmp_path):
    x, y = table()
    with pytest.warns(UserWarning, match="^X: column 'name' has another text in nearly every row"):
        model = NeuralRegressor(**QUICK).fit(x, y)
    assert model.columns_.kinds == ["number", "ignored"]
    assert model.provenance_.columns[1].remark.startswith("left out: has another text")
    model.save(tmp_path / "m")
    expected = model.predict(x)
    for name in ("anybody", None, 7, pd.Timestamp("2024-01-01")):
        given = x.assign(name=pd.Series([name] * len(x), dtype=object))
        np.testing.assert_array_equal(load(tmp_path / "m").predict(given), expected)
    found = model.explain(x[:2])
    assert found.mean[:, 1].tolist() == [0.0, 0.0]


def test_who_says_that_it_is_a_category_is_believed():
    x, _ = table()
    assert Columns.fit(x, ["name"]).kinds == ["number", "category"]
    assert Columns.fit(x.astype({"name": "category"})).kinds == ["number", "category"]


@pytest.mark.filterwarnings("ignore:X. column")
def test_something_has_to_be_left_to_learn_from():
    x, y = table()
    with pytest.raises(ValueError, match="^X: every column is left out"):
        NeuralRegressor(**QUICK).fit(x[["name"]], y)


@pytest.mark.filterwarnings("ignore:X. column")
def test_onnx_does_not_ask_for_it(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    x, y = table()
    model = NeuralRegressor(**QUICK).fit(x, y)
    model.to_onnx(tmp_path / "m.onnx", quantiles=None, coverage=None)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [each.name for each in session.get_inputs()] == ["size"]
    (mean,) = session.run(["mean"], {"size": x[["size"]].to_numpy()})
    np.testing.assert_allclose(mean.reshape(-1), model.predict(x), rtol=1e-6)
