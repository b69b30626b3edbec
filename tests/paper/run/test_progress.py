"""What is shown while stacks are training, and how long the rest will take."""

from io import StringIO

import pytest

from softbins.paper.run.plan import method_runs
from softbins.paper.run.progress import LiveView, Progress, show_progress, time_left_text
from softbins.paper.run.stacks import make_stacks


def test_the_time_left_comes_from_the_work_done(store, scale, monkeypatch):
    planned = make_stacks(
        [*method_runs("bike", "l2", scale), *method_runs("bike", "hl-gaussian", scale)]
    )
    clock = iter([100.0, 160.0])
    monkeypatch.setattr("softbins.paper.run.progress.time.monotonic", lambda: next(clock))
    progress = Progress(planned, store)
    assert progress.seconds_left() is None
    progress.finish(planned[0])
    first, second = 60.0, progress.seconds_left()
    assert second < first  # the longer one came first
    assert progress.finished == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (20, "20 s left"), (3600, "60 min left")],
    ids=["unknown", "seconds", "minutes"],
)
def test_the_time_left_in_words(seconds, text):
    assert time_left_text(seconds) == text


def test_the_live_view_shows_what_is_running(store, scale):
    from rich.console import Console

    planned = make_stacks(method_runs("bike", "l2", scale))
    said = {"stack": f"{planned[0][0].identity}-2", "runs": 2, "title": "bike l2"}
    said |= {"epoch": 3, "epochs": 4, "seconds": 1.0, "mae": 31.25}
    store.write_progress(said)
    store.running_path("half.progress").write_text('{"stack": ')
    out = StringIO()
    Console(file=out, width=80).print(LiveView(Progress(planned, store)))
    for words in ("0 of 1 stacks finished", "bike l2", "3/4", "31.25"):
        assert words in out.getvalue()


def test_in_a_terminal_the_view_is_live(store, scale, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    planned = make_stacks(method_runs("bike", "linear", scale))
    with show_progress(planned, store) as ended:
        ended(planned[0])
    assert ended.__self__.finished == 1
