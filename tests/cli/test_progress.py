"""The bar of a command: the time left, and only in a terminal."""

import sys

import pytest

from softbins.cli.progress import progress_bar, time_left


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
    assert time_left(share, seconds, limit) == left


def test_a_bar_is_drawn_only_for_a_terminal(monkeypatch, capsys):
    with progress_bar("training") as update:
        update(0.1, "epoch 1/10", 1.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar("training") as update:
        # Half of it in nine seconds, whatever went before; the bar itself is younger.
        update(0.5, "epoch 5/10", 9.0)
    shown = capsys.readouterr()
    assert "epoch 5/10 0:09 left" in shown.err
    assert shown.out == ""
