"""What commands write: files that are no models stay, and levels keep names of their own."""

import json

import numpy as np
import pytest

from softbins._core.text import level_text, level_texts, percent_text, share_text, shown
from softbins.cli import program
from softbins.tabular.base import StackedRegressor
from tests.cli.runs import FIT, run, succeeds

# A model is written by every command that has an option --force.
CONTENTS = {
    "table": b"a,b\n1,2\n",
    "empty": b"",
    "text": b"not a model",
    "other tensors": (2).to_bytes(8, "little") + b"{}",
    "zeros": bytes(100),
    "promise": (2**60).to_bytes(8, "little") + b"{}",
}


def test_commands_that_write_models_have_force():
    commands = {name: program.main.get_command(None, name) for name in program.COMMANDS}
    writers = {
        name
        for name, command in commands.items()
        for option in command.params
        if "-o" in option.opts and option.metavar == "MODEL"
    }
    forced = {name for name, c in commands.items() if any("--force" in p.opts for p in c.params)}
    assert writers == forced == {"fit"}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_is_no_model_stays(name, folder, monkeypatch):
    (folder / "there").write_bytes(CONTENTS[name])
    with monkeypatch.context() as patched:
        patched.setattr(StackedRegressor, "fit", lambda *_: pytest.fail("trained before a check"))
        result = run(*FIT, "-o", "there")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "softbins: there: is there and is no softbins model; choose another file, or replace it "
        "with --force\n"
    )
    assert (folder / "there").read_bytes() == CONTENTS[name]
    succeeds(*FIT, "-o", "there", "--force")
    assert json.loads(succeeds("info", "there", "--json").stdout)


def test_a_model_is_replaced_and_an_input_is_not(folder):
    before = (folder / "l2.model").read_bytes()
    succeeds(*FIT, "-o", "l2.model")
    assert (folder / "l2.model").read_bytes() != before
    table = (folder / "data.csv").read_bytes()
    assert run(*FIT, "-o", "data.csv", "--force").exit_code == 2
    assert (folder / "data.csv").read_bytes() == table


# Levels


def close_levels(generator):
    """Probabilities of which some differ in a late digit only, or hardly from 0 and 1."""
    first = generator.uniform(0.01, 0.99, 3).round(3)
    near = np.nextafter(first, 1), first + 10.0 ** -generator.integers(6, 15, 3)
    ends = 10.0 ** -generator.integers(3, 300, 2), 1 - 10.0 ** -generator.integers(3, 16, 2)
    return sorted({*np.concatenate([first, *near, *ends]).tolist()} - {0.0, 1.0})


@pytest.mark.parametrize("seed", range(50))
def test_different_levels_have_different_names_and_none_is_0_or_1(seed):
    levels = close_levels(np.random.default_rng(seed))
    names = level_texts(levels)
    assert len(set(names)) == len(levels)
    for level, name in zip(levels, names, strict=True):
        assert float(name) == pytest.approx(level, rel=1e-14)
        for text in (name, level_text(level), shown(level)):
            assert 0 < float(text) < 1
        assert 0 < float(percent_text(level)) < 100
        assert share_text(level) not in ("0.0%", "100.0%")


def test_plain_levels_have_plain_names():
    assert level_texts([0.1, 0.1 + 0.2, 0.5]) == ["0.1", "0.3", "0.5"]
    assert [percent_text(level) for level in (0.9, 0.5, 0.975, 0.07)] == ["90", "50", "97.5", "7"]
    assert share_text(1.0) == "100.0%"


def test_tables_and_pages_keep_levels_apart(folder):
    levels = "0.1,0.1000000001,0.9999999"
    result = succeeds("predict", "paper.model", "new.csv", "-o", "-", "--quantiles", levels)
    head = result.stdout.splitlines()[0]
    assert head == "prediction,quantile_0.1,quantile_0.1000000001,quantile_0.9999999"
    result = succeeds("predict", "paper.model", "new.csv", "-o", "-", "--interval", "0.9999999")
    assert result.stdout.splitlines()[0] == "prediction,low_0.9999999,high_0.9999999"
    where = ["evaluate", "paper.model", "data.csv", "--target", "y", "--coverage", "0.9999999"]
    shown_text = succeeds(*where, "--page", "p.html").stdout
    assert ["interval", "0.9999999"] in [line.split() for line in shown_text.splitlines()]
    page = (folder / "p.html").read_text()
    assert "99.99999% intervals" in page
    assert "100% intervals" not in page
