"""The program as its users meet it: results on stdout, one line on stderr if it cannot be."""

import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from softbins import HistogramRegressor
from softbins.cli import program
from softbins.tabular.neural_regressor import StackedRegressor
from tests.cli.runs import FIT, PAGE, PAPER, WHERE, run, succeeds

pytestmark = pytest.mark.usefixtures("folder")
COMMANDS = sorted(set(program.COMMANDS) - {"paper"})
# Softbins as its own process, as the console script starts it.
PROCESS = [sys.executable, "-c", "from softbins.cli import main; main()"]


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_that_parses(command, folder):
    shown = succeeds(command, "--help").stdout
    lines = [line.split() for line in shown.splitlines() if line.startswith("    softbins ")]
    assert lines
    for _, name, *arguments in lines:
        assert name == command
        context = program.main.get_command(None, command).make_context(name, arguments)
        assert context.params


def test_the_program_lists_its_commands_and_its_version():
    shown = succeeds("--help").stdout
    assert "softbins fit houses.csv --target price -o houses.model" in shown
    assert all(f"\n  {command} " in shown for command in COMMANDS)
    assert succeeds("--version").stdout == f"softbins, version {version('softbins')}\n"
    nothing = run()
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert nothing.stderr.startswith("Usage: softbins ")


def test_help_does_not_wait_for_torch():
    code = "import sys\nfrom softbins.cli import main\n"
    code += "try:\n main(['fit', '--help'])\nfinally:\n print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: softbins fit ")
    assert done.stdout.endswith("\nFalse\n")


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
    ([*FIT, "--target", "Y"], "data.csv: no column 'Y' (did you mean 'y'?); the table has"),
    ([*FIT, "--target", "heigth"], "data.csv: no column 'heigth' (did you mean 'height'?)"),
    (["fit", "no.csv", *FIT[2:]], "no.csv: no such file"),
    (["fit", "empty.csv", *FIT[2:]], "empty.csv: the file is empty"),
    (
        ["fit", "infinite.csv", *FIT[2:]],
        "infinite.csv: column 'height', row 2: 'inf' is not finite",
    ),
    (
        ["fit", "dates.csv", *FIT[2:]],
        "dates.csv: column 'day', row 1: '01/02/2020' may be 2020-01-02",
    ),
    (["fit", "words.csv", *FIT[2:]], "words.csv: column 'height', row 2: 'tall' is not a number"),
    (["fit", "words.csv", *FIT[2:], "--target", "height"], "words.csv: column 'height', row 2: 't"),
    (["compare", "words.csv", "--target", "y"], "words.csv: column 'height', row 2: 'tall'"),
    (
        ["fit", "gaps.csv", *FIT[2:], "--strict"],
        "gaps.csv: column 'y', row 2: the cell is empty, as in 1 of 2 rows; leave --strict out",
    ),
    (["fit", "gaps.csv", *FIT[2:]], "gaps.csv: the target 'y' is 3 in every row; name another"),
    (
        ["fit", "data.csv", *FIT[2:], "--features", "Width", "--drop", "hight"],
        "data.csv: no columns 'Width' (did you mean 'width'?), 'hight' (did you mean 'height'?);",
    ),
    (["fit", "data.csv", *FIT[2:], "--drop", "width,height"], "data.csv: no columns besides the t"),
    (
        ["fit", "data.csv", *FIT[2:], "--drop", "a,,b"],
        "Invalid value for '--drop': need names with",
    ),
    ([*FIT, "--sep", "ab"], "Invalid value for '--sep': need one character, or tab, got 'ab'"),
    ([*FIT, "--decimal", ",", "--thousands", ","], "--decimal and --thousands: both are ','"),
    ([*FIT, "--encoding", "utf-7000"], "Invalid value for '--encoding': unknown encoding"),
    (["look", "no.csv"], "no.csv: no such file"),
    (["look", "data.csv", "--target", "Y"], "data.csv: no column 'Y' (did you mean 'y'?)"),
    (["look", "words.csv", "--target", "height"], "words.csv: column 'height', row 2: 'tall'"),
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
    (
        ["compare", "dates.csv", "--target", "y"],
        "dates.csv: column 'day', row 1: '01/02/2020' may be",
    ),
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
    (["evaluate", "some.model", "new.csv"], "new.csv: no column 'y'; the table"),
    (["evaluate", "no.model", "data.csv", "--target", "y"], "no.model: cannot read"),
    (["evaluate", "text.model", "data.csv", "--target", "y"], "text.model: not a softbins model"),
    (["evaluate", "some.model", "no.csv", "--target", "y"], "no.csv: no such file"),
    (["evaluate", "some.model", "new.csv", "--target", "y"], "new.csv: no column 'y'; the table"),
    (
        ["evaluate", "some.model", "gaps.csv", "--target", "y", "--strict"],
        "gaps.csv: column 'y', row 2: the",
    ),
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
    (["serve", "no.model"], "no.model: cannot read"),
    (["serve", "text.model"], "text.model: not a softbins model file"),
    (["serve", "some.model", "--port", "65536"], "Invalid value for '--port': 65536 is not in the"),
    (["serve", "some.model", "--host", "a.invalid"], "cannot listen at a.invalid:8000: "),
    (["info", "no.model"], "no.model: cannot read"),
    (["info", "text.model"], "text.model: not a softbins model file"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_bad_input_is_one_line_on_stderr_and_changes_no_file(folder, monkeypatch, arguments, line):
    def untimely(*_, **__):
        raise AssertionError("the input should have been checked before training")

    monkeypatch.setattr(StackedRegressor, "_fit_encoded", untimely)
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

    monkeypatch.setattr(HistogramRegressor, "_fit_encoded", interrupted)
    result = run(*FIT)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.endswith("\nsoftbins: interrupted\n")
    assert not (folder / "new.model").exists()


def test_too_little_memory_is_one_line():
    result = run(*FIT, "--bins", 10**15)
    assert (result.exit_code, result.stdout) == (2, "")
    *_, line = result.stderr.splitlines()
    assert line.startswith("softbins: hidden: 2 networks with 2 inputs, layers of (8) ")
    assert line.endswith("; use fewer hidden units, members, bins or columns")


BUGS = [KeyError("a bug"), RuntimeError("a bug that speaks of memory"), AssertionError()]


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_not_taken_for_bad_input(monkeypatch, bug):
    def broken(*_):
        raise bug

    monkeypatch.setattr(HistogramRegressor, "_fit_encoded", broken)
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


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_service_names_its_extra_as_well(monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith("softbins.serve")]:
        monkeypatch.delitem(sys.modules, name)  # imported by other tests
    monkeypatch.setitem(sys.modules, missing, None)
    result = run("serve", "some.model")
    expected = f'softbins: {missing} is not installed: pip install "softbins[serve]"\n'
    assert (result.exit_code, result.stderr) == (2, expected)


def test_a_port_in_use_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "some.model", "--port", port)
    where = f"cannot listen at 127.0.0.1:{port}"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"softbins: {where}: Address already in use; choose another\n"


def test_a_service_prints_its_address_and_is_for_this_machine_alone(monkeypatch):
    from softbins.serve import server

    monkeypatch.setattr(server, "run", lambda app, listener, when_ready: when_ready())
    shown = succeeds("serve", "some.model", "--port", "0").stdout
    assert re.fullmatch(r"some\.model at http://127\.0\.0\.1:[1-9]\d*\n", shown)


def test_without_click_the_program_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(program.__file__)
    assert caught.value.code == 2
    expected = 'softbins: click is not installed: pip install "softbins[cli]"\n'
    assert capsys.readouterr().err == expected


def test_a_warning_is_one_line_on_stderr():
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = succeeds(*PAPER, "--bins", "10", "--sigma", "0.2", "--json")
    *_, line = result.stderr.splitlines()
    assert line.startswith("softbins: warning: bins: predictions may be off by ")
    assert result.stderr.count("softbins: ") == 1
    assert json.loads(result.stdout)["rows"] == 60


# Real processes


def test_a_process_keeps_results_and_messages_apart():
    done = subprocess.run([*PROCESS, *FIT, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == 60
    assert done.stderr.startswith("column  taken for  distinct")


def test_a_process_fails_with_exit_code_2():
    command = [*PROCESS, "info", "text.model"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("softbins: text.model: not a softbins model file")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_the_time_left_and_ctrl_c_keeps_what_was_reached(folder):
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
        shown += _read_until(ours, b"interrupted: networks learnt for ")
        assert process.wait(timeout=60) == 0
        assert b"new.model" in process.stdout.read()
    os.close(ours)
    assert b"epoch " in shown
    assert b"/1000000  validation mae " in shown
    assert {path.name for path in {*folder.iterdir()} - before} == {"new.model"}


def _read_until(terminal, text):
    shown = b""
    while text not in shown:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # nobody is left who could write
            part = b""
        assert part, f"the process ended without {text!r}: {shown!r}"
        shown += part
    return shown


def test_the_installed_click_keeps_stderr_apart():
    """The other tests rely on it: click 8.2 changed what its runner's `stdout` means."""
    command = click.Command("both", callback=lambda: (click.echo("a"), click.echo("b", err=True)))
    result = CliRunner().invoke(command)
    assert (result.stdout, result.stderr) == ("a\n", "b\n")
