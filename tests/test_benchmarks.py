"""The benchmarks' own tools: how tables are read and split, what peers get, and the summaries."""

import importlib
import math
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ACCURACY = Path(__file__).parents[1] / "benchmarks" / "accuracy"
CSV = "size,color,target\n1.5,red,10\n,blue,20\n2.5,,30\n"


@pytest.fixture
def accuracy(monkeypatch):
    """Import a module of benchmarks/accuracy, whose modules import each other by plain names."""
    monkeypatch.syspath_prepend(ACCURACY)
    for name in ("data", "ours", "peers", "run", "table"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


@pytest.fixture
def table_folder(tmp_path):
    (tmp_path / "heldout").mkdir()
    (tmp_path / "heldout" / "quake.csv").write_text(CSV)
    return tmp_path


# Tables


def test_a_heldout_table_keeps_text_and_gaps(accuracy, table_folder):
    data = accuracy("data")
    x, y = data.load(table_folder, "quake")
    assert y.tolist() == [10.0, 20.0, 30.0]
    assert list(x.columns) == ["size", "color"]
    assert data.text_columns(x) == ["color"]
    assert x["color"].tolist()[:2] == ["red", "blue"]
    assert x.isna().to_numpy().tolist() == [[False, False], [True, False], [False, True]]


def test_a_heldout_table_may_be_compressed(accuracy, table_folder):
    data = accuracy("data")
    plain = data.load(table_folder, "quake")[0]
    plain.assign(target=1.0).to_csv(table_folder / "heldout" / "star.csv.gz", index=False)
    pd.testing.assert_frame_equal(data.load(table_folder, "star")[0], plain)


def test_no_table_is_in_both_sets(accuracy):
    data = accuracy("data")
    assert not set(data.NAMES) & set(data.HELDOUT)


def test_a_split_of_a_frame_is_that_of_an_array(accuracy):
    data = accuracy("data")
    values = np.random.default_rng(0).normal(size=(50, 3))
    array = data.split(values, values[:, 0], seed=4)
    frame = data.split(pd.DataFrame(values), values[:, 0], seed=4)
    assert len(array.y_test) == 10
    for mine, other in zip(frame, array, strict=True):
        assert np.array_equal(np.asarray(mine), other)


def test_rows_of_the_training_part_are_no_test_rows(accuracy):
    data = accuracy("data")
    x = pd.DataFrame({"size": [1.0, np.nan] * 20, "color": ["red", None] * 20})
    x.loc[0, "color"] = "blue"
    tests = [data.split(x, np.ones(40), seed) for seed in range(20)]
    assert {len(split.y) for split in tests} == {32}
    assert all(split.x_test["color"].isin(["blue"]).all() for split in tests)
    assert {len(split.y_test) for split in tests} == {0, 1}


def test_small_heldout_tables_have_more_splits(accuracy, table_folder):
    large = pd.DataFrame({"x": range(1001), "target": 0.0})
    large.to_csv(table_folder / "heldout" / "star.csv", index=False)
    chosen = Namespace(
        data=table_folder, set="heldout", method=["XGBoost"], table=["quake", "star"], split=None
    )
    plan = accuracy("run")._plan(chosen)
    assert [seed for seed, _, table in plan if table == "quake"] == [0, 1, 2, 3, 4]
    assert [seed for seed, _, table in plan if table == "star"] == [0, 1, 2]
    assert accuracy("data").n_splits(table_folder, "bike") == 3


# Columns for peers


@pytest.fixture
def mixed(accuracy):
    """Text that is new in the test part, and gaps in both columns of both parts."""
    train = pd.DataFrame({"size": [1.0, 3.0, 8.0, np.nan], "color": ["red", "blue", None, "red"]})
    test = pd.DataFrame({"size": [np.nan, 2.0, 4.0], "color": ["blue", "green", None]})
    return accuracy("data").Split(train, np.zeros(4), test, np.zeros(3))


def test_text_becomes_categories_of_the_training_part(accuracy, mixed):
    x, _, x_test, _ = accuracy("peers").with_categories(mixed)
    assert x["color"].cat.categories.tolist() == ["blue", "red"]
    assert x["color"].cat.codes.tolist() == [1, 0, -1, 1]
    assert x_test["color"].cat.codes.tolist() == [0, -1, -1]
    assert x["color"].dtype == x_test["color"].dtype


def test_gaps_in_text_become_text(accuracy, mixed):
    x, _, x_test, _ = accuracy("peers").with_gaps_as_text(mixed)
    assert x["color"].tolist() == ["red", "blue", "missing", "red"]
    assert x_test["color"].tolist() == ["blue", "green", "missing"]
    assert math.isnan(x_test["size"][0])


def test_a_table_of_numbers_has_a_column_for_each_text(accuracy, mixed):
    x, _, x_test, _ = accuracy("peers").as_numbers(mixed)
    assert x.tolist() == [[1, 0, 1, 0], [3, 1, 0, 0], [8, 0, 0, 1], [3, 0, 1, 0]]
    assert x_test.tolist() == [[3, 1, 0, 0], [2, 0, 0, 1], [4, 0, 0, 1]]


def test_arrays_are_handed_over_as_they_are(accuracy):
    peers = accuracy("peers")
    split = accuracy("data").Split(np.eye(3), np.ones(3), np.eye(3)[:1], np.ones(1))
    for change in ("with_categories", "with_gaps_as_text", "with_medians", "as_numbers"):
        assert getattr(peers, change)(split) is split


# Summaries


def scores_of(method, table, **measures):
    """Scores on as many splits as each measure has values."""
    splits = zip(*measures.values(), strict=True)
    about = {"method": method, "table": table}
    return [
        about | {"split": split} | dict(zip(measures, values, strict=True))
        for split, values in enumerate(splits)
    ]


@pytest.fixture
def everything():
    """Ours is worse on quake, but by less than the other's standard error, and on star by more."""
    return [
        *scores_of("softbins", "quake", mae=[10, 10], rmse=[10, 10], crps=[4, 4]),
        *scores_of("softbins", "star", mae=[10, 10], rmse=[10, 10], crps=[4, 4]),
        *scores_of("softbins fast", "star", mae=[1, 1], rmse=[1, 1], crps=[1, 1]),
        *scores_of("Peer", "quake", mae=[6, 12], rmse=[15, 15]),
        *scores_of("Peer", "star", mae=[5, 5], rmse=[20, 20]),
        *scores_of("Quantiles", "star", crps=[6, 6]),
        *scores_of("softbins", "bike", mae=[1, 1], rmse=[1, 1], crps=[1, 1]),
        *scores_of("Peer", "bike", mae=[9, 9], rmse=[9, 9]),
        {"method": "Slow", "table": "star", "split": 0, "capped": 15.0},
    ]


def test_the_summary_of_heldout_tables(accuracy, everything):
    heldout = accuracy("table").Scores(everything, accuracy("data").HELDOUT)
    assert accuracy("table").heldout_summary(heldout) == {
        "tables": 2,
        "rows": [
            {"method": "softbins", "mae": 1.0, "rmse": 1.0, "crps": 1.0, "tables": 2},
            {"method": "Peer", "mae": 0.7, "rmse": 1.75, "crps": None, "tables": 2},
            {"method": "Quantiles", "mae": None, "rmse": None, "crps": 1.5, "tables": 1},
        ],
        "ours_best": {"mae": 1, "rmse": 2, "crps": 2},
    }


def test_the_summary_of_few_rows(accuracy, everything):
    heldout = accuracy("table").Scores(everything, accuracy("data").HELDOUT)
    found = accuracy("table").few_rows_summary(heldout)
    peer, quantiles = found["rows"][1:]
    assert peer["mae"] == pytest.approx(math.sqrt(0.9 * 0.5))
    assert peer["rmse"] == pytest.approx(math.sqrt(1.5 * 2.0))
    assert (peer["crps"], quantiles["crps"], quantiles["tables"]) == (None, pytest.approx(1.5), 1)
    assert found["ours_near"] == {"mae": 0, "rmse": 2, "crps": 2}


def test_heldout_tables_leave_the_summary_of_the_others_alone(accuracy, everything):
    table = accuracy("table")
    found = table.summary(table.Scores(everything))
    assert found["tables"] == 1
    assert [row["method"] for row in found["rows"]] == ["softbins", "Peer"]
    assert found["rows"][1]["mae"]["ratio"] == 9.0


def test_the_page_shows_both_sets_apart(accuracy, everything):
    first, second = "\n".join(accuracy("table").page(everything)).split("# Tables that no choice")
    assert "| bike |" in first
    assert "| bike |" not in second
    assert "| quake | 10 | **9** | yes |" in second
    assert "| star | 10 | **5** | no |" in second
    assert "Slow on star, split 0: ended" in second


# Heavy tails


@pytest.fixture
def heavy_tails(accuracy, monkeypatch):
    monkeypatch.syspath_prepend(ACCURACY.parent)
    monkeypatch.delitem(sys.modules, "heavy_tails", raising=False)
    return accuracy("heavy_tails")


def test_simulated_tables_have_the_tails_that_they_say(heavy_tails):
    largest = {kind: heavy_tails.simulated(kind, 0).y_test for kind in heavy_tails.KINDS}
    for kind, y in largest.items():
        assert y.max() > 50 * np.median(y), kind
        assert len(y) == heavy_tails.TEST_ROWS
    named = heavy_tails.simulated("named outliers", 9)
    far = named.x["town"][named.y > 30]
    assert far.isin(["town 0", "town 1"]).mean() > 0.8


def test_errors_of_a_forecast_with_heavy_tails(heavy_tails, accuracy):
    peers = accuracy("peers")
    quantiles = np.tile(np.arange(len(peers.LEVELS), dtype=float), (2, 1))
    y = np.array([1.0, 2.0])
    mean = peers.Forecast(np.array([2.0, -1.0]))
    assert heavy_tails.errors(mean, y) == {"mae": 2.0, "rmse": math.sqrt(5)}
    middle = len(peers.LEVELS) // 2
    assert heavy_tails.errors(mean._replace(quantiles=quantiles), y)["median_mae"] == middle - 1.5


@pytest.mark.slow
def test_outliers_do_not_rule_the_means(heavy_tails, accuracy):
    """At most 1.1 times the errors of boosted trees and of a forest, over three tables."""
    from sklearn.ensemble import RandomForestRegressor

    peers, ours = accuracy("peers"), accuracy("ours")

    def forest(split, seed):
        split = peers.as_numbers(split)
        model = RandomForestRegressor(random_state=seed).fit(split.x, split.y)
        return peers.Forecast(model.predict(split.x_test))

    methods = [ours.default, peers.hist_gradient_boosting, forest]
    for kind in heavy_tails.KINDS:
        splits = [heavy_tails.simulated(kind, number) for number in range(3)]
        found = [
            [heavy_tails.errors(method(split, 0), split.y_test) for split in splits]
            for method in methods
        ]
        for measure in ("mae", "rmse"):
            mine, *others = (
                math.exp(np.mean([math.log(each[measure]) for each in one])) for one in found
            )
            assert mine < 1.1 * min(others), (kind, measure)
