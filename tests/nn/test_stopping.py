"""What ends a training early."""

import math
import pickle
import threading

import pytest

from softbins.nn.stopping import Stop


def test_without_a_limit_it_ends_when_asked():
    stop = Stop()
    assert stop.seconds_left == math.inf
    assert not stop.reached
    stop.ask()
    assert stop.reached


def test_with_a_limit_it_ends_by_itself():
    assert 99 < Stop(100.0).seconds_left <= 100
    assert Stop(1e-9).reached


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, "long"])
def test_a_limit_is_a_positive_number(seconds):
    with pytest.raises(ValueError, match="^max_seconds: "):
        Stop(seconds)


def test_a_part_ends_with_the_whole_and_not_the_other_way_round():
    whole = Stop(100.0)
    part, short = whole.within(1000.0), whole.within(1e-9)
    assert part.seconds_left <= 100
    assert short.reached
    part.ask()
    assert part.reached
    assert not whole.reached
    other = whole.within(5.0)
    whole.ask()
    assert other.reached


def test_threads_hear_of_it():
    stop, seen = Stop(), []
    waiting = threading.Thread(target=lambda: seen.append(stop.asked or stop._asked.wait(5)))
    waiting.start()
    stop.ask()
    waiting.join()
    assert seen == [True]


@pytest.mark.parametrize("asked", [True, False])
def test_a_copy_elsewhere_has_as_much_time_left(asked):
    stop = Stop(100.0).within(50.0)
    if asked:
        stop.ask()
    copy = pickle.loads(pickle.dumps(stop))
    assert 49 < copy.seconds_left <= 50
    assert copy.asked is asked


def test_the_share_of_the_time_that_is_gone(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("softbins.nn.stopping.time.perf_counter", lambda: now[0])
    stop, endless = Stop(max_seconds=8), Stop()
    part = stop.within(4)
    now[0] = 102.0
    assert (stop.share_gone, part.share_gone, endless.share_gone) == (0.25, 0.5, 0.0)
    now[0] = 110.0
    assert (stop.share_gone, part.share_gone, endless.share_gone) == (1.0, 1.0, 0.0)
    assert stop.within(1).share_gone == 1.0
