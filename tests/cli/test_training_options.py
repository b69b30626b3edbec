"""The options that say how to train become the parameters of an estimator."""

import pytest

from softbins import HistogramRegressor, NeuralRegressor
from softbins.cli.options import OBJECTIVES
from softbins.nn import objectives
from softbins.tabular.neural_regressor import StackedRegressor
from tests.cli.runs import WHERE, run

pytestmark = pytest.mark.usefixtures("folder")


def test_the_methods_are_those_of_the_library():
    # l2-many is the control experiment of a footnote, nothing to choose for one's own data.
    assert set(OBJECTIVES) == set(objectives.METHODS) - {"l2-many"}


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

    def encode(model, x, y):
        fitted.append(model)
        raise ValueError("seen")

    for kind in (HistogramRegressor, StackedRegressor):
        monkeypatch.setattr(kind, "_encoded", encode)
    assert run(*WHERE, *asked, "--seed", "7").stderr.endswith("\nsoftbins: seen\n")
    (model,) = fitted
    assert type(model) is type(expected)
    assert callable(model.progress)
    here = {"n_jobs": -1, "on_interrupt": "keep", "progress": model.progress}
    expected.set_params(random_state=7, **here)
    assert model.get_params() == expected.get_params()
