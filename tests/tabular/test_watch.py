"""What is seen of a fit while it runs, and what may end it."""

import os
import signal
import time
import warnings

import numpy as np
import pytest

from softbins import HistogramRegressor, NeuralRegressor, load

SMALL = {"hidden": (8,), "random_state": 0, "members": 2, "max_epochs": 10, "patience": 10}
MODELS = {
    "histogram": lambda **more: HistogramRegressor(**SMALL | {"trees": False} | more),
    "plain": lambda **more: NeuralRegressor(**SMALL | {"early_stopping": True} | more),
}


def table(rows=300, columns=3):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, columns))
    return x, x[:, 0] * x[:, 1] + 0.1 * generator.normal(size=rows)


@pytest.mark.parametrize("name", MODELS)
def test_callbacks_get_the_history_and_may_end_the_training(name):
    heard = []

    def hear(history):
        heard.append(history)

    def end(history):
        return len(history) == 4

    model = MODELS[name](callbacks=[hear, end]).fit(*table())
    assert model.n_epochs_ == 4
    assert [len(history) for history in heard] == [1, 2, 3, 4]
    for row in heard[-1]:
        own = [each for each in model.history_ if each["epoch"] == row["epoch"]]
        mean = np.mean([each["validation_mae"] for each in own])
        assert row["validation_mae"] == pytest.approx(mean)


def test_what_ended_early_is_calibrated_and_has_seen_all_rows():
    x, y = table()
    model = MODELS["histogram"](callbacks=[lambda history: True]).fit(x, y)
    assert model.aggregator_ is not None
    assert np.isfinite(model.predict_interval(x)).all()


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupt_keeps_what_is_there_when_asked(name, tmp_path):
    x, y = table()

    def interrupt(epoch, *_):
        if epoch == 3:
            os.kill(os.getpid(), signal.SIGINT)

    model = MODELS[name](progress=interrupt, on_interrupt="keep")
    with pytest.warns(
        UserWarning, match="^interrupted: networks learnt for [34] of up to 10 epochs; "
    ):
        model.fit(x, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert (again.callbacks, again.on_interrupt) == ((), "raise")


@pytest.mark.usefixtures("as_in_a_terminal")
def test_by_default_an_interrupt_leaves_the_estimator_as_it_was():
    x, y = table()
    model = MODELS["histogram"]().fit(x, y)
    before = model.predict(x)
    model.set_params(progress=lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, -y)
    np.testing.assert_array_equal(model.predict(x), before)


def test_an_unknown_answer_to_interrupts_is_refused():
    with pytest.raises(ValueError, match="^on_interrupt: expected 'raise' or 'keep', got 'ask'"):
        MODELS["plain"](on_interrupt="ask").fit(*table())


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(20_000, 18), (200, 20_000), (100_000, 5)])
def test_the_whole_of_fit_keeps_to_its_time(rows, columns):
    """By the processor's clock, which other programs do not slow down."""
    x, y = table(rows, columns)
    HistogramRegressor(**SMALL).fit(*table(100))  # what is imported does not count
    seconds, start = 5.0, time.process_time()
    with warnings.catch_warnings(record=True) as cut:
        warnings.simplefilter("always")
        model = HistogramRegressor(random_state=0, max_seconds=seconds).fit(x, y)
    assert time.process_time() - start < 1.1 * seconds + 2
    assert any(str(each.message).startswith("max_seconds: networks learnt") for each in cut)
    low, high = model.predict_interval(x[:1000]).T
    assert np.mean((low <= y[:1000]) & (y[:1000] <= high)) > 0.8
