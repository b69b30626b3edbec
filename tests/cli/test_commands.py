"""What each command writes and prints, compared with what the library does."""

import json
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.cli.options import LIBRARIES, METHODS
from softbins.cli.table_files import read_table, write_table
from softbins.report.evaluation import evaluate
from softbins.tabular import fit as fitting
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.description import aggregator_of
from softbins.tabular.folds import Folds
from softbins.tabular.summary import history_summary
from tests.cli.runs import FIT, PAGE, PAPER, QUICK, WHERE, houses, run, succeeds, table

pytestmark = pytest.mark.usefixtures("folder")


# fit and info

# What is shown of the table before it is learnt from.
SUMMARY = [
    "column  taken for  distinct  gaps  remark",
    "width   number           60     0",
    "height  number           60     0",
    "y       target           60     0",
]


# Which errors are known depends on whether rows were held out.
@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        (FIT, ["held out mae", "held out rmse", "held out crps"]),
        (PAPER, ["train mae", "train rmse"]),
    ],
)
def test_fit_saves_a_model_and_shows_a_short_table(arguments, errors):
    result = succeeds(*arguments)
    shown = dict(map(str.strip, line.split("  ", 1)) for line in result.stdout.splitlines())
    assert list(shown) == [
        *("model", "objective", "rows", "features", "kinds", "epochs"),
        *errors,
    ]
    assert shown["kinds"] == "number 2"
    assert (shown["rows"], shown["features"], shown["epochs"]) == ("60", "2", "3")
    assert list(load("new.model").feature_names_in_) == ["width", "height"]
    assert result.stderr.splitlines() == SUMMARY


def test_options_survive_the_file():
    succeeds(*FIT, "--sigma", "1.5", "--max-seconds", "60", "--preset", "fast", "--seed", "7")
    found = load("new.model")
    names = ["hidden", "bins", "sigma", "members", "max_epochs", "max_seconds", "preset", "trees"]
    values = [found.get_params()[name] for name in [*names, "random_state", "progress"]]
    assert values == [(8,), 20, 1.5, 2, 3, 60.0, "fast", False, 7, False]
    succeeds(*WHERE, *QUICK, "--objective", "hl-uniform")
    assert type(load("new.model")) is NeuralRegressor


def test_trees_take_part_unless_they_are_left_out():
    # More steps than a Gaussian process can follow.
    frame = table(200).assign(y=lambda d: np.sign(np.sin(9 * d["width"])) + 2 * (d["height"] > 0.5))
    frame.to_csv("steps.csv", index=False)
    shares = []
    for more in ([], ["--no-trees"]):
        arguments = [*QUICK, "--members", "2", *more]
        succeeds("fit", "steps.csv", *WHERE[2:], *arguments)
        shares.append(json.loads(succeeds("info", "new.model", "--json").stdout)["share_of_trees"])
    # Three epochs teach a network little, and steps are what trees are made of.
    assert shares[0] > 0.2
    assert shares[1] == 0


def test_the_same_seed_gives_the_same_file(folder, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    succeeds(*FIT, "-o", "1.model")
    succeeds(*FIT, "-o", "2.model")
    succeeds(*FIT, "-o", "3.model", "--seed", "1")
    first, second, third = ((folder / f"{i}.model").read_bytes() for i in (1, 2, 3))
    assert first == second != third


def test_the_errors_shown_are_those_of_the_saved_model():
    frame = table()
    shown = json.loads(succeeds(*PAPER, "--json", "--epochs", "60").stdout)
    error = np.abs(load("new.model").predict(frame[["width", "height"]]) - frame["y"]).mean()
    assert shown["train_mae"] == pytest.approx(error, rel=1e-4)


def test_the_errors_shown_after_early_stopping_are_those_of_the_best_epoch(monkeypatch):
    """It goes back to an epoch before the last, which the errors on all rows show."""
    # The members that were judged: those in the file would have learnt from these rows, too.
    monkeypatch.setattr(fitting, "_refit_on_all_rows", lambda _, ensemble, *__: ensemble.network)
    stopping = ["--objective", "hl-gaussian", "--plain", "--early-stopping", "--epochs", "60"]
    frame, first = table(), np.random.RandomState(0).randint(2**31 - 1)
    shown = json.loads(succeeds(*WHERE, *QUICK, *stopping, "--members", "2", "--json").stdout)
    model, errors = load("new.model"), []
    outputs = next(model._outputs(frame[["width", "height"]])).members
    for member, rows in enumerate(Folds.random(60, 2, first, DEFAULTS.folds).held_out):
        predicted = model.objective_.decode(outputs[member, rows]).numpy()
        errors.append(np.abs(predicted - frame["y"].to_numpy()[rows]).mean())
    alone = history_summary(model.history_, model.monitor)
    assert alone["validation_mae"] == pytest.approx(np.mean(errors), rel=1e-4)
    # What is shown is the error of all members together, which is smaller.
    assert shown["held_out_mae"] == model.provenance_.scores["mae"] < alone["validation_mae"]
    # Other objectives hold out a tenth, and know the errors on the other rows as well.
    other = [*WHERE, *QUICK, "--objective", "l2", "--early-stopping", "--epochs", "60", "--json"]
    shown = json.loads(succeeds(*other).stdout)
    error = np.abs(load("new.model").predict(frame[["width", "height"]]) - frame["y"]).mean()
    found = 54 * shown["train_mae"] + 6 * shown["validation_mae"]
    assert found == pytest.approx(60 * error, rel=1e-4)


def test_a_dozen_rows_are_enough_for_a_model_and_a_warning():
    table(12).to_csv("few.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = succeeds("fit", "few.csv", *FIT[2:])
    assert "softbins: warning: only 12 rows to learn from: expect predictions" in result.stderr
    assert np.isfinite(load("new.model").predict(table()[["width", "height"]])).all()


def test_info_describes_a_model():
    shown, model = json.loads(succeeds("info", "some.model", "--json").stdout), load("some.model")
    assert shown["bins"] == {"count": 20, "low": model.bins_.low, "high": model.bins_.high}
    assert shown["bias_of_bins"] == model.bins_.bias._asdict()
    assert (shown["objective"], shown["members"], shown["hidden"]) == ("hl-gaussian", 2, [8])
    assert (shown["features"], shown["names"]) == (2, ["width", "height"])
    assert shown["share_of_trees"] == aggregator_of(model).shares.get("trees", 0.0)
    assert (shown["epochs"], shown["calibration_rows"]) == (3, 16)
    assert shown["validation_rmse"] >= shown["validation_mae"] > 0
    text = succeeds("info", "some.model").stdout
    assert re.search("^bins +count 20, low ", text, re.MULTILINE)
    assert re.search("^bias of bins +discretisation ", text, re.MULTILINE)
    assert re.search("^target +y$", text, re.MULTILINE)


def test_info_leaves_out_what_a_model_has_not():
    shown = json.loads(succeeds("info", "paper.model", "--json").stdout)
    y = table()["y"]
    assert shown["bins"] == {"count": 20, "low": y.min(), "high": y.max()}
    assert (shown["members"], shown["hidden"], shown["calibration_rows"]) == (1, [8], None)
    text = succeeds("info", "paper.model").stdout
    assert "calibration rows" not in text
    assert "bias of bins" not in text
    assert "\nbins " not in succeeds("info", "l2.model").stdout


# predict


def test_predict_writes_what_the_model_predicts():
    asked = ["--interval", "0.9", "--quantiles", "0.1, 0.5", "--output", "median"]
    result = succeeds("predict", "some.model", "data.csv", "-o", "p.csv", *asked)
    assert (result.stdout, result.stderr) == ("", "wrote 60 predictions to p.csv\n")
    model, x, found = load("some.model"), table().drop(columns="y"), pd.read_csv("p.csv")
    names = ["prediction", "low_0.9", "high_0.9", "quantile_0.1", "quantile_0.5"]
    assert list(found.columns) == names
    expected = [
        model.predict(x, output="median"),
        *model.predict_interval(x, coverage=0.9).T,
        *model.predict_quantiles(x, [0.1, 0.5]).T,
    ]
    assert np.array_equal(found.to_numpy().T, expected)


def test_raw_intervals_are_those_of_the_distribution():
    asked = ["predict", "some.model", "data.csv", "-o", "p.csv", "--interval", "0.8"]
    x, model, found = table().drop(columns="y"), load("some.model"), []
    for raw in ([], ["--raw"]):
        succeeds(*asked, *raw)
        found.append(pd.read_csv("p.csv")[["low_0.8", "high_0.8"]].to_numpy())
    assert np.array_equal(found[0], model.predict_interval(x, 0.8))
    assert np.array_equal(found[1], model.predict_interval(x, 0.8, calibrated=False))
    assert np.allclose(found[0], model.predict_quantiles(x, [0.1, 0.9]))
    assert (found[0] != found[1]).all()
    # Other estimators calibrate nothing, so that theirs are raw in any case.
    asked[1] = "paper.model"
    succeeds(*asked, "--raw")
    raw = pd.read_csv("p.csv")[["low_0.8", "high_0.8"]].to_numpy()
    assert np.array_equal(raw, load("paper.model").predict_interval(x, 0.8))


@pytest.mark.parametrize("name", ["p.csv.gz", "p.parquet"])
def test_predictions_are_the_same_in_every_kind_of_table(name):
    printed = succeeds("predict", "some.model", "new.csv", "-o", "-").stdout
    succeeds("predict", "some.model", "new.csv", "-o", name)
    assert read_table(name).frame.to_csv(index=False) == printed
    assert printed.startswith("prediction\n")


def test_columns_are_found_by_name_or_by_position_if_the_model_has_no_names():
    table()[["height", "y", "width"]].to_csv("turned.csv", index=False)
    expected = succeeds("predict", "some.model", "new.csv", "-o", "-").stdout
    assert succeeds("predict", "some.model", "turned.csv", "-o", "-").stdout == expected
    x, y = table()[["width", "height"]].to_numpy(), table()["y"]
    NeuralRegressor("l2", (8,), max_epochs=1).fit(x, y).save("nameless.model")
    printed = succeeds("predict", "nameless.model", "new.csv", "-o", "-").stdout.split()[1:]
    assert np.array_equal(np.array(printed, float), load("nameless.model").predict(x))
    refused = run("predict", "nameless.model", "turned.csv", "-o", "-")
    assert "needs 2 columns, without names; the table has 3" in refused.stderr


# Columns that are no numbers

# Labels that look like numbers, among one that does not, and a column with nothing in it.
KINDS = {"size": "number", "code": "category", "sold": "boolean", "garden": "boolean"}
KINDS |= {"town": "category", "nothing": "empty"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_with_words_truth_and_gaps(suffix):
    data = f"houses.{suffix}"
    write_table(houses(), data)
    fitted = json.loads(succeeds("fit", data, *FIT[2:], "--json").stdout)
    assert fitted["kinds"] == {"number": 1, "category": 2, "boolean": 2, "empty": 1}
    shown = json.loads(succeeds("info", "new.model", "--json").stdout)
    assert dict(zip(shown["names"], shown["kinds"], strict=True)) == KINDS
    printed = succeeds("predict", "new.model", data, "-o", "-").stdout
    assert np.isfinite(np.array(printed.split()[1:], float)).all()
    # One row alone, where a label is nothing but a number, gets what it got among others.
    write_table(houses()[:1], data)
    alone = succeeds("predict", "new.model", data, "-o", "-").stdout
    assert float(alone.split()[1]) == pytest.approx(float(printed.split()[1]), rel=1e-12)


def test_compare_takes_words_truth_and_gaps():
    houses().to_csv("houses.csv", index=False)
    how = ["--epochs", "2", "--folds", "3", "--methods", "linear,hl-gaussian", "--json"]
    found = json.loads(succeeds("compare", "houses.csv", "--target", "y", *how).stdout)
    assert found["features"] == 6
    assert all(0 < row["mae"] < 10 for row in found["results"])


def test_predict_names_the_cell_that_is_wrong():
    houses().to_csv("houses.csv", index=False)
    succeeds("fit", "houses.csv", *FIT[2:])
    for column, cell in [("size", "tall"), ("sold", "perhaps")]:
        wrong = houses().astype({column: object})
        wrong.loc[6, column] = cell
        wrong.to_csv("wrong.csv", index=False)
        refused = run("predict", "new.model", "wrong.csv", "-o", "-")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"softbins: wrong.csv: column {column!r}, row 7: '{cell}'")
    # Towns that training has not seen count as missing, and nothing was learnt from nothing.
    houses().assign(town="new", nothing="news").to_csv("new.csv", index=False)
    houses().assign(town="").to_csv("none.csv", index=False)
    new, none = (succeeds("predict", "new.model", f, "-o", "-") for f in ("new.csv", "none.csv"))
    assert new.stdout == none.stdout


# evaluate


def test_evaluate_prints_the_scores_of_the_model(folder):
    asked = ["evaluate", "some.model", "data.csv", "--target", "y", "--coverage", "0.8"]
    result = succeeds(*asked, "--json")
    model, frame = load("some.model"), table()
    expected = evaluate(model, frame.drop(columns="y"), frame["y"], 0.8)
    shown = json.loads(result.stdout)
    assert shown["model"] == "some.model"
    assert {name: shown[name] for name in expected.summary()} == expected.summary()
    assert (shown["rows"], shown["interval"], shown["epochs"]) == (60, 0.8, 3)
    assert shown["coverage"] == np.mean(
        (model.predict_interval(frame[["width", "height"]], 0.8) - frame[["y"]].to_numpy()).prod(1)
        <= 0
    )
    verdict = [each._asdict() for each in expected.verdict()]
    assert shown["verdict"] == verdict
    text = succeeds(*asked).stdout.splitlines()
    lines = dict(line.split("  ", 1) for line in text[: -len(verdict)])
    assert float(lines["median mae"]) == pytest.approx(shown["median_mae"], rel=1e-3)
    first = verdict[0]
    assert text[-len(verdict)] == f"{first['level']}: {first['headline']}. {first['text']}"
    assert not (folder / "p.html").exists()


def test_evaluate_writes_a_page_beside_the_scores(folder):
    asked = ["evaluate", "some.model", "data.csv", "--target", "y"]
    result = succeeds(*asked, *PAGE)
    assert result.stdout == succeeds(*asked).stdout
    text = (folder / "p.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>some.model on data.csv</h1>" in text
    assert text.count("<figure>") == 12
    succeeds(*asked, *PAGE, "--quick")
    assert (folder / "p.html").read_text().count("<figure>") == 6


def test_evaluate_tells_that_a_model_predicts_numbers_only(folder):
    asked = ["evaluate", "l2.model", "data.csv", "--target", "y", "--quick", *PAGE]
    result = succeeds(*asked)
    names = [line.partition("  ")[0] for line in result.stdout.splitlines()]
    assert names[:6] == ["model", "objective", "rows", "mae", "rmse", "r2"]
    assert result.stderr.startswith("The model (l2) predicts numbers, no distributions: only MAE")
    assert result.stderr.count("\n") == 1
    assert (folder / "p.html").read_text().count("<figure>") == 3
    shown = json.loads(succeeds(*asked, "--json").stdout)
    assert shown["crps"] is shown["interval"] is None


def test_evaluate_takes_words_gaps_and_models_without_names():
    houses().to_csv("houses.csv", index=False)
    succeeds("fit", "houses.csv", *PAPER[2:])
    shown = json.loads(succeeds("evaluate", "new.model", "houses.csv", *FIT[2:4], "--json").stdout)
    assert shown["mae"] == pytest.approx(shown["train_mae"], rel=1e-4)
    x, y = table()[["width", "height"]].to_numpy(), table()["y"]
    NeuralRegressor("l2", (8,), max_epochs=1).fit(x, y).save("nameless.model")
    asked = ["evaluate", "nameless.model", "data.csv", "--target", "y", "--json"]
    error = np.abs(load("nameless.model").predict(x) - y).mean()
    assert json.loads(succeeds(*asked).stdout)["mae"] == pytest.approx(error)


# compare


def test_compare_writes_a_page(folder):
    asked = ["compare", "data.csv", "--target", "y", "--methods", "linear,l2", "--epochs", "1"]
    result = succeeds(*asked, "--folds", "2", *PAGE, "--json")
    text = (folder / "p.html").read_text()
    for row in json.loads(result.stdout)["results"]:
        assert f'data-value="{row["mae"]}"' in text
        assert f'data-value="{row["rmse_stderr"]}"' in text
    assert "<h1>Methods on data.csv</h1>" in text
    assert text.count("<figure>") == 1


def test_compare_ranks_every_method(folder, monkeypatch):
    small = partial(HistogramRegressor, (8,), members=2, max_epochs=2)
    monkeypatch.setattr("softbins.report.estimators.HistogramRegressor", small)
    arguments = ["compare", "data.csv", "--target", "y", "--epochs", "2", "--folds", "3"]
    result = succeeds(*arguments, "--plot", "p.svg", "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["features"], found["folds"], found["epochs"]) == (60, 2, 3, 2)
    scores = found["results"]
    assert {score["method"] for score in scores} == set(METHODS)
    assert [score["mae"] for score in scores] == sorted(score["mae"] for score in scores)
    # The target is a linear function, and two epochs teach a network little.
    assert scores[0]["method"] == "linear"
    assert {score["method"]: score["undertrained"] for score in scores}["l2"] is True
    for score in scores:
        folds = [fold["mae"] for fold in score["folds"]]
        assert score["mae"] == pytest.approx(np.mean(folds))
        assert score["mae_stderr"] == pytest.approx(np.std(folds, ddof=1) / np.sqrt(3))
    picture = (folder / "p.svg").read_text()
    assert picture.startswith("<?xml")
    assert picture.count(">hl-gaussian *</text>") == 1
    assert "undertrained: in most folds" in result.stderr


def test_compare_shows_a_table_and_puts_a_method_that_diverged_last(monkeypatch):
    def cross_validate(x, y, method, **_):
        errors = {"l2": [np.nan, 1.0], "trees": [3.0, 5.0], "mdn": [1.0, 1.0]}[method]
        rest = {"coverage": 0.9 if method == "mdn" else None, "seconds": 0.5}
        folds = [
            {"fold": i, "mae": e, "rmse": 2 * e, "crps": e, **rest} for i, e in enumerate(errors)
        ]
        return folds, method == "mdn"

    monkeypatch.setattr("softbins.report.comparison.cross_validate", cross_validate)
    arguments = [
        "compare",
        "data.csv",
        "--target",
        "y",
        "--methods",
        "l2,trees,mdn",
        "--folds",
        "2",
    ]
    result = succeeds(*arguments)
    assert result.stdout.splitlines() == [
        "method                             MAE        RMSE       CRPS       coverage  seconds",
        "mdn (plain network, undertrained)  1 ± 0      2 ± 0      1 ± 0      90.0%     0.5",
        "trees                              4 ± 1      8 ± 2      4 ± 1                0.5",
        "l2 (plain network)                 nan ± nan  nan ± nan  nan ± nan            0.5",
    ]
    assert "l2 diverged" in result.stderr
    assert json.loads(succeeds(*arguments, "--json").stdout)["results"][2]["mae"] is None


def test_the_methods_of_the_command_line_are_those_of_the_library():
    from softbins.report.cross_validation import KINDS

    assert {*METHODS, *LIBRARIES} == set(KINDS) - {"l2-many"}


# export


def test_export_writes_the_graph_of_a_model(folder):
    runtime = pytest.importorskip("onnxruntime")
    options = ["--quantiles", "0.2,0.7", "--coverage", "0.5"]
    result = succeeds("export", "paper.model", "new.onnx", *options)
    assert (result.stdout, result.stderr) == ("", "wrote new.onnx\n")
    x = table()[["width", "height"]]
    session = runtime.InferenceSession(folder / "new.onnx")
    given = {name: x[[name]].to_numpy() for name in x.columns}
    mean, quantiles, interval = session.run(None, given)
    model = load("paper.model")
    for found, expected in (
        (mean, model.predict(x)),
        (quantiles, model.predict_quantiles(x, (0.2, 0.7))),
        (interval, model.predict_interval(x, 0.5)),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("always:objective")
def test_export_says_which_model_has_no_distribution():
    pytest.importorskip("onnxscript")
    result = succeeds("export", "l2.model", "new.onnx")
    assert "softbins: warning: objective: L2 predicts a number, no distribution" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["some.model", "new.model"], "a graph is written to a file that ends in .onnx"),
        (["some.model", "nowhere/new.onnx"], "no folder 'nowhere'"),
        (["text.model", "new.onnx"], "text.model"),
        (["some.model", "new.onnx", "--quantiles", "1.5"], "need more than 0 and less than 1"),
        (["some.model", "new.onnx", "--coverage", "1.5"], "need more than 0 and less than 1"),
    ],
)
def test_export_refuses_and_writes_nothing(folder, arguments, message):
    result = run("export", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "new.onnx").exists()
