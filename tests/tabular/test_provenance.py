"""Where a model comes from: what is noted of a fit, and that a file keeps all of it."""

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import softbins
from softbins import HistogramRegressor, NeuralRegressor, load
from softbins._core.model_file import read, write
from softbins.evaluation import description
from softbins.tabular import fit as fitting
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.folds import Folds
from softbins.tabular.model_contents import read_contents
from softbins.tabular.model_facts import describe
from softbins.tabular.persistence import contents_of
from softbins.tabular.provenance import FIXED_TIME, fingerprint, target_name, time_of_fit
from softbins.tabular.summary import training_summary
from softbins.tabular.validation import training_data

OLD_FILES = Path(__file__).parent / "model_files"
ROWS = 24


def table():
    """A column of each kind, two of them with gaps."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"size": generator.normal(size=ROWS).round(2)})
    frame.loc[[3, 5], "size"] = np.nan
    frame["town"] = ["a", "b", None, "c"] * (ROWS // 4)
    frame["open"] = [True, False] * (ROWS // 2)
    frame["nothing"] = np.nan
    return frame


def targets(name="price"):
    return pd.Series(np.linspace(0, 5, ROWS), name=name)


QUICK = {"hidden": (4,), "bins": 16, "max_epochs": 2, "random_state": 7}
ESTIMATORS = {
    "table": lambda **more: HistogramRegressor(members=2, trees=False, **QUICK, **more),
    "paper": lambda **more: HistogramRegressor.as_in_paper(**QUICK, **more),
    "stopped": lambda **more: NeuralRegressor("hl-gaussian", early_stopping=True, **QUICK, **more),
    "l2": lambda **more: NeuralRegressor("l2", **QUICK, **more),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def model(request):
    weights = np.linspace(0, 1, ROWS)  # the first row is none
    return ESTIMATORS[request.param]().fit(table(), targets(), weights)


def test_a_fit_notes_version_time_target_seed_and_rows(model):
    about = model.provenance_
    assert about.version == softbins.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", about.fitted_at)
    assert (about.target, about.seed, about.rows) == ("price", 7, ROWS - 1)
    assert re.fullmatch("[0-9a-f]{64}", about.fingerprint)


def test_a_fit_notes_what_each_column_had(model):
    size, town, is_open, nothing = map(dataclasses.asdict, model.provenance_.columns)
    known = table()["size"][1:]  # without the row of weight 0
    assert size == {
        **{"name": "size", "kind": "number", "missing": 2, "distinct": None},
        **{"low": known.min(), "high": known.max(), "remark": None},
    }
    no_range = {"low": None, "high": None, "remark": None}
    assert town == {"name": "town", "kind": "category", "missing": 6, "distinct": 3} | no_range
    assert is_open == {"name": "open", "kind": "boolean", "missing": 0, "distinct": None} | no_range
    assert nothing["kind"] == "empty"
    assert nothing["missing"] == ROWS - 1


def test_every_field_comes_back_from_a_file(model, tmp_path):
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.provenance_ == model.provenance_
    assert repr(again.provenance_) == repr(model.provenance_)  # of the same types, too
    assert read_contents(tmp_path / "m") == contents_of(model) == contents_of(again)
    assert describe(read_contents(tmp_path / "m")) == description(model)


def test_a_table_without_names_has_none(model):
    X = table()[["size", "open"]].to_numpy(float)
    about = type(model)(**model.get_params()).fit(X, targets().to_list()).provenance_
    assert about.target is None
    assert [column.name for column in about.columns] == [None, None]


@pytest.mark.parametrize("kind", ["table", "l2"])
def test_a_seed_is_noted_only_if_it_was_a_number(kind):
    for state, seed in [(np.int64(3), 3), (None, None), (np.random.RandomState(0), None)]:
        fitted = ESTIMATORS[kind]().set_params(random_state=state).fit(table(), targets())
        assert fitted.provenance_.seed == seed
        assert type(fitted.provenance_.seed) is type(seed)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (pd.Series([1.0], name="price"), "price"),
        (pl.Series("price", [1.0]), "price"),
        (pl.Series([1.0]), None),
        (pd.Series([1.0], name=3), None),
        (pd.Series([1.0], name=("a", "b")), None),
        (pd.Series([1.0], name="\ud83d"), None),
        (pd.Series([1.0]), None),
        (np.ones(1), None),
        ([1.0], None),
    ],
)
def test_the_target_has_the_name_of_a_series_if_it_is_text(y, name):
    assert target_name(y) == name


# Time


def test_the_time_can_be_fixed(monkeypatch):
    monkeypatch.setenv(FIXED_TIME, "0")
    assert time_of_fit() == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("value", ["", "soon", "1.5", "1" * 30])
def test_a_time_that_is_none_is_refused_before_the_fit(value, monkeypatch):
    monkeypatch.setenv(FIXED_TIME, value)
    model = ESTIMATORS["l2"]()
    with pytest.raises(ValueError, match=f"{FIXED_TIME}: need whole seconds.*unset it"):
        model.fit(table(), targets())
    assert not hasattr(model, "network_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_same_seed_at_the_same_time_gives_the_same_bytes(kind, tmp_path, monkeypatch):
    for name, time in [("1", "1"), ("2", "1"), ("3", "2")]:
        monkeypatch.setenv(FIXED_TIME, time)
        ESTIMATORS[kind]().fit(table(), targets()).save(tmp_path / name)
    first, second, later = ((tmp_path / name).read_bytes() for name in "123")
    assert first == second != later


# Fingerprint


def fingerprint_of(X, y, weight=None):
    data = training_data(NeuralRegressor(), X, y, weight, "from_dtype")
    return fingerprint(data)


def test_a_fingerprint_changes_with_every_cell_target_and_weight():
    X, y, weight = table(), targets(), np.full(ROWS, 2.0)
    found = [fingerprint_of(X, y), fingerprint_of(X, y, weight)]
    for row in range(0, ROWS, 5):
        # "nothing" is a column that is left out, until it has a value.
        for column, value in [("size", 9.0), ("town", "b"), ("open", None), ("nothing", 1.0)]:
            changed = X.astype(object)
            old = changed.loc[row, column]
            changed.loc[row, column] = "a" if value == old else value
            changed = changed.astype({"size": float, "nothing": float})
            found.append(fingerprint_of(changed, y))
        found.append(fingerprint_of(X, y.where(y.index != row, 1.5)))
        found.append(fingerprint_of(X, y, np.where(np.arange(ROWS) == row, 1.0, weight)))
    found.append(fingerprint_of(X[::-1], y[::-1]))
    found.append(fingerprint_of(X.assign(town=X["town"].replace("a", "z")), y))
    assert len(set(found)) == len(found)


def test_a_fingerprint_is_that_of_the_rows_and_not_of_how_they_are_held():
    X, y = table(), targets()
    expected = fingerprint_of(X, y)
    assert fingerprint_of(X.rename(columns={"size": "width"}), y.to_numpy()) == expected
    assert fingerprint_of(pl.from_pandas(X), y) == expected
    numbers = X[["size"]].to_numpy()
    assert fingerprint_of(numbers, y) == fingerprint_of(X[["size"]], y)
    # A row of weight 0 is no row.
    double = np.concatenate([numbers, numbers + 1])
    none = np.r_[np.ones(ROWS), np.zeros(ROWS)]
    assert fingerprint_of(double, np.r_[y, y], none) == fingerprint_of(numbers, y, np.ones(ROWS))


def test_a_fingerprint_is_the_same_in_every_process():
    code = (
        "from tests.tabular.test_provenance import fingerprint_of, table, targets; "
        "print(fingerprint_of(table(), targets()))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "5"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == fingerprint_of(table(), targets())


# Scores


def test_scores_are_those_of_members_on_rows_they_have_not_seen(monkeypatch):
    # The members that were judged: afterwards they learn from these rows, too.
    monkeypatch.setattr(fitting, "_refit_on_all_rows", lambda _, ensemble, *__: ensemble.network)
    X, y = table()[["size"]].fillna(0), targets()
    weight = np.linspace(1, 2, ROWS)
    model = ESTIMATORS["table"](gaussian_process=False).fit(X, y, weight)
    first = np.random.RandomState(7).randint(2**31 - 1)
    outputs = next(model._outputs(X)).members
    error, crps, counts = [], [], []
    for member, rows in enumerate(Folds.random(ROWS, 2, first, DEFAULTS.folds).held_out):
        part = fitting.Outputs(outputs[[member]][:, rows])
        predicted, known = model.aggregator_.distribution(part), torch.tensor(y.tolist())[rows]
        error.append((predicted.mean - known).numpy())
        crps.append(predicted.crps(known).numpy())
        counts.append(weight[rows])
    error, crps, counts = map(np.concatenate, (error, crps, counts))
    assert model.provenance_.scores == {
        # Predictions are made in less precision than the judgement.
        "mae": pytest.approx(np.average(np.abs(error), weights=counts), rel=1e-4),
        "rmse": pytest.approx(math.sqrt(np.average(error**2, weights=counts)), rel=1e-4),
        "crps": pytest.approx(np.average(crps, weights=counts), rel=1e-4),
    }


def test_scores_of_a_network_are_those_of_the_epoch_that_was_kept():
    model = ESTIMATORS["stopped"](members=2).fit(table(), targets())
    errors = training_summary(model)
    assert model.provenance_.scores == {
        "mae": errors["validation_mae"],
        "rmse": errors["validation_rmse"],
    }


@pytest.mark.parametrize("kind", ["paper", "l2"])
def test_without_held_out_rows_there_are_no_scores(kind):
    assert ESTIMATORS[kind]().fit(table(), targets()).provenance_.scores == {}


@pytest.mark.parametrize("kind", ["table", "stopped"])
def test_a_constant_target_has_no_scores(kind):
    assert ESTIMATORS[kind]().fit(table(), np.ones(ROWS)).provenance_.scores == {}


# Files


def test_an_older_file_says_nothing_and_stays_so(tmp_path):
    path = OLD_FILES / "neural_regressor.model"
    model = load(path)
    assert model.provenance_ is None
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").provenance_ is None
    assert describe(read_contents(path)) == description(model)


LIES = [
    ("version", 3),
    ("fitted_at", "yesterday"),
    ("fitted_at", "2026-01-31T12:00:00Z\n"),
    ("target", 3),
    ("seed", -1),
    ("rows", 0),
    ("rows", 1),  # fewer than a column has gaps
    ("fingerprint", "0" * 63),
    ("columns", []),
    ("columns", [{"missing": 0, "low": None, "high": None}] * 4),
    ("columns", [{"missing": 0, "low": 2.0, "high": 1.0}] * 4),
    ("scores", {"mae": -1.0}),
    ("scores", {"coverage": 0.9}),
    ("more", 1),
]


@pytest.mark.parametrize(("name", "value"), LIES)
def test_a_provenance_that_lies_is_refused_with_and_without_torch(name, value, tmp_path):
    path = tmp_path / "m"
    ESTIMATORS["l2"]().fit(table(), targets()).save(path)
    header, tensors = read(path)
    header["provenance"][name] = value
    write(path, header, tensors)
    for reader in (load, read_contents):
        with pytest.raises(softbins.ModelFileError, match="holds no model.*header.provenance"):
            reader(path)
    assert json.dumps(header)  # the lie was plain JSON, and so reached the rules
