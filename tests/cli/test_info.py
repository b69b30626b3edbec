"""What `softbins info` shows of a model file: quickly, in a narrow terminal, and as JSON."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softbins import NeuralRegressor, load
from softbins._core.model_file import read, write
from softbins._core.text import shown
from tests.cli.runs import FIT, run, succeeds

pytestmark = pytest.mark.usefixtures("folder")

OLD_FILES = Path(__file__).parents[1] / "tabular" / "model_files"
MODELS = ["some.model", "paper.model", "l2.model"]


def save_wide_model(path, columns):
    """A model of many columns, the first of which has a name that is made to cause trouble."""
    names = ["evil \x1b[31m|\n" + "x" * 60, *(f"n{i}" for i in range(1, columns))]
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, columns)) * 1e5, columns=names)
    model = NeuralRegressor("l2", (2,), max_epochs=1, random_state=0)
    model.fit(frame, pd.Series(np.arange(20.0), name="a\x1b[2J")).save(path)


@pytest.mark.parametrize("model", MODELS)
def test_json_has_every_fact(model):
    shown, fitted = json.loads(succeeds("info", model, "--json").stdout), load(model)
    about = asdict(fitted.provenance_)
    assert {name: shown[name] for name in about} == json.loads(json.dumps(about))
    assert shown["class"] == type(fitted).__name__
    # How a fit is watched and shared out is not part of what was fitted.
    passing = {"n_jobs", "on_interrupt", "callbacks"}
    assert set(shown["parameters"]) == set(fitted.get_params()) - passing
    assert shown["target"] == "y"
    assert set(shown["scores"]) == ({"mae", "rmse", "crps"} if model == "some.model" else set())


def test_json_has_the_same_keys_for_every_model():
    paths = [*MODELS, *OLD_FILES.glob("*.model")]
    errors = {f"{part}_{name}" for part in ("train", "validation") for name in ("mae", "rmse")}
    shown = [json.loads(succeeds("info", path, "--json").stdout) for path in paths]
    assert len({tuple(name for name in each if name not in errors) for each in shown}) == 1
    for path, each in list(zip(paths, shown, strict=True))[len(MODELS) :]:
        assert (each["version"] is None) == (path.stem == "neural_regressor")
        assert {"town", "size"} < {column["name"] for column in each["columns"]}


@pytest.mark.parametrize("width", [50, 80])
def test_text_fits_into_a_narrow_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    save_wide_model("wide.model", 25)
    for model in ["some.model", "wide.model", *OLD_FILES.glob("histogram*.model")]:
        lines = succeeds("info", model).stdout.splitlines()
        # A path is broken only where it has to be.
        assert max(map(len, lines)) <= width, max(lines, key=len)


def test_text_shows_twenty_columns_and_how_many_more_there_are():
    save_wide_model("wide.model", 25)
    text = succeeds("info", "wide.model").stdout
    table = text.partition("\n\n")[2]
    assert table.splitlines()[0].split() == ["column", "kind", "gaps", "seen"]
    assert table.splitlines()[-1] == "... and 5 more"
    assert table.count(" number ") == 20
    assert "n19 " in table
    assert "n20" not in table
    assert len(json.loads(succeeds("info", "wide.model", "--json").stdout)["columns"]) == 25


def test_text_shows_where_a_model_comes_from():
    text = succeeds("info", "some.model").stdout
    about = load("some.model").provenance_
    facts = dict(line.split("  ", 1) for line in text.splitlines() if "  " in line)
    assert facts["fitted at"].strip() == about.fitted_at
    assert facts["rows"].strip() == "60"
    assert facts["held-out scores"].strip().startswith(f"crps {about.scores['crps']:.4g}, mae ")
    assert f"{shown(about.columns[0].low)} to {shown(about.columns[0].high)}" in text


def test_names_cannot_command_the_terminal():
    save_wide_model("wide.model", 2)
    text = succeeds("info", "wide.model").stdout
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text


def test_a_card_is_written_beside_the_text(folder):
    result = succeeds("info", "some.model", "--card", "card.md")
    assert result.stdout == succeeds("info", "some.model").stdout
    written = (folder / "card.md").read_text()
    assert written == load("some.model").card().replace("the.model", "some.model")


def test_a_card_does_not_replace_the_model(folder):
    before = (folder / "some.model").read_bytes()
    result = run("info", "some.model", "--card", "some.model")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert (folder / "some.model").read_bytes() == before


def test_info_waits_for_no_heavy_library():
    code = """
import sys, time
from softbins.cli import main
try:
    main(["info", "some.model", "--card", "card.md"])
except SystemExit as end:
    assert end.code == 0
loaded = [name for name in ("torch", "sklearn", "pandas", "scipy") if name in sys.modules]
print(loaded, time.process_time() < 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] True"


def damaged(data):
    """A bit of a weight, of the header, and the end."""
    yield data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    place = data.index(b"monitor")
    yield data[:place] + b"M" + data[place + 1 :]
    yield data[:-1]


def test_what_load_says_of_a_damaged_file_is_what_info_says(folder):
    data = (folder / "some.model").read_bytes()
    for content in damaged(data):
        Path("broken.model").write_bytes(content)
        result = run("info", "broken.model")
        with pytest.raises(ValueError, match="broken.model: ") as caught:
            load("broken.model")
        assert (result.exit_code, result.stderr) == (2, f"softbins: {caught.value}\n")


def test_what_load_says_of_a_wrong_header_is_what_info_says():
    header, tensors = read("some.model")
    for change in ({"epochs": -1}, {"network": header["network"] | {"members": 3}}, {"more": 1}):
        write("wrong.model", header | change, tensors)
        result = run("info", "wrong.model")
        with pytest.raises(ValueError, match="holds no model") as caught:
            load("wrong.model")
        assert (result.exit_code, result.stderr) == (2, f"softbins: {caught.value}\n")


# evaluate


def test_evaluate_needs_no_target_where_the_file_knows_it():
    succeeds(*FIT)
    for model in ("some.model", "new.model"):
        known = succeeds("evaluate", model, "data.csv").stdout
        assert known == succeeds("evaluate", model, "data.csv", "--target", "y").stdout


def test_evaluate_takes_the_target_that_is_given(folder):
    frame = pd.read_csv("data.csv").assign(other=1.0)
    frame.to_csv("other.csv", index=False)
    asked = ["evaluate", "some.model", "other.csv", "--json"]
    own, other = (
        json.loads(succeeds(*asked, *more).stdout) for more in ([], ["--target", "other"])
    )
    assert own["mae"] != other["mae"]


@pytest.mark.parametrize("model", [OLD_FILES / "neural_regressor.model", "nameless.model"])
def test_evaluate_says_how_to_name_a_target_that_is_not_known(model):
    x, y = pd.read_csv("data.csv")[["width", "height"]], np.arange(60.0)
    NeuralRegressor("l2", (2,), max_epochs=1).fit(x, y).save("nameless.model")
    result = run("evaluate", model, "data.csv")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "the model does not know the name of its target; give --target COL" in result.stderr
