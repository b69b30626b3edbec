"""What the pictures show: the numbers in them are those of the scores and of the histories."""

import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from softbins import Bins, Histogram, plots, scores
from softbins._core import figures
from tests.instances import BINS

pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def forecast(bins, rows=30, sharpness=3.0):
    generator = torch.Generator().manual_seed(0)
    logits = sharpness * torch.randn(rows, bins.count, generator=generator, dtype=torch.float64)
    return Histogram(bins, logits=logits)


def drawn(distribution, seed=0):
    """Targets for which the forecast is right."""
    levels = np.random.default_rng(seed).uniform(size=distribution.batch_shape[0])
    return distribution.icdf(torch.from_numpy(levels)).numpy()


def instance(name):
    """Distributions, targets, and whether these are whole numbers."""
    match name:
        case "one row":
            predicted = forecast(BINS["equal"], rows=1)
            return predicted, drawn(predicted), False
        case "integer":
            predicted = forecast(BINS["years"], rows=500)
            return predicted, drawn(predicted).round(), True
        case "outside":
            predicted = forecast(BINS["few"])
            return predicted, np.linspace(-9.0, 9.0, 30), False
    predicted = forecast(BINS[name])
    return predicted, drawn(predicted), False


NAMES = ["equal", "few", "unequal", "quantile", "one row", "integer", "outside"]


@pytest.fixture(params=NAMES)
def case(request):
    return instance(request.param)


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def line(axes, label):
    return next(found for found in axes.get_lines() if found.get_label() == label)


# Densities


def test_each_ridge_is_a_density_and_each_mark_a_target(case):
    predicted, y, _ = case
    axes = plots.densities(predicted, y)
    rows = [int(label.get_text()) for label in axes.get_yticklabels()]
    assert len(axes.patches) == len(rows) == min(8, len(y))
    means = predicted.mean[rows]
    assert torch.equal(means, means.sort().values)
    assert {means[0].item(), means[-1].item()} == {
        predicted.mean.min().item(),
        predicted.mean.max().item(),
    }
    for row, patch in zip(rows, axes.patches, strict=True):
        top, edges, base = patch.get_data()
        first = int(np.searchsorted(predicted.bins.edges.numpy(), edges[0]))
        shown = slice(first, first + len(top))
        density = (predicted.probs[row] / predicted.bins.widths)[shown].numpy()
        assert np.allclose(top - base, 0.85 * density / density.max())
        assert predicted.probs[row, shown].sum() >= 0.998
    (marks,) = axes.collections
    assert [segment[0][0] for segment in marks.get_segments()] == y[rows].tolist()
    assert labels(axes) == ["true value"]


def test_the_rows_asked_for_are_drawn_from_top_to_bottom():
    predicted, y, _ = instance("equal")
    axes = plots.densities(predicted, y, rows=[7, 3])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["7", "3"]
    assert list(axes.get_yticks()) == [1, 0]
    assert [segment[0].tolist() for segment in axes.collections[0].get_segments()] == [
        [y[7], 1.0],
        [y[3], 0.0],
    ]


def test_without_targets_there_are_no_marks():
    axes = plots.densities(instance("equal")[0])
    assert len(axes.collections) == 0
    assert axes.get_legend() is None


def test_thousands_of_bins_are_joined_without_losing_probability():
    predicted = forecast(Bins.uniform(0.0, 1.0, 2001), rows=2, sharpness=1.0)
    axes = plots.densities(predicted, rows=[0])
    top, edges, base = axes.patches[0].get_data()
    assert 100 < len(top) <= 251
    mass = (top - base) * np.diff(edges)
    expected = predicted.cdf(torch.from_numpy(edges).unsqueeze(-1))[:, 0].diff()
    assert np.allclose(mass / mass.sum(), expected / expected.sum())


# Intervals


def test_the_band_is_sorted_and_tells_the_share_inside(case):
    predicted, y, _ = case
    x = np.random.default_rng(1).permutation(len(y))
    ends = torch.stack(predicted.interval(0.8), -1).numpy()
    axes = plots.interval_band(x, y, ends, predicted.mean)
    order = np.argsort(x)
    assert np.array_equal(line(axes, "mean").get_xdata(), x[order])
    assert np.array_equal(line(axes, "mean").get_ydata(), predicted.mean.numpy()[order])
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    dots, crosses = line(axes, "inside"), line(axes, "outside")
    assert np.array_equal(dots.get_ydata(), y[order][inside[order]])
    assert np.array_equal(crosses.get_xdata(), x[order][~inside[order]])
    corners = axes.collections[0].get_paths()[0].vertices
    assert {tuple(end) for end in np.column_stack([x, ends[:, 0]])} <= {
        tuple(corner) for corner in corners
    }
    share = scores.coverage(y, *ends.T)
    assert labels(axes)[0] == f"interval: {share:.1%} of {len(y)} inside"
    assert labels(axes)[1:] == ["mean", "inside", "outside"]


def test_without_a_mean_there_is_no_line():
    axes = plots.interval_band([2, 1], [0.0, 5.0], [[-1, 1], [-1, 1]])
    assert labels(axes) == ["interval: 50.0% of 2 inside", "inside", "outside"]


# Calibration


def test_reliability_is_that_of_the_scores(case):
    predicted, y, integer = case
    axes = plots.reliability(predicted, y, integer=integer)
    levels, observed = scores.reliability(predicted, y, integer=integer)
    assert np.array_equal(line(axes, "observed").get_xdata(), levels)
    assert np.array_equal(line(axes, "observed").get_ydata(), observed)
    diagonal = axes.get_lines()[0]
    assert (list(diagonal.get_xdata()), list(diagonal.get_ydata())) == ([0, 1], [0, 1])
    assert labels(axes) == ["95% of points if calibrated", "observed"]
    low, high = band_at(axes.collections[0], 0.5)
    assert high - 0.5 == pytest.approx(0.5 - low)
    assert high - 0.5 == pytest.approx(min(0.5, deviation_of_95_percent(len(y), 0.5)), rel=1e-4)


def deviation_of_95_percent(rows, share):
    """How far from `share` the share of rows may be observed, by the normal approximation."""
    return binom(rows, share).std() / rows * norm.ppf(0.975)


def band_at(collection, x):
    corners = collection.get_paths()[0].vertices
    heights = corners[np.isclose(corners[:, 0], x), 1]
    return heights.min(), heights.max()


def test_the_pit_is_that_of_the_scores(case):
    predicted, y, integer = case
    axes = plots.pit(predicted, y, integer=integer)
    bars = [patch for patch in axes.patches if patch.get_label() == "_nolegend_"]
    count = 20 if len(y) >= 400 else 10
    values = scores.pit(predicted, y, integer=integer, random_state=0)
    expected = np.histogram(values, count, range=(0, 1))[0] * count / len(y)
    heights = [bar.get_height() for bar in bars[:count]]
    assert np.allclose(heights, expected)
    assert np.mean(heights) == pytest.approx(1)  # targets outside the bins count as well
    assert list(axes.get_lines()[0].get_ydata()) == [1, 1]
    assert labels(axes) == ["95% of bars if calibrated"]
    corners = axes.patches[-1].get_corners()
    spread = count * deviation_of_95_percent(len(y), 1 / count)
    assert corners[:, 1].min() == pytest.approx(max(0, 1 - spread), rel=1e-4)
    assert corners[:, 1].max() == pytest.approx(min(count, 1 + spread), rel=1e-4)


@pytest.mark.parametrize(
    ("width", "calibrated"), [(1.0, True), (0.3, False)], ids=["right", "too narrow"]
)
def test_the_bands_hold_a_calibrated_forecast_and_no_other(width, calibrated):
    edges = torch.linspace(-6, 6, 201, dtype=torch.float64)
    probs = torch.distributions.Normal(0.0, width).cdf(edges).diff().clamp_min(1e-12)
    predicted = Histogram(Bins(edges), probs=probs).expand((1000,))
    y = np.random.default_rng(0).normal(size=1000)
    axes = plots.reliability(predicted, y)
    levels, observed = scores.reliability(predicted, y)
    bands = [band_at(axes.collections[0], level) for level in levels]
    held = [low <= share <= high for (low, high), share in zip(bands, observed, strict=True)]
    pit_axes = plots.pit(predicted, y)
    corners = pit_axes.patches[-1].get_corners()[:, 1]
    heights = [bar.get_height() for bar in pit_axes.patches[:20]]
    held_bars = [corners.min() <= height <= corners.max() for height in heights]
    assert (np.mean(held) > 0.8) == (np.mean(held_bars) > 0.8) == calibrated


# Training


def rows(**curves):
    """A history of one member, without the entries that are "missing"."""
    length = len(next(iter(curves.values())))
    return [
        {"member": 0, "epoch": i + 1}
        | {name: values[i] for name, values in curves.items() if values[i] != "missing"}
        for i in range(length)
    ]


# The history, the lines by label, the best epoch, and the label of the heights.
NAN = float("nan")
HISTORIES = {
    "train only": (rows(train_mae=[3.0, 2.0]), {"train": [3, 2]}, None, "MAE"),
    "both": (
        rows(train_mae=[3.0, 2.0, 1.0], validation_mae=[4.0, 3.0, 3.5]),
        {"train": [3, 2, 1], "validation": [4, 3, 3.5]},
        2,
        "MAE",
    ),
    "gaps": (
        rows(train_mae=[3.0, None, 1.0], validation_mae=["missing", NAN, 3.5]),
        {"train": [3, NAN, 1], "validation": [NAN, NAN, 3.5]},
        3,
        "MAE",
    ),
    "another error": (
        rows(train_rmse=[3.0, 2.0], train_objective=[1.0, 1.0]),
        {"train": [3, 2]},
        None,
        "RMSE",
    ),
    "a strange error": (
        rows(validation_pinball=[3.0, 2.0], gradient_norm=[1.0, 1.0]),
        {"validation": [3, 2]},
        2,
        "pinball",
    ),
    "mae never finite": (rows(train_mae=[None, NAN], train_rmse=[1.0, 2.0]), {"train": [1, 2]},
                         None, "RMSE"),
    "one epoch": (rows(train_mae=[3.0]), {"train": [3]}, None, "MAE"),
    "no member, no epoch": ([{"train_mae": 3.0}, {"train_mae": 2.0}], {"train": [3, 2]}, None,
                            "MAE"),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_training_curves_are_those_of_the_history(name):
    history, curves, best, error = HISTORIES[name]
    axes = plots.training(history)
    assert axes.get_ylabel() == error
    for label, values in curves.items():
        assert np.array_equal(line(axes, label).get_ydata(), values, equal_nan=True)
        assert list(line(axes, label).get_xdata()) == list(range(1, len(history) + 1))
    expected = [*curves] + ([f"best epoch: {best}"] if best else [])
    assert labels(axes) == expected
    if best:
        (x,), (height,) = line(axes, expected[-1]).get_data()
        assert (x, height) == (best, curves["validation"][best - 1])


def test_every_member_has_its_lines_and_its_best_epoch():
    first = rows(train_mae=[3.0, 2.0], validation_mae=[3.0, 4.0])
    second = [row | {"member": 1} for row in rows(train_mae=[5.0], validation_mae=[2.0])]
    axes = plots.training([*first, *second])
    assert len(axes.get_lines()) == 5
    assert labels(axes) == ["train", "validation", "best epochs"]
    best = line(axes, "best epochs")
    assert (list(best.get_xdata()), list(best.get_ydata())) == ([1, 1], [3.0, 2.0])


def test_an_estimator_marks_the_epoch_by_what_it_monitors():
    class Fitted:
        monitor = "objective"
        history_ = rows(validation_mae=[1.0, 2.0], validation_objective=[5.0, 4.0])

    axes = plots.training(Fitted())
    (x,), (height,) = line(axes, "best epoch: 2").get_data()
    assert (x, height) == (2, 2.0)


@pytest.mark.parametrize(
    ("errors", "scale"),
    [([9.0, 1.0], "log"), ([2.0, 1.0], "linear"), ([9.0, -1.0], "linear"), ([9.0, 0.0], "linear")],
    ids=["falls far", "falls little", "negative", "zero"],
)
def test_the_axis_is_logarithmic_where_that_helps(errors, scale):
    axes = plots.training(rows(train_mae=errors))
    assert axes.get_yscale() == scale
    axes.figure.draw_without_rendering()
    assert all("10^" not in label.get_text() for label in axes.get_yticklabels())


def test_a_fitted_estimator_shows_its_training():
    from softbins import HistogramRegressor

    x = np.random.default_rng(0).normal(size=(60, 2))
    model = HistogramRegressor((8,), members=2, max_epochs=3, trees=False, random_state=0)
    axes = plots.training(model.fit(x, x.sum(1)))
    first = [row["validation_mae"] for row in model.history_ if row["member"] == 0]
    assert np.array_equal(line(axes, "validation").get_ydata(), first)
    assert "best epochs" in labels(axes)


# Methods


def test_methods_are_bars_with_their_errors():
    results = [
        {"method": "l1", "mae": 2.0, "mae_stderr": 0.5},
        {"method": "l2", "mae": float("nan"), "mae_stderr": float("nan")},
    ]
    axes = plots.comparison(results)
    assert axes.patches[0].get_width() == 2.0
    assert [label.get_text() for label in axes.get_yticklabels()] == ["l1", "l2"]
    assert axes.yaxis_inverted()  # the first on top
    segment = axes.collections[0].get_segments()[0]
    assert segment.tolist() == [[1.5, 0.0], [2.5, 0.0]]
    assert figures.picture(axes.figure, "svg")


# All of them


def draw(name, ax=None):
    predicted, y, _ = instance("equal")
    ends = torch.stack(predicted.interval(0.9), -1)
    return {
        "densities": lambda: plots.densities(predicted, y, ax=ax),
        "interval_band": lambda: plots.interval_band(y, y, ends, ax=ax),
        "reliability": lambda: plots.reliability(predicted, y, ax),
        "pit": lambda: plots.pit(predicted, y, ax),
        "training": lambda: plots.training(HISTORIES["both"][0], ax),
        "comparison": lambda: plots.comparison([{"method": "a", "mae": 1, "mae_stderr": 1}], ax),
    }[name]()


PLOTS = ["densities", "interval_band", "reliability", "pit", "training", "comparison"]


@pytest.mark.parametrize("name", PLOTS)
def test_given_axes_are_drawn_on_and_returned(name):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert draw(name, axes) is axes
    assert axes.get_xlabel()
    assert axes.has_data()
    assert pyplot.get_fignums() == []
    assert draw(name).figure is pyplot.gcf()


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "svg") for name in PLOTS), ("training", "pdf"), ("training", "png")]
)
def test_the_same_input_gives_the_same_file(name, kind):
    first, second = (figures.picture(draw(name).figure, kind) for _ in range(2))
    assert first == second
    assert len(first) > 1000


@pytest.mark.parametrize("name", PLOTS)
def test_nothing_is_cut_off_at_the_size_of_a_phone(name):
    figure = draw(name).figure
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figures.SIZE
    assert tuple(figure.get_size_inches()) == (width, height)
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


@pytest.mark.parametrize("name", PLOTS)
def test_inline_pictures_have_names_of_their_own_and_the_ink_of_the_page(name):
    svg = figures.picture(draw(name).figure, "svg").decode()
    body = figures.inline(svg, "mine")
    root = ElementTree.fromstring(body)
    assert root.get("id") == "mine"
    assert root.get("width") is None
    assert root.get("aria-labelledby") == "mine-caption"
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert all(found.startswith("mine") for found in ids)
    assert len(set(ids)) == len(ids)
    used = [v[1:] for e in root.iter() for k, v in e.items() if k.endswith("href")]
    assert set(used) <= set(ids)
    assert figures.INK not in body
    assert "currentColor" in body


# Bad input

PREDICTED, Y, _ = instance("equal")
ENDS = np.tile([0.0, 1.0], (30, 1))
BAD = {
    "no histogram": (plots.pit, ([1.0], [1.0]), "distribution: need a Histogram"),
    "too few targets": (plots.pit, (PREDICTED, Y[:3]), "distribution: batch shape"),
    "NaN": (plots.reliability, (PREDICTED, [NAN] * 30), "y: 30 of 30 values are NaN"),
    "none": (plots.pit, (PREDICTED.expand((30,)), []), "y: need at least one row"),
    "no whole number": (plots.pit, (PREDICTED, Y, None, True), "y: integer=True needs whole"),
    "densities NaN": (plots.densities, (PREDICTED, [NAN] * 30), "y: 30 of 30"),
    "densities of what": (plots.densities, ([0.1],), "distribution: need a Histogram"),
    "one alone": (
        plots.densities,
        (Histogram(BINS["few"], logits=torch.zeros(2)),),
        r"distribution: need a histogram for each row, got batch shape \(\)",
    ),
    "no such row": (
        plots.densities,
        (PREDICTED, None, [3, 30]),
        "rows: need indices from 0 to 29, got 30",
    ),
    "no rows": (plots.densities, (PREDICTED, None, []), "rows: .* got none"),
    "empty x": (plots.interval_band, ([], [], np.empty((0, 2))), "x: need at least one row"),
    "x of pairs": (plots.interval_band, (ENDS, Y, ENDS), r"x: .* shape \(30, 2\)"),
    "words": (plots.interval_band, (["a"] * 30, Y, ENDS), "x: need an array of numbers"),
    "NaN in x": (plots.interval_band, ([NAN] * 30, Y, ENDS), "x: 30 of 30 values are NaN"),
    "short y": (plots.interval_band, (Y, Y[:3], ENDS), "y: .* each of 30 rows, got 3"),
    "NaN ends": (plots.interval_band, (Y, Y, ENDS * NAN), "intervals: 60 of 60"),
    "three ends": (
        plots.interval_band,
        (Y, Y, np.ones((30, 3))),
        r"intervals: .*\(30, 2\), got \(30, 3\)",
    ),
    "crossed": (
        plots.interval_band,
        (Y, Y, ENDS[:, ::-1]),
        "intervals: need low <= high",
    ),
    "short mean": (plots.interval_band, (Y, Y, ENDS, [1.0]), "mean: .* got 1"),
    "no history": (plots.training, ([],), "model_or_history: no epochs"),
    "unfitted": (plots.training, (object(),), "model_or_history: need a fitted estimator"),
    "numbers": (plots.training, ([1.0, 2.0],), "model_or_history: need a fitted estimator"),
    "no errors": (
        plots.training,
        ([{"member": 0, "epoch": 1, "train_mae": None}],),
        "model_or_history: no finite .* which have member, epoch, train_mae",
    ),
    "no methods": (plots.comparison, ([],), "results: need at least one method"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_argument_and_leaves_no_figure(name):
    function, arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        function(*arguments)
    assert pyplot.get_fignums() == []


def test_the_style_ends_and_leaves_all_other_settings_alone():
    settings = pyplot.matplotlib.rcParams
    before = dict(settings)
    with figures.style(**{"axes.facecolor": "none"}):
        assert settings["axes.facecolor"] == "none"
        assert settings["text.color"] == figures.INK
        # As the backend of a notebook does when it is loaded by the first figure.
        settings["interactive"] = not before["interactive"]
    changed = {name for name, value in settings.items() if value != before[name]}
    settings["interactive"] = before["interactive"]
    assert changed == {"interactive"}


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "softbins\[plots\]"'):
        plots.pit(PREDICTED, Y)
