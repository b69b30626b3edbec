"""The progress bar of training: one line wherever it is shown, and the line ends."""

import io
import re
import sys
from contextlib import contextmanager, redirect_stderr
from types import SimpleNamespace

import pytest

from softbins.nn.progress import progress_bar

EPOCHS = 10
NOTEBOOK_CELL = f"""
from softbins.nn.progress import progress_bar

with progress_bar(True) as show:
    for epoch in range(1, 6):
        show(epoch, {EPOCHS}, float(epoch), {{"mae": 1.0 / epoch}})
"""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@contextmanager
def bar_in_a_terminal(progress=True):
    """What `progress_bar` yields where stderr is a terminal, and that terminal."""
    with redirect_stderr(Terminal()) as terminal, progress_bar(progress) as show:
        yield show, terminal


def train(show, stop=EPOCHS, errors=None):
    for epoch in range(1, stop + 1):
        show(epoch, EPOCHS, float(epoch), errors or {"validation_mae": 1 / epoch})


def lines_on_screen(written):
    """What a terminal shows in the end: "\\r" goes back to the start of the line."""
    lines = []
    for line in written.split("\n"):
        screen = ""
        for part in line.split("\r"):
            screen = part + screen[len(part) :]
        lines.append(screen.rstrip())
    return lines


def test_a_function_of_ones_own_is_called_as_it_is():
    calls = []

    def own(*call):
        calls.append(call)

    with bar_in_a_terminal(own) as (show, terminal):
        assert show is own
        train(show, stop=2)
    assert len(calls) == 2
    assert terminal.getvalue() == ""


def test_nothing_is_shown_unless_asked_for():
    with bar_in_a_terminal(False) as (show, terminal):
        assert show is None
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_watches():
    with redirect_stderr(io.StringIO()) as stream, progress_bar(True) as show:
        assert show is None
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stop", [EPOCHS, 5], ids=["to the end", "stopped early"])
def test_a_terminal_shows_one_line_that_ends(stop):
    with bar_in_a_terminal() as (show, terminal):
        train(show, stop)
    (line, after) = lines_on_screen(terminal.getvalue())
    done = "█" * (2 * stop)
    assert line == f"{done:░<20} {stop}/10 epochs, {10 - stop} s left  validation_mae {1 / stop:g}"
    assert after == ""


def test_the_line_ends_after_an_exception():
    def interrupted():
        with progress_bar(True) as show:
            train(show, stop=3)
            raise KeyboardInterrupt

    with redirect_stderr(Terminal()) as terminal, pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().endswith("\n")


def test_training_without_an_epoch_writes_nothing():
    with bar_in_a_terminal() as (_, terminal):
        pass
    assert terminal.getvalue() == ""


def test_more_epochs_than_planned_stay_on_the_line():
    """Training may be prolonged after the last epoch that was planned at first."""
    with bar_in_a_terminal() as (show, terminal):
        train(show)
        show(EPOCHS + 1, 2 * EPOCHS, 11.0, {})
    (line, after) = lines_on_screen(terminal.getvalue())
    assert " 11/20 epochs" in line
    assert after == ""


def test_a_shorter_line_leaves_nothing_of_a_longer_one():
    with bar_in_a_terminal() as (show, terminal):
        show(1, EPOCHS, 1000.0, {"validation_mae": 0.1234})
        show(2, EPOCHS, 1.0, {})
    assert lines_on_screen(terminal.getvalue())[0].endswith("2/10 epochs, 4 s left")


def test_a_line_is_no_wider_than_the_terminal():
    """A line that wraps would not be written over, but be followed by the next."""
    names = [f"{part}_{error}" for part in ("train", "validation") for error in ("mae", "rmse")]
    with bar_in_a_terminal() as (show, terminal):
        train(show, errors=dict.fromkeys(names, 0.1234))
    (line, _) = lines_on_screen(terminal.getvalue())
    assert "train_mae 0.1234" in line
    assert len(line) < 80


@pytest.fixture
def displayed(monkeypatch):
    """What a notebook is told to display: pairs of what is done and the text."""
    told = []

    def display(data, raw, display_id):
        assert raw
        assert display_id
        told.append(("display", data["text/plain"]))
        return SimpleNamespace(update=lambda data, raw: told.append(("update", data["text/plain"])))

    shell = type("ZMQInteractiveShell", (), {})()
    fake = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    return told


def test_a_notebook_shows_one_output_that_is_updated(displayed):
    with bar_in_a_terminal() as (show, terminal):
        train(show, stop=3)
    assert [how for how, _ in displayed] == ["display", "update", "update"]
    assert displayed[-1][1] == "██████░░░░░░░░░░░░░░ 3/10 epochs, 7 s left  validation_mae 0.3333"
    assert terminal.getvalue() == ""


@pytest.fixture(scope="module")
def executed():
    """A notebook after it was run by a real kernel."""
    pytest.importorskip("ipykernel", reason="ipykernel, which runs notebooks, is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is missing")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    cell = nbformat.v4.new_code_cell(NOTEBOOK_CELL)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    return client.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()


def test_a_notebook_that_was_run_holds_one_line(executed):
    (output,) = executed.cells[0].outputs
    assert re.fullmatch(r"█{10}░{10} 5/10 epochs, 5 s left  mae 0\.2", output.data["text/plain"])


def test_a_converted_notebook_shows_one_line(executed):
    exporters = pytest.importorskip("nbconvert.exporters", reason="nbconvert is not installed")
    text, _ = exporters.MarkdownExporter().from_notebook_node(executed)
    shown = text.split("```")[-1]
    assert shown.count(" epochs, ") == 1
