import math
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from softbins.paper.run.plan import BIN_COUNTS, SIGMAS, method_runs
from softbins.paper.run.store import Store
from softbins.paper.show import figures
from tests.paper.synthetic import FULL, fill, mae, record

pytest.importorskip("matplotlib", reason="figures need matplotlib")
DRAWN = ("bins", "sigma", "curves")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return fill(Store(tmp_path_factory.mktemp("store")), FULL, artefacts=DRAWN)


def text_of(svg):
    return " ".join("".join(node.itertext()) for node in ElementTree.fromstring(svg).iter())


@pytest.mark.parametrize(
    ("name", "axes", "words"),
    [
        ("bins", 2, ["number of bins", "MAE (rentals per hour)", "RMSE (rentals per hour)"]),
        ("sigma", 1, ["σ of the target (bin widths)", "HL-Gaussian, test", "l2, train"]),
        ("curves", 5, ["gradient norm (÷ its median)", "epoch", "test MAE (rentals per hour)"]),
        ("targets", 1, ["target (rentals per hour)", "17,379 rows"]),
    ],
    ids=["bins", "sigma", "curves", "targets"],
)
def test_a_figure_names_what_it_shows(full, name, axes, words):
    figure = figures.make_figure(name, "bike", FULL, full)
    assert len(figure.axes) == axes
    found = text_of(figures.svg_text(figure))
    assert [word for word in ["Bike Sharing", *words] if word not in found] == []
    assert ("scale: full" in found) == (name != "targets")


def test_the_points_of_a_sweep_are_the_means_of_the_runs(full):
    axes = figures.make_panels("bins", "bike", FULL, full)["mae"].axes[0]
    train, test = (container.lines[0] for container in axes.containers)
    assert list(test.get_xdata()) == list(BIN_COUNTS)
    # 20, 20.2 and 20.4 for the three seeds.
    np.testing.assert_allclose(test.get_ydata(), 20.2)
    np.testing.assert_allclose(train.get_ydata(), 0.8 * 20.2)
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(b) for b in BIN_COUNTS]


def test_the_bars_of_a_sweep_are_standard_errors(full):
    axes = figures.make_panels("sigma", "bike", FULL, full)["mae"].axes[0]
    bars = axes.containers[1].lines[2][0].get_segments()
    expected = np.std([20, 20.2, 20.4], ddof=1) / math.sqrt(3)
    np.testing.assert_allclose([(high - low) / 2 for (_, low), (_, high) in bars], expected)
    assert len(bars) == len(SIGMAS)


def test_gradient_norms_have_a_median_of_one(full):
    panels = figures.make_panels("curves", "bike", FULL, full)
    lines = panels["gradient_norm"].axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["l2", "HL-OneBin", "HL-Gaussian"]
    for line in lines:
        assert np.median(line.get_ydata()) == pytest.approx(1)


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_finished_is_no_figure(store, name):
    assert figures.make_figure(name, "bike", FULL, store) is None
    assert figures.make_panels(name, "bike", FULL, store) == {}


def test_a_baseline_alone_is_no_figure(store):
    for run in method_runs("bike", "l2", FULL):
        store.write(run, record(run, mae(run)))
    assert figures.make_figure("bins", "bike", FULL, store) is None


def test_what_is_simulated_says_so(store):
    fill(store, FULL, "ct-simulated", ["sigma"])
    figure = figures.make_figure("sigma", "ct-simulated", FULL, store)
    assert "CT Position (simulated), scale: full" in text_of(figures.svg_text(figure))


def test_a_setting_with_a_diverged_run_has_no_point(store):
    def error(run):
        return math.nan if dict(run.parameters).get("bins") == 20 and run.seed == 1 else mae(run)

    fill(store, FULL, artefacts=["bins"], error=error)
    axes = figures.make_panels("bins", "bike", FULL, store)["mae"].axes[0]
    assert list(axes.containers[1].lines[0].get_xdata()) == [b for b in BIN_COUNTS if b != 20]


def test_a_method_that_diverged_has_no_line(store):
    fill(
        store,
        FULL,
        artefacts=["curves"],
        error=lambda run: math.nan if run.method == "l2" else mae(run),
    )
    axes = figures.make_panels("curves", "bike", FULL, store)["test_mae"].axes[0]
    assert [line.get_label() for line in axes.get_lines()] == ["HL-OneBin", "HL-Gaussian"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_of_diverged_runs_alone_is_empty(store, name):
    fill(store, FULL, artefacts=[name], error=lambda run: math.nan)
    assert figures.svg_text(figures.make_figure(name, "bike", FULL, store)).startswith("<?xml")


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_the_same_records_give_the_same_file(full, tmp_path, suffix):
    for name in ("a", "b"):
        figures.save_figure(
            figures.make_figure("sigma", "bike", FULL, full), tmp_path / (name + suffix)
        )
    first, second = ((tmp_path / (name + suffix)).read_bytes() for name in ("a", "b"))
    assert first == second
    assert first.startswith(b"%PDF" if suffix == ".pdf" else b"<?xml")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_cannot_be_written_leaves_nothing(full, tmp_path):
    figure = figures.make_figure("sigma", "bike", FULL, full)
    with pytest.raises(OSError, match="create the folder first"):
        figures.save_figure(figure, tmp_path / "none" / "a.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.png", "svg", "a.svg.gz"])
def test_other_kinds_of_file_are_refused(full, tmp_path, name):
    with pytest.raises(ValueError, match=r"ends in \.svg or \.pdf, got .*" + name):
        figures.save_figure(figures.make_figure("sigma", "bike", FULL, full), tmp_path / name)


def test_unknown_figures_are_refused(store):
    with pytest.raises(ValueError, match="expected one of bins, sigma, curves, targets, got 'pie'"):
        figures.make_figure("pie", "bike", FULL, store)


def test_captions_are_for_every_panel():
    for name, panels in figures.PANELS.items():
        for panel in panels:
            assert figures.panel_caption(name, panel).endswith(".")


def test_without_matplotlib_the_extra_is_named(full, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"softbins\[plots\]"):
        figures.make_figure("sigma", "bike", FULL, full)
