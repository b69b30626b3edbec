import tracemalloc

import numpy as np
import pandas as pd
import pytest

from softbins.tabular import encoding
from softbins.tabular.columns import Columns
from softbins.tabular.encoding import encode_table
from softbins.tabular.scaling import Scaling


def table(rows=300):
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(np.arange(rows) % 9 == 0, np.nan, generator.normal(size=rows)),
            "town": generator.choice(["a", "b", "c"], rows),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(generator.integers(0, 900, rows)),
            "count": generator.integers(0, 10**12, rows),
        }
    )


def encoded(X, used=..., kind="robust", trees=True):
    return encode_table(
        Columns.fit(X, "from_dtype", used), X, used, kind, trees=trees, weighted=False
    )


@pytest.mark.parametrize("kind", ["robust", "standard"])
def test_features_are_scaled_in_float64_and_rounded_to_float32_last(kind):
    X = table()
    found, features = encoded(X, kind=kind), Columns.fit(X).transform(X)
    assert found.scaled.dtype == np.float32
    np.testing.assert_allclose(found.scaled, Scaling.fit(features, kind)(features), rtol=1e-6)
    np.testing.assert_array_equal(found.codes, found.transform.tree_bins.codes(features))
    ends = (
        (found.low, features.min(0)),
        (found.high, features.max(0)),
        (found.total, features.sum(0)),
    )
    for mine, expected in ends:
        np.testing.assert_allclose(mine, expected)


@pytest.mark.parametrize("numbers", [1, 50, 1000])
def test_the_size_of_blocks_changes_nothing(monkeypatch, numbers):
    X, used = table(), np.arange(300) % 3 > 0
    for rows in (..., used):
        whole = encoded(X, rows)
        with monkeypatch.context() as patch:
            patch.setattr(encoding, "BLOCK_NUMBERS", numbers)
            parts = encoded(X, rows)
        np.testing.assert_array_equal(parts.scaled, whole.scaled)
        np.testing.assert_array_equal(parts.codes, whole.codes)
        assert parts.digest.digest() == whole.digest.digest()


def test_rows_that_are_not_used_are_as_if_they_were_not_there():
    X, used = table(), np.arange(300) % 3 > 0
    some, alone = encoded(X, used), encoded(X[used])
    np.testing.assert_array_equal(some.scaled, alone.scaled)
    np.testing.assert_array_equal(some.codes, alone.codes)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_numbers_of_any_dtype_are_what_they_are_in_float64(dtype):
    X = (40 * np.random.default_rng(0).random((200, 3))).astype(dtype)
    found, expected = encoded(X), encoded(X.astype(np.float64))
    np.testing.assert_array_equal(found.scaled, expected.scaled)
    assert found.digest.digest() == expected.digest.digest()


def test_large_numbers_close_to_each_other_stay_apart():
    # Seconds since 1970: float32 knows them to two minutes only.
    seconds = 1.8e9 + np.arange(1000.0)
    found = encoded(seconds[:, None])
    assert (np.diff(found.scaled[:, 0]) > 0).all()
    assert (np.diff(found.codes[0].astype(int)) >= 0).all()


def test_a_table_is_not_copied_whole_in_float64(monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_NUMBERS", 2**12)
    X = np.random.default_rng(0).normal(size=(20_000, 50))
    columns = Columns.fit(X)
    tracemalloc.start()
    try:
        encode_table(columns, X, ..., "robust", trees=True, weighted=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Four bytes for each number, one for its bin, and a column or a block at a time.
    assert peak < 1.3 * (4 + 1) * X.size
