"""The command line as its users meet it: results on stdout, one line on stderr if it cannot be."""

import json
import os
import runpy
import signal
import subprocess
import sys
import warnings
from importlib.metadata import version
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from softbins import HistogramRegressor, NeuralRegressor, load
from softbins.cli import options
from softbins.cli import program as cli
from softbins.nn import objectives
from softbins.tabular.defaults import held_out
from softbins.tabular.fit import Fitting
from softbins.tabular.neural_regressor import StackedRegressor
from softbins.tabular.validation import _kept

COMMANDS = sorted(cli.main.commands)
WHERE = ["fit", "data.csv", "--target", "y", "-o", "new.model"]
QUICK = ["--epochs", "3", "--hidden", "8", "--bins", "20"]
FIT = [*WHERE, *QUICK, "--members", "2", "--no-trees"]
PAPER = [*WHERE, *QUICK, "--plain"]
PAGE = ["--page", "p.html"]
# Softbins as its own process, as the console script starts it.
PROCESS = [sys.executable, "-c", "from softbins.cli import main; main()"]


def table(rows=60):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(rows, 2)), columns=["width", "height"])
    return frame.assign(y=2 * frame["width"] + frame["height"])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Fitted models: for tables, as in the paper, and one that predicts numbers only."""
    folder, frame = tmp_path_factory.mktemp("models"), table()
    how = {"hidden": (8,), "bins": 20, "max_epochs": 3, "random_state": 0}
    models = {
        "some.model": HistogramRegressor(members=2, **how),
        "paper.model": NeuralRegressor(**how),
        "l2.model": NeuralRegressor("l2", **how),
    }
    for name, model in models.items():
        model.fit(frame[["width", "height"]], frame["y"]).save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, models):
    """A folder to work in, with a table to learn from, models, and a few broken tables."""
    monkeypatch.chdir(tmp_path)
    for path in models.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table().to_csv("data.csv", index=False)
    table().drop(columns="y").to_csv("new.csv", index=False)
    (tmp_path / "words.csv").write_text("width,height,y\n1,2,3\n1,tall,3\n")
    (tmp_path / "infinite.csv").write_text("width,height,y\n1,2,3\n1,inf,3\n")
    (tmp_path / "dates.csv").write_text("width,day,y\n1,2020-01-31,3\n1,2020-02-01 10:00,3\n")
    (tmp_path / "gaps.csv").write_text("width,height,y\n1,2,3\n1,2,\n")
    (tmp_path / "misspelt.csv").write_text("widht,height\n1,2\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "text.model").write_text("not a model")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


def succeeds(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_that_parses(command, folder):
    shown = succeeds(command, "--help").stdout
    lines = [line.split() for line in shown.splitlines() if line.startswith("    softbins ")]
    assert lines
    for _, name, *arguments in lines:
        assert name == command
        context = cli.main.commands[command].make_context(name, arguments)
        assert context.params


def test_the_program_lists_its_commands_and_its_version():
    shown = succeeds("--help").stdout
    assert "softbins fit houses.csv --target price -o houses.model" in shown
    assert all(f"\n  {command} " in shown for command in COMMANDS)
    assert succeeds("--version").stdout == f"softbins, version {version('softbins')}\n"
    nothing = run()
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert nothing.stderr.startswith("Usage: softbins ")


def test_the_methods_are_those_of_the_library():
    # l2-many is the control experiment of a footnote, nothing to choose for one's own data.
    assert set(options.OBJECTIVES) == set(objectives.METHODS) - {"l2-many"}


# Bad input

# The arguments, and the one line on stderr. FIT is complete; a repeated option replaces the first.
BAD = [
    (["fti"], "No such command 'fti'."),
    (["fit"], "Missing argument 'DATA'."),
    (["fit", "data.csv", "-o", "m"], "Missing option '--target'."),
    ([*FIT, "--colour", "red"], "No such option '--colour'."),
    ([*FIT, "--objective", "l3"], "Invalid value for '--objective': 'l3' is not one of 'l2', 'l1'"),
    ([*FIT, "--hidden", "8,x"], "Invalid value for '--hidden': 'x' is not a valid integer range."),
    ([*FIT, "--hidden", ""], "Invalid value for '--hidden': '' is not a valid integer range."),
    ([*FIT, "--bins", "1"], "Invalid value for '--bins': 1 is not in the range x>=2."),
    ([*FIT, "--bins", "ten"], "Invalid value for '--bins': 'ten' is not a valid integer range."),
    ([*FIT, "--sigma", "0"], "Invalid value for '--sigma': need more than 0, and finite, got 0"),
    ([*FIT, "--sigma", "nan"], "Invalid value for '--sigma': need more than 0, and finite"),
    ([*FIT, "--preset", "slow"], "Invalid value for '--preset': 'slow' is not one of 'default'"),
    (
        [*WHERE, "--objective", "l2", "--preset", "fast"],
        "--preset: only hl-gaussian has it, but --objective is l2; leave one of them out",
    ),
    ([*WHERE, "--objective", "mdn", "--no-trees"], "--no-trees: only hl-gaussian has it, but"),
    ([*WHERE, "--objective", "l1", "--plain"], "--plain: only hl-gaussian has it, but"),
    ([*PAPER, "--no-trees"], "--no-trees: has no meaning with --plain; leave one of them out"),
    ([*PAPER, "--preset", "fast"], "--preset: has no meaning with --plain; leave one of them out"),
    ([*FIT, "--max-seconds", "inf"], "Invalid value for '--max-seconds': need more than 0"),
    ([*FIT, "--seed", "-1"], "Invalid value for '--seed': -1 is not in the range"),
    ([*FIT, "-o", "missing/m"], "Invalid value for '-o': no folder 'missing'; make it first"),
    ([*FIT, "-o", "."], "Invalid value for '-o': '.' is a folder; name a file in it"),
    ([*FIT, "-o", "data.csv"], "data.csv: is read as well; choose another file for the result"),
    ([*FIT, "--target", "Y"], "data.csv: no column 'Y'; the table has 'width', 'height', 'y'"),
    ([*FIT, "--target", "heigth"], "data.csv: no column 'heigth' (did you mean 'height'?)"),
    (["fit", "no.csv", *FIT[2:]], "no.csv: no such file"),
    (["fit", "empty.csv", *FIT[2:]], "empty.csv: the file is empty"),
    (
        ["fit", "infinite.csv", *FIT[2:]],
        "infinite.csv: column 'height', row 2: 'inf' is not finite",
    ),
    (["fit", "dates.csv", *FIT[2:]], "dates.csv: column 'day': dates, times and durations are not"),
    (["fit", "words.csv", *FIT[2:]], "words.csv: column 'height', row 2: 'tall' is not a number"),
    (["fit", "words.csv", *FIT[2:], "--target", "height"], "words.csv: column 'height', row 2: 't"),
    (["compare", "words.csv", "--target", "y"], "words.csv: column 'height', row 2: 'tall'"),
    (["fit", "gaps.csv", *FIT[2:]], "gaps.csv: column 'y', row 2: the cell is empty"),
    (["predict", "no.model", "new.csv", "-o", "-"], "no.model: cannot read"),
    (["predict", "text.model", "new.csv", "-o", "-"], "text.model: not a softbins model file"),
    (["predict", "data.csv", "new.csv", "-o", "-"], "data.csv: not a softbins model file"),
    (["predict", "some.model", "no.csv", "-o", "-"], "no.csv: no such file"),
    (
        ["predict", "some.model", "misspelt.csv", "-o", "-"],
        "misspelt.csv: no column 'width' (did you mean 'widht'?)",
    ),
    (
        ["predict", "some.model", "words.csv", "-o", "-"],
        "words.csv: column 'height', row 2: 'tall'",
    ),
    (["predict", "some.model", "new.csv", "-o", "p.txt"], "Invalid value for '-o': p.txt: unknown"),
    (["predict", "some.model", "new.csv", "-o", "no/p.csv"], "Invalid value for '-o': no folder"),
    (["predict", "some.model", "new.csv", "-o", "new.csv"], "new.csv: is read as well"),
    (
        ["predict", "some.model", "new.csv", "-o", "-", "--interval", "1"],
        "Invalid value for '--interval': need more than 0 and less than 1, got 1",
    ),
    (
        ["predict", "some.model", "new.csv", "-o", "-", "--raw"],
        "--raw: is about intervals; give --interval as well",
    ),
    (
        # Two members have left out eight rows each.
        ["predict", "some.model", "new.csv", "-o", "-", "--interval", "0.99"],
        "coverage: 0.99 needs at least 99 held-out rows, got 16; hold out more, ask for at most",
    ),
    (
        ["predict", "some.model", "new.csv", "-o", "-", "--quantiles", "0.1,high"],
        "Invalid value for '--quantiles': 'high' is not a valid float.",
    ),
    (
        ["predict", "some.model", "new.csv", "-o", "-", "--quantiles", "0.1,10"],
        "Invalid value for '--quantiles': need more than 0 and less than 1, got 10",
    ),
    (
        ["predict", "some.model", "new.csv", "-o", "-", "--quantiles", "0.1,0.10"],
        "Invalid value for '--quantiles': need every item once, got '0.1,0.10'",
    ),
    (["predict", "l2.model", "new.csv", "-o", "-", "--interval", "0.9"], "objective: "),
    (["predict", "l2.model", "new.csv", "-o", "-", "--interval", "0.9", "--raw"], "objective: "),
    (["predict", "l2.model", "new.csv", "-o", "-", "--output", "median"], "objective: "),
    (["compare", "no.csv", "--target", "y"], "no.csv: no such file"),
    (["compare", "infinite.csv", "--target", "y"], "infinite.csv: column 'height', row 2: 'inf'"),
    (["compare", "dates.csv", "--target", "y"], "dates.csv: column 'day': dates, times"),
    (
        ["compare", "data.csv", "--target", "y", "--methods", "l2,l7"],
        "Invalid value for '--methods'",
    ),
    (["compare", "data.csv", "--target", "y", "--folds", "1"], "Invalid value for '--folds': 1 is"),
    (
        ["compare", "data.csv", "--target", "y", "--folds", "99"],
        "--folds: 99 folds need as many rows, got 60",
    ),
    (
        ["compare", "data.csv", "--target", "y", "--plot", "p.gif"],
        "Invalid value for '--plot': p.gif: unknown kind of picture; use one of .svg, .png, .pdf",
    ),
    (
        ["compare", "data.csv", "--target", "y", "--plot", "no/p.svg"],
        "Invalid value for '--plot': no",
    ),
    (
        ["compare", "data.csv", "--target", "y", "--page", "p.txt"],
        "Invalid value for '--page': p.txt: a page is written to a file that ends in .html or .htm",
    ),
    (["compare", "no.csv", "--target", "y", "--page", "p.html"], "no.csv: no such file"),
    (["evaluate", "some.model", "data.csv"], "Missing option '--target'."),
    (["evaluate", "no.model", "data.csv", "--target", "y"], "no.model: cannot read"),
    (["evaluate", "text.model", "data.csv", "--target", "y"], "text.model: not a softbins model"),
    (["evaluate", "some.model", "no.csv", "--target", "y"], "no.csv: no such file"),
    (["evaluate", "some.model", "new.csv", "--target", "y"], "new.csv: no column 'y'; the table"),
    (["evaluate", "some.model", "gaps.csv", "--target", "y"], "gaps.csv: column 'y', row 2: the"),
    (
        ["evaluate", "some.model", "misspelt.csv", "--target", "widht"],
        "misspelt.csv: no column 'width'; the table has 'height'",
    ),
    (
        ["evaluate", "some.model", "data.csv", "--target", "width"],
        "data.csv: the model predicts from 'width'; name the column it predicts",
    ),
    (
        ["evaluate", "some.model", "words.csv", "--target", "y"],
        "words.csv: column 'height', row 2: 'tall'",
    ),
    (
        ["evaluate", "some.model", "data.csv", "--target", "y", "--coverage", "90"],
        "Invalid value for '--coverage': need more than 0 and less than 1, got 90",
    ),
    (
        ["evaluate", "some.model", "data.csv", "--target", "y", "--page", "no/p.html"],
        "Invalid value for '--page': no folder 'no'; make it first",
    ),
    (
        ["evaluate", "some.model", "data.csv", "--target", "y", "--page", "some.model"],
        "Invalid value for '--page': some.model: a page is written to",
    ),
    (["info", "no.model"], "no.model: cannot read"),
    (["info", "text.model"], "text.model: not a softbins model file"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_bad_input_is_one_line_on_stderr_and_changes_no_file(folder, monkeypatch, arguments, line):
    def untimely(*_, **__):
        raise AssertionError("the input should have been checked before training")

    monkeypatch.setattr(StackedRegressor, "fit", untimely)
    monkeypatch.setattr("softbins.report.comparison.cross_validate", untimely)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"softbins: {line}")
    assert result.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_ctrl_c_is_one_line_and_exit_code_130(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(HistogramRegressor, "fit", interrupted)
    result = run(*FIT)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "softbins: interrupted\n"
    assert not (folder / "new.model").exists()


def test_too_little_memory_is_one_line():
    result = run(*FIT, "--bins", 10**15)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("softbins: not enough memory; use fewer bins, ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("bug", [KeyError("a bug"), RuntimeError("a bug"), AssertionError()])
def test_a_bug_is_not_taken_for_bad_input(monkeypatch, bug):
    def broken(*_):
        raise bug

    monkeypatch.setattr(HistogramRegressor, "fit", broken)
    assert run(*FIT).exception is bug


@pytest.mark.parametrize(
    ("missing", "extra", "arguments"),
    [
        ("pandas", "cli", FIT),
        ("matplotlib", "plots", ["compare", "data.csv", "--target", "y", "--plot", "p.svg"]),
        ("jinja2", "plots", ["compare", "data.csv", "--target", "y", "--page", "p.html"]),
        ("matplotlib", "plots", ["evaluate", "some.model", "data.csv", "--target", "y", *PAGE]),
        ("jinja2", "plots", ["evaluate", "some.model", "data.csv", "--target", "y", *PAGE]),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, missing, extra, arguments):
    monkeypatch.setitem(sys.modules, missing, None)
    result = run(*arguments)
    expected = f'softbins: {missing} is not installed: pip install "softbins[{extra}]"\n'
    assert (result.exit_code, result.stderr) == (2, expected)


def test_without_click_the_program_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(cli.__file__)
    assert caught.value.code == 2
    expected = 'softbins: click is not installed: pip install "softbins[cli]"\n'
    assert capsys.readouterr().err == expected


# fit and info


# Which errors are known depends on whether rows were held out.
@pytest.mark.parametrize(("arguments", "part"), [(FIT, "validation"), (PAPER, "train")])
def test_fit_saves_a_model_and_shows_a_short_table(arguments, part):
    result = succeeds(*arguments)
    shown = dict(map(str.strip, line.split("  ", 1)) for line in result.stdout.splitlines())
    assert list(shown) == [
        *("model", "objective", "rows", "features", "kinds", "epochs", f"{part} mae"),
        f"{part} rmse",
    ]
    assert shown["kinds"] == "number 2"
    assert (shown["rows"], shown["features"], shown["epochs"]) == ("60", "2", "3")
    assert list(load("new.model").feature_names_in_) == ["width", "height"]
    assert result.stderr == ""


# Options, and the estimator that they ask for.
ASKED = {
    "nothing": ([], HistogramRegressor()),
    "fast": (["--preset", "fast"], HistogramRegressor(preset="fast")),
    "all": (
        [
            *("--hidden", "8,4", "--bins", "30", "--sigma", "3", "--members", "2", "--epochs", "2"),
            *("--max-seconds", "60", "--no-early-stopping", "--no-trees"),
        ],
        HistogramRegressor(
            (8, 4),
            bins=30,
            sigma=3.0,
            members=2,
            max_epochs=2,
            max_seconds=60.0,
            early_stopping=False,
            trees=False,
        ),
    ),
    "plain": (["--plain"], HistogramRegressor.as_in_paper()),
    "plain and more": (
        ["--plain", "--bins", "30", "--early-stopping"],
        HistogramRegressor.as_in_paper(bins=30, early_stopping=True),
    ),
    "l2": (["--objective", "l2"], NeuralRegressor("l2")),
    "l1": (
        ["--objective", "l1", "--early-stopping", "--hidden", "8", "--members", "2"],
        NeuralRegressor("l1", (8,), early_stopping=True, members=2),
    ),
    "hl-uniform": (
        ["--objective", "hl-uniform", "--bins", "30", "--epochs", "5", "--max-seconds", "2"],
        NeuralRegressor("hl-uniform", bins=30, max_epochs=5, max_seconds=2.0),
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_options_become_parameters_and_all_others_keep_their_defaults(case, monkeypatch):
    asked, expected = ASKED[case]
    fitted = []

    def fit(model, x, y):
        fitted.append(model)
        raise ValueError("seen")

    monkeypatch.setattr(StackedRegressor, "fit", fit)
    assert run(*WHERE, *asked, "--seed", "7").stderr == "softbins: seen\n"
    (model,) = fitted
    assert type(model) is type(expected)
    assert callable(model.progress)
    expected.set_params(random_state=7, progress=model.progress)
    assert model.get_params() == expected.get_params()


def test_options_survive_the_file():
    succeeds(*FIT, "--sigma", "1.5", "--max-seconds", "60", "--preset", "fast", "--seed", "7")
    found = load("new.model")
    names = ["hidden", "bins", "sigma", "members", "max_epochs", "max_seconds", "preset", "trees"]
    values = [found.get_params()[name] for name in [*names, "random_state", "progress"]]
    assert values == [(8,), 20, 1.5, 2, 3, 60.0, "fast", False, 7, False]
    succeeds(*WHERE, *QUICK, "--objective", "hl-uniform")
    assert type(load("new.model")) is NeuralRegressor


def test_trees_take_part_unless_they_are_left_out():
    frame = table(200).assign(y=lambda d: np.sign(d["width"]) + (d["height"] > 0.5))
    frame.to_csv("steps.csv", index=False)
    shares = []
    for more in ([], ["--no-trees"]):
        arguments = [*QUICK, "--members", "2", *more]
        succeeds("fit", "steps.csv", *WHERE[2:], *arguments)
        shares.append(json.loads(succeeds("info", "new.model", "--json").stdout)["share_of_trees"])
    # Three epochs teach a network little, and steps are what trees are made of.
    assert shares[0] > 0.5
    assert shares[1] == 0


def test_a_warning_is_one_line_on_stderr():
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = succeeds(*PAPER, "--bins", "10", "--sigma", "0.2", "--json")
    assert result.stderr.startswith("softbins: warning: bins: predictions may be off by ")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["rows"] == 60


def test_the_same_seed_gives_the_same_file(folder):
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
    monkeypatch.setattr(Fitting, "_see_all", lambda *_: None)
    stopping = ["--objective", "hl-gaussian", "--plain", "--early-stopping", "--epochs", "60"]
    frame, first = table(), np.random.RandomState(0).randint(2**31 - 1)
    shown = json.loads(succeeds(*WHERE, *QUICK, *stopping, "--members", "2", "--json").stdout)
    model, errors = load("new.model"), []
    outputs = next(model._outputs(frame[["width", "height"]]))
    for member, rows in enumerate(held_out(60, 2, first)):
        predicted = model.objective_.decode(outputs[member, rows]).numpy()
        errors.append(np.abs(predicted - frame["y"].to_numpy()[rows]).mean())
    assert shown["validation_mae"] == pytest.approx(np.mean(errors), rel=1e-4)
    # Other objectives hold out a tenth, and know the errors on the other rows as well.
    other = [*WHERE, *QUICK, "--objective", "l2", "--early-stopping", "--epochs", "60", "--json"]
    shown = json.loads(succeeds(*other).stdout)
    error = np.abs(load("new.model").predict(frame[["width", "height"]]) - frame["y"]).mean()
    found = 54 * shown["train_mae"] + 6 * shown["validation_mae"]
    assert found == pytest.approx(60 * error, rel=1e-4)


def test_a_member_that_has_stopped_keeps_its_best_epoch():
    scores = [5.0, 3.0, None, float("nan"), 3.0, 4.0]
    rows = [{"epoch": i, "validation_mae": score} for i, score in enumerate(scores, 1)]
    for stopping, epoch in [(True, 2), (False, 6)]:
        model = SimpleNamespace(early_stopping=stopping, monitor="mae")
        assert _kept(model, rows)["epoch"] == epoch


def test_a_constant_target_needs_no_epochs():
    table().assign(y=4.0).to_csv("constant.csv", index=False)
    shown = json.loads(succeeds("fit", "constant.csv", *FIT[2:], "--json").stdout)
    assert (shown["epochs"], "validation_mae" in shown) == (0, False)
    printed = succeeds("predict", "new.model", "new.csv", "-o", "-").stdout.split()[1:]
    assert np.allclose(np.array(printed, float), 4.0, atol=0.1)


def test_info_describes_a_model():
    shown, model = json.loads(succeeds("info", "some.model", "--json").stdout), load("some.model")
    assert shown["bins"] == {"count": 20, "low": model.bins_.low, "high": model.bins_.high}
    assert shown["bias_of_bins"] == model.bins_.bias._asdict()
    assert (shown["objective"], shown["members"], shown["hidden"]) == ("hl-gaussian", 2, [8])
    assert (shown["features"], shown["names"]) == (2, ["width", "height"])
    assert shown["share_of_trees"] == model.aggregator_.tree_share
    assert shown["temperature"] == model.aggregator_.temperature.t
    assert (shown["epochs"], shown["calibration_rows"]) == (3, 16)
    assert shown["validation_rmse"] >= shown["validation_mae"] > 0
    text = succeeds("info", "some.model").stdout
    assert "names             width, height\n" in text
    assert "bins              count 20, low " in text
    assert "bias of bins      discretisation " in text


def test_info_leaves_out_what_a_model_has_not():
    shown = json.loads(succeeds("info", "paper.model", "--json").stdout)
    y = table()["y"]
    assert shown["bins"] == {"count": 20, "low": y.min(), "high": y.max()}
    assert (shown["members"], shown["hidden"], shown["temperature"]) == (1, [8], None)
    text = succeeds("info", "paper.model").stdout
    assert "temperature" not in text
    assert "bias of bins" not in text
    assert "bins" not in succeeds("info", "l2.model").stdout


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
    assert np.allclose(found[1], model.predict_quantiles(x, [0.1, 0.9]))
    assert (found[0] != found[1]).all()
    # Other estimators calibrate nothing, so that theirs are raw in any case.
    asked[1] = "paper.model"
    succeeds(*asked, "--raw")
    raw = pd.read_csv("p.csv")[["low_0.8", "high_0.8"]].to_numpy()
    assert np.array_equal(raw, load("paper.model").predict_interval(x, 0.8))


@pytest.mark.parametrize("name", ["p.csv.gz", "p.parquet"])
def test_predictions_are_the_same_in_every_kind_of_table(name):
    from softbins.cli.table_files import read_table

    printed = succeeds("predict", "some.model", "new.csv", "-o", "-").stdout
    succeeds("predict", "some.model", "new.csv", "-o", name)
    assert read_table(name).to_csv(index=False) == printed
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


def houses(rows=40):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=rows).round(3).astype(str)})
    frame.loc[3, "size"], frame.loc[5, "size"] = "", "NA"
    frame["code"] = ["1.50", "y", "x"] * (rows // 3) + ["x"] * (rows % 3)
    frame["sold"], frame["garden"] = [True, False] * (rows // 2), ["true", "", "false", "true"] * 10
    frame["town"], frame["nothing"] = ["Aa", "", "Bö", "NA"] * (rows // 4), ""
    return frame.assign(y=random.normal(size=rows))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_with_words_truth_and_gaps(suffix):
    from softbins.cli.table_files import write_table

    data = f"houses.{suffix}"
    write_table(houses(), data)
    fitted = json.loads(succeeds("fit", data, *FIT[2:], "--json").stdout)
    assert fitted["kinds"] == {"number": 1, "category": 2, "boolean": 2, "empty": 1}
    shown = json.loads(succeeds("info", "new.model", "--json").stdout)
    assert dict(zip(shown["names"], shown["kinds"], strict=True)) == KINDS
    assert "kinds             number, category, boolean, " in succeeds("info", "new.model").stdout
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
    from softbins.report.evaluation import evaluate

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
    lines = dict(line.split("  ", 1) for line in succeeds(*asked).stdout.splitlines())
    assert float(lines["median mae"]) == pytest.approx(shown["median_mae"], rel=1e-3)
    assert not (folder / "p.html").exists()


def test_evaluate_writes_a_page_beside_the_scores(folder):
    asked = ["evaluate", "some.model", "data.csv", "--target", "y"]
    result = succeeds(*asked, *PAGE)
    assert result.stdout == succeeds(*asked).stdout
    text = (folder / "p.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>some.model on data.csv</h1>" in text
    assert text.count("<figure>") == 5


def test_evaluate_tells_that_a_model_predicts_numbers_only(folder):
    asked = ["evaluate", "l2.model", "data.csv", "--target", "y", *PAGE]
    result = succeeds(*asked)
    names = [line.partition("  ")[0] for line in result.stdout.splitlines()]
    assert names[:5] == ["model", "objective", "rows", "mae", "rmse"]
    assert result.stderr.startswith("The model (l2) predicts numbers, no distributions: only MAE")
    assert result.stderr.count("\n") == 1
    assert (folder / "p.html").read_text().count("<figure>") == 1
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


def test_compare_ranks_every_method(folder):
    arguments = ["compare", "data.csv", "--target", "y", "--epochs", "2", "--folds", "3"]
    result = succeeds(*arguments, "--plot", "p.svg", "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["features"], found["folds"], found["epochs"]) == (60, 2, 3, 2)
    scores = found["results"]
    assert {score["method"] for score in scores} == set(options.METHODS)
    assert [score["mae"] for score in scores] == sorted(score["mae"] for score in scores)
    # The target is a linear function, and two epochs teach a network little.
    assert scores[0]["method"] == "linear"
    for score in scores:
        folds = [fold["mae"] for fold in score["folds"]]
        assert score["mae"] == pytest.approx(np.mean(folds))
        assert score["mae_stderr"] == pytest.approx(np.std(folds, ddof=1) / np.sqrt(3))
    picture = (folder / "p.svg").read_text()
    assert picture.startswith("<?xml")
    assert picture.count(">hl-gaussian</text>") == 1
    assert result.stderr == ""


def test_compare_shows_a_table_and_puts_a_method_that_diverged_last(monkeypatch):
    def cross_validate(x, y, method, folds, epochs, seed, progress):
        errors = {"l2": [np.nan, 1.0], "l1": [3.0, 5.0], "mdn": [1.0, 1.0]}[method]
        return [{"fold": i, "mae": e, "rmse": 2 * e} for i, e in enumerate(errors)]

    monkeypatch.setattr("softbins.report.comparison.cross_validate", cross_validate)
    arguments = ["compare", "data.csv", "--target", "y", "--methods", "l2,l1,mdn", "--folds", "2"]
    assert succeeds(*arguments).stdout.splitlines() == [
        "method  MAE        RMSE",
        "mdn     1 ± 0      2 ± 0",
        "l1      4 ± 1      8 ± 2",
        "l2      nan ± nan  nan ± nan",
    ]
    assert json.loads(succeeds(*arguments, "--json").stdout)["results"][2]["mae"] is None


# Time


@pytest.mark.parametrize(
    ("share", "seconds", "limit", "left"),
    [
        (0.5, 30, None, "0:30 left"),
        (0.01, 10, None, "16:30 left"),
        (0.01, 10, 60, "0:50 left"),
        (0.01, 70, 60, "0:00 left"),
        (1.0, 5, None, "0:00 left"),
    ],
)
def test_the_time_left_follows_the_pace_and_the_limit(share, seconds, limit, left):
    assert cli._time_left(share, seconds, limit) == left


def test_a_bar_is_drawn_only_for_a_terminal(monkeypatch, capsys):
    with cli._progress() as update:
        update(0.1, "epoch 1/10", 1.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with cli._progress() as update:
        # Half of it in nine seconds, whatever went before; the bar itself is younger.
        update(0.5, "epoch 5/10", 9.0)
    shown = capsys.readouterr()
    assert "epoch 5/10 0:09 left" in shown.err
    assert shown.out == ""


# Real processes


def test_a_process_keeps_results_and_messages_apart():
    done = subprocess.run([*PROCESS, *FIT, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == 60
    assert done.stderr == ""


def test_a_process_fails_with_exit_code_2():
    command = [*PROCESS, "info", "text.model"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("softbins: text.model: not a softbins model file")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_the_time_left_and_ctrl_c_leaves_nothing_behind(folder):
    import pty

    ours, theirs = pty.openpty()
    command = [*PROCESS, *FIT, "--epochs", "1000000"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    before = set(folder.iterdir())
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = _read_until(ours, b" left")
        process.send_signal(signal.SIGINT)
        shown += _read_until(ours, b"interrupted")
        assert process.wait(timeout=20) == 130
        assert process.stdout.read() == b""
    os.close(ours)
    assert b"epoch " in shown
    assert b"/1000000  validation mae " in shown
    assert set(folder.iterdir()) == before


def _read_until(terminal, text):
    shown = b""
    while text not in shown:
        part = os.read(terminal, 4096)
        assert part, f"the process ended without {text!r}: {shown!r}"
        shown += part
    return shown


def test_the_installed_click_keeps_stderr_apart():
    """The other tests rely on it: click 8.2 changed what its runner's `stdout` means."""
    command = click.Command("both", callback=lambda: (click.echo("a"), click.echo("b", err=True)))
    result = CliRunner().invoke(command)
    assert (result.stdout, result.stderr) == ("a\n", "b\n")
