"""The paper's figures, drawn from the records of a store.

A figure consists of a few panels. `make_figure` draws them side by side in one picture,
`make_panels` draws each of them alone, for pages that arrange them themselves. The same records
give the same file, byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.figures import PLAIN, SIZE, picture
from softbins._core.files import write_whole
from softbins.paper.data.datasets import dataset_title, load_dataset, original_name
from softbins.paper.run.methods import METHOD_TITLES
from softbins.paper.run.plan import (
    BIN_COUNTS,
    CURVE_METHODS,
    SIGMAS,
    Run,
    Scale,
    bin_count_runs,
    curve_runs,
    sigma_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.show.experiment import Experiment, History
from softbins.paper.show.tables import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Mapping[str, tuple[str, ...]] = {
    "bins": ("rmse", "mae"),
    "sigma": ("mae",),
    "curves": ("gradient_norm", "train_rmse", "train_mae", "test_rmse", "test_mae"),
    "targets": ("targets",),
}
FIGURE_CAPTIONS = {
    "bins": "Error of HL-Gaussian against its number of bins, beside l2 (Figure 1, a and b).",
    "sigma": "Error of HL-Gaussian against the width of its target, beside l2 (Figure 1, c).",
    "curves": "Gradient norms and errors during training (Figure 2 and its appendix).",
    "targets": "How the targets are distributed (Figure 3).",
}
PANEL_CAPTIONS = {
    "gradient_norm": "Norm of the gradient in the last layer after each epoch, divided by its "
    "median; log scale.",
    "train_rmse": "RMSE on the training rows after each epoch; log scale.",
    "train_mae": "MAE on the training rows after each epoch; log scale.",
    "test_rmse": "RMSE on the test rows after each epoch; log scale.",
    "test_mae": "MAE on the test rows after each epoch; log scale.",
    "rmse": "RMSE on training and test rows.",
    "mae": "MAE on training and test rows.",
    "targets": "Number of rows for each value of the target.",
}
# What the lines in the panels of a figure are.
LINE_CAPTIONS = {
    "bins": " A line for HL-Gaussian with 10 to 500 bins, a level for l2.",
    "sigma": " A line for HL-Gaussian with a σ of 0.25 to 8 bin widths, a level for l2.",
    "curves": " Lines for l2, HL-OneBin and HL-Gaussian.",
    "targets": "",
}
TARGET_UNITS = {"bike": "rentals per hour", "ct": "units of axial position", "song": "years"}
PICTURE_SUFFIXES = (".svg", ".pdf")

# Wong's palette, which people who do not see all colors can tell apart. The lines differ as well.
COLORS = {"l2": "#D55E00", "hl-onebin": "#009E73", "hl-gaussian": "#0072B2"}
LINE_STYLES = {"l2": "--", "hl-onebin": "-.", "hl-gaussian": "-"}
PLOT_STYLE = PLAIN | {"axes.titlesize": 10, "legend.frameon": False}

Values = NDArray[np.float64]


def make_figure(name: str, dataset: str, scale: Scale, store: Store) -> Figure | None:
    """Draw a figure with all its panels, or return None if no run that it shows is finished."""
    return _draw_figure(name, _panels_of(name), Experiment(dataset, scale, store))


def make_panels(name: str, dataset: str, scale: Scale, store: Store) -> dict[str, Figure]:
    """Draw each panel of a figure as a figure of its own; none without finished runs."""
    experiment = Experiment(dataset, scale, store)
    drawn = {panel: _draw_figure(name, (panel,), experiment) for panel in _panels_of(name)}
    return {panel: figure for panel, figure in drawn.items() if figure is not None}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to an .svg or .pdf file, whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        raise ValueError(
            f"path: need a file that ends in {' or '.join(PICTURE_SUFFIXES)}, got '{path}'"
        )
    write_whole(path, _picture_bytes(figure, suffix))


def svg_text(figure: Figure) -> str:
    """A figure as the text of an SVG file."""
    return _picture_bytes(figure, ".svg").decode()


def panel_caption(name: str, panel: str) -> str:
    """What a panel shows, in words that also serve people who cannot see it."""
    return PANEL_CAPTIONS[panel] + LINE_CAPTIONS[name]


def _panels_of(name: str) -> tuple[str, ...]:
    if name not in PANELS:
        raise ValueError(f"figure: expected one of {', '.join(PANELS)}, got {name!r}")
    return PANELS[name]


def _drawn_runs(name: str, dataset: str, scale: Scale) -> list[Run]:
    """The runs of which at least one must be finished: all but those of the baseline."""
    match name:
        case "bins":
            groups = [bin_count_runs(dataset, count, scale) for count in BIN_COUNTS]
        case "sigma":
            groups = [sigma_runs(dataset, sigma, scale) for sigma in SIGMAS]
        case "curves":
            groups = [curve_runs(dataset, method, scale) for method in CURVE_METHODS]
        case _:
            groups = []
    return [run for group in groups for run in group]


def _picture_bytes(figure: Figure, suffix: str) -> bytes:
    with optional_import("matplotlib", "plots").rc_context(PLOT_STYLE):
        # The first layout may change the ticks. This makes the second one, which is written, fit.
        figure.draw_without_rendering()
    return picture(figure, suffix.removeprefix("."))


def _draw_figure(name: str, panels: Sequence[str], experiment: Experiment) -> Figure | None:
    drawn = _drawn_runs(name, experiment.dataset, experiment.scale)
    if drawn and not any(map(experiment.store.has, drawn)):
        return None
    n_columns = min(3, len(panels))
    n_lines = math.ceil(len(panels) / n_columns)
    size = (SIZE[0] * n_columns, SIZE[1] * n_lines)
    with optional_import("matplotlib", "plots").rc_context(PLOT_STYLE):
        figure: Figure = optional_import("matplotlib.figure", "plots").Figure(
            size, layout="constrained"
        )
        for place, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(n_lines, n_columns, place)
            _draw_panel(axes, name, panel, experiment)
    return figure


def _draw_panel(axes: Axes, name: str, panel: str, experiment: Experiment) -> None:
    dataset, scale = experiment.dataset, experiment.scale
    groups: dict[float, list[Run]]
    match name:
        case "bins":
            axes.set_xlabel("number of bins")
            groups = {count: bin_count_runs(dataset, count, scale) for count in BIN_COUNTS}
            _draw_sweep(axes, panel, groups, experiment)
        case "sigma":
            axes.set_xlabel("σ of the target (bin widths)")
            groups = {sigma: sigma_runs(dataset, sigma, scale) for sigma in SIGMAS}
            _draw_sweep(axes, panel, groups, experiment)
        case "curves":
            _draw_curves(axes, panel, experiment)
        case _:
            _draw_targets(axes, dataset)


def _set_title(axes: Axes, first_line: str, second_line: str) -> None:
    axes.set_title(f"{first_line}\n{second_line}", loc="left")


def _add_legend(axes: Axes, n_columns: int) -> None:
    """Add a legend below the picture, where it covers no line, if there is anything to explain."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.45, -0.2),
            fontsize=9,
            ncols=n_columns,
            columnspacing=1.2,
        )


# Figure 1


def _draw_sweep(
    axes: Axes, error: str, groups: Mapping[float, list[Run]], experiment: Experiment
) -> None:
    """Draw an error against the values of a parameter, each of which has a group of runs."""
    dataset, l2 = experiment.dataset, experiment.method_runs("l2")
    for part in ("train", "test"):
        metric = f"{part}_{error}"
        cells = {value: experiment.mean_error(runs, metric) for value, runs in groups.items()}
        _draw_points(axes, cells, part)
        _draw_baseline(axes, experiment.mean_error(l2, metric), part)
    _set_log_ticks(axes, list(groups))
    axes.set_ylabel(f"{error.upper()} ({TARGET_UNITS[original_name(dataset)]})")
    title = f"{dataset_title(dataset)}, scale: {experiment.scale.name}"
    _set_title(axes, title, "mean ± standard error")
    _add_legend(axes, n_columns=2)


def _draw_points(axes: Axes, cells: Mapping[float, Cell], part: str) -> None:
    points = [
        (value, cell.mean, cell.stderr or 0.0)
        for value, cell in cells.items()
        if _is_drawable(cell)
    ]
    if not points:
        return
    x, means, errors = np.array(points, dtype=np.float64).T
    axes.errorbar(
        x,
        means,
        yerr=errors,
        color=COLORS["hl-gaussian"],
        linestyle="-" if part == "test" else "--",
        marker="o" if part == "test" else "s",
        markersize=4,
        markerfacecolor=None if part == "test" else "white",
        capsize=3,
        label=f"{METHOD_TITLES['hl-gaussian']}, {part}",
    )


def _draw_baseline(axes: Axes, l2: Cell, part: str) -> None:
    if l2.mean is None or not _is_drawable(l2):
        return
    style = "-" if part == "test" else "--"
    label = f"{METHOD_TITLES['l2']}, {part}"
    axes.axhline(l2.mean, color=COLORS["l2"], linestyle=style, linewidth=1.2, label=label)
    spread = l2.stderr or 0.0
    axes.axhspan(l2.mean - spread, l2.mean + spread, color=COLORS["l2"], alpha=0.15, linewidth=0)


def _is_drawable(cell: Cell) -> bool:
    """Whether runs are finished and none of them diverged."""
    return cell.mean is not None and bool(np.isfinite(cell.mean))


def _set_log_ticks(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


# Figure 2


def _draw_curves(axes: Axes, quantity: str, experiment: Experiment) -> None:
    for method in CURVE_METHODS:
        histories = experiment.histories(method)
        if histories and quantity == "gradient_norm":
            _draw_gradient_norm(axes, method, histories[0])
        elif histories:
            _draw_mean_curve(axes, method, quantity, histories)
    if axes.get_lines():
        _set_log_heights(axes)
    axes.set_xlabel("epoch")
    _name_curves(axes, quantity, experiment)
    _add_legend(axes, n_columns=3)


def _name_curves(axes: Axes, quantity: str, experiment: Experiment) -> None:
    title = f"{dataset_title(experiment.dataset)}, scale: {experiment.scale.name}"
    if quantity == "gradient_norm":
        axes.set_ylabel("gradient norm (÷ its median)")
        _set_title(axes, title, "last layer, first run")
    else:
        part, error = quantity.split("_")
        unit = TARGET_UNITS[original_name(experiment.dataset)]
        axes.set_ylabel(f"{part} {error.upper()} ({unit})")
        _set_title(axes, title, "mean ± standard error")


def _draw_gradient_norm(axes: Axes, method: str, history: History) -> None:
    """Draw the norms of one run: a mean of several would hide how they jump between epochs."""
    norms = _numbers(history["gradient_norm"])
    finite = norms[np.isfinite(norms)]
    if len(finite) and np.median(finite) > 0:
        _draw_line(axes, method, history["epoch"], norms / np.median(finite), linewidth=0.8)


def _draw_mean_curve(axes: Axes, method: str, quantity: str, histories: Sequence[History]) -> None:
    errors = np.stack([_numbers(history[quantity]) for history in histories])
    mean, epochs = errors.mean(0), histories[0]["epoch"]
    if not np.isfinite(mean).any():
        return
    if len(errors) > 1:
        spread = errors.std(0, ddof=1) / np.sqrt(len(errors))
        low, high = mean - spread, mean + spread
        axes.fill_between(epochs, low, high, color=COLORS[method], alpha=0.2, linewidth=0)
    _draw_line(axes, method, epochs, mean, linewidth=1.2)


def _draw_line(
    axes: Axes, method: str, epochs: Sequence[int], values: Values, linewidth: float
) -> None:
    axes.plot(
        epochs,
        values,
        color=COLORS[method],
        linestyle=LINE_STYLES[method],
        linewidth=linewidth,
        label=METHOD_TITLES[method],
    )


def _numbers(values: Sequence[float | None]) -> Values:
    """An array with NaN for None, which stands for a value that was not finite.

    The line has a gap there.
    """
    return np.array(values, dtype=np.float64)


def _set_log_heights(axes: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers even if it spans less than a factor of 10."""
    ticker = optional_import("matplotlib.ticker", "plots")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_locator(ticker.NullLocator())


# Figure 3


def _draw_targets(axes: Axes, dataset: str) -> None:
    """Draw a histogram of the targets, which do not depend on the scale."""
    data = load_dataset(dataset)
    axes.hist(data.y, bins=100, range=(data.low, data.high), color=COLORS["hl-gaussian"])
    axes.set_xlabel(f"target ({TARGET_UNITS[original_name(dataset)]})")
    axes.set_ylabel("rows")
    _set_title(axes, dataset_title(dataset), f"{len(data.y):,} rows, 100 bins")
