"""Tables for programs: every cell is an entry of its own, in CSV and in JSON."""

import csv
import json

import pytest

from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import plan_runs
from softbins.paper.show.entries import flat_entries
from softbins.paper.show.formats import render
from softbins.paper.show.paper_tables import (
    TABLE_NAMES,
    main_table,
    make_table,
    overview_table,
    representation_table,
)
from softbins.paper.show.published import METRICS
from tests.paper.show.small_tables import SHORT
from tests.paper.synthetic import write_scores

KEYS = {
    "dataset",
    "method",
    "metric",
    "scale",
    "selection",
    "split",
    "parameters",
    "mean",
    "stderr",
    "runs",
    "planned",
    "published_mean",
    "published_stderr",
    "agrees",
}


def test_entries_have_every_method_and_metric_once(store):
    for number, run in enumerate(plan_runs(["table"], "bike", SHORT)):
        write_scores(store, run, dict.fromkeys(METRICS, number + 0.5))
    rows = flat_entries(main_table("bike", SHORT, store))
    pairs = [(entry["method"], entry["metric"]) for entry in rows]
    assert pairs == [(method, metric) for method in METHODS for metric in METRICS]
    assert all(set(entry) == KEYS for entry in rows)
    assert rows[0] == {
        "dataset": "bike",
        "method": "linear",
        "metric": "train_objective",
        "scale": "short",
        "selection": "paper",
        "split": "random",
        "parameters": None,
        "mean": 1.0,
        "stderr": 0.5,
        "runs": 2,
        "planned": 2,
        "published_mean": None,
        "published_stderr": None,
        "agrees": None,
    }
    noise = next(entry for entry in rows if entry["method"] == "l2-noise")
    assert noise["parameters"] == "noise=0.001"
    gaussian = rows[pairs.index(("hl-gaussian", "test_mae"))]
    assert (gaussian["published_mean"], gaussian["published_stderr"]) == (24.9521, 0.1328)


def test_entries_of_representations_name_the_variant(store):
    rows = flat_entries(representation_table("ct", SHORT, store))
    assert all(set(entry) == KEYS | {"variant"} for entry in rows)
    places = [(e["method"], e["metric"], e["variant"]) for e in rows]
    assert len(set(places)) == len(places) == 32
    fixed = rows[places.index(("l2", "test_mae", "fixed"))]
    assert (fixed["mean"], fixed["runs"], fixed["published_mean"]) == (None, 0, 2.9198)


def test_entries_of_the_overview_name_the_dataset(tmp_path):
    rows = flat_entries(overview_table(["bike", "ct"], tmp_path))
    assert {entry["dataset"] for entry in rows} == {"bike", "ct"}
    assert {entry["method"] for entry in rows} == {None}
    first = rows[0]
    assert (first["metric"], first["mean"], first["published_mean"]) == ("train", 13903, 13911)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_json_is_the_flat_entries(scored_store, name):
    made = make_table(name, "bike", SHORT, scored_store)
    assert json.loads(render(made, "json")) == flat_entries(made)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_csv_is_the_flat_entries_as_text(scored_store, name):
    made = make_table(name, "bike", SHORT, scored_store)
    expected = [
        {key: "" if value is None else str(value) for key, value in entry.items()}
        for entry in flat_entries(made)
    ]
    assert list(csv.DictReader(render(made, "csv").splitlines())) == expected
