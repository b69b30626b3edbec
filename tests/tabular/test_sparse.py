"""Sparse matrices are made dense up to a size, and the error beyond it shows the way out."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags

from softbins import HistogramRegressor, NeuralRegressor

QUICK = {"hidden": (8,), "members": 2, "max_epochs": 3, "random_state": 0}
KINDS = [sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


def towns(rows=60):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": random.normal(size=rows), "town": random.choice(list("ABC"), rows)}
    )
    return frame, 2 * frame["size"] + (frame["town"] == "A")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_sparse_matrix_is_the_array_that_it_stands_for(kind):
    x = np.random.default_rng(0).normal(size=(40, 3)) * [1, 0, 1]
    y = x.sum(axis=1)
    dense = HistogramRegressor(trees=False, **QUICK).fit(x, y)
    found = HistogramRegressor(trees=False, **QUICK).fit(kind(x), y)
    assert found.n_features_in_ == 3
    np.testing.assert_array_equal(found.predict(kind(x)), dense.predict(x))


def test_a_pipeline_may_encode_categories_itself():
    frame, y = towns()
    encoder = make_column_transformer(
        (OneHotEncoder(), ["town"]), remainder="passthrough", sparse_threshold=1.0
    )
    pipe = make_pipeline(encoder, NeuralRegressor(**QUICK)).fit(frame, y)
    assert sparse.issparse(pipe[:-1].transform(frame))
    assert np.isfinite(pipe.predict(frame)).all()


def test_a_frame_of_sparse_columns_is_taken():
    x = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame({"a": pd.arrays.SparseArray(x[:, 0]), "b": x[:, 1]})
    found = NeuralRegressor(**QUICK).fit(frame, x.sum(axis=1)).predict(frame)
    dense = pd.DataFrame(x, columns=["a", "b"])
    np.testing.assert_array_equal(
        found, NeuralRegressor(**QUICK).fit(dense, x.sum(axis=1)).predict(dense)
    )


def test_what_is_too_large_is_refused_before_memory_is_taken():
    huge = sparse.csr_array((200_000, 100_000))
    with pytest.raises(ValueError, match=r"160\.0 GB.*1 GB is the most.*can come as they are"):
        HistogramRegressor(**QUICK).fit(huge, np.zeros(200_000))


def test_scikit_learn_knows():
    assert get_tags(HistogramRegressor()).input_tags.sparse
