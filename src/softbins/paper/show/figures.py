"""The paper's figures, drawn from the records of a store.

A figure is a few panels. `make_figure` draws them side by side in one picture, `make_panels` one
by one for pages that arrange them themselves. The same records give the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softbins import plots
from softbins._extras import optional_import
from softbins._files import write_whole
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
    method_runs,
    sigma_runs,
)
from softbins.paper.run.store import Store
from softbins.paper.show.tables import Cell, mean_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Mapping[str, tuple[str, ...]] = {
    "bins": ("rmse", "mae"),
    "sigma": ("mae",),
    "curves": ("gradient_norm", "train_rmse", "train_mae", "test_rmse", "test_mae"),
    "targets": ("targets",),
}
CAPTIONS = {
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
UNITS = {"bike": "rentals per hour", "ct": "units of axial position", "song": "years"}
SUFFIXES = (".svg", ".pdf")

# Wong's palette, which those who do not see all colours can tell apart; the marks differ as well.
COLORS = {"l2": "#D55E00", "hl-onebin": "#009E73", "hl-gaussian": "#0072B2"}
LINES = {"l2": "--", "hl-onebin": "-.", "hl-gaussian": "-"}
STYLE = plots.PLAIN | {"axes.titlesize": 10, "legend.frameon": False}

Values = NDArray[np.float64]


def make_figure(name: str, dataset: str, scale: Scale, store: Store) -> Figure | None:
    """A figure with all its panels, or None if no run that it shows is finished."""
    return _figure(name, PANELS[_known(name)], dataset, scale, store)


def make_panels(name: str, dataset: str, scale: Scale, store: Store) -> dict[str, Figure]:
    """The panels of a figure, each a figure of its own; none without finished runs."""
    drawn = {p: _figure(name, (p,), dataset, scale, store) for p in PANELS[_known(name)]}
    return {panel: figure for panel, figure in drawn.items() if figure is not None}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure to an .svg or .pdf file, whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path: need a file that ends in {' or '.join(SUFFIXES)}, got '{path}'")
    write_whole(path, _picture(figure, suffix))


def svg_text(figure: Figure) -> str:
    """A figure as the text of an SVG file."""
    return _picture(figure, ".svg").decode()


def panel_caption(name: str, panel: str) -> str:
    """What a panel shows, also for those who do not see it."""
    lines = {
        "bins": " A line for HL-Gaussian with 10 to 500 bins, a level for l2.",
        "sigma": " A line for HL-Gaussian with a σ of 0.25 to 8 bin widths, a level for l2.",
        "curves": " Lines for l2, HL-OneBin and HL-Gaussian.",
        "targets": "",
    }
    return PANEL_CAPTIONS[panel] + lines[_known(name)]


def drawn_runs(name: str, dataset: str, scale: Scale) -> list[Run]:
    """The runs that decide whether there is anything to draw: all but the baseline's."""
    match name:
        case "bins":
            groups = [bin_count_runs(dataset, bins, scale) for bins in BIN_COUNTS]
        case "sigma":
            groups = [sigma_runs(dataset, sigma, scale) for sigma in SIGMAS]
        case "curves":
            groups = [curve_runs(dataset, method, scale) for method in CURVE_METHODS]
        case _:
            groups = []
    return [run for group in groups for run in group]


def _known(name: str) -> str:
    if name not in PANELS:
        raise ValueError(f"figure: expected one of {', '.join(PANELS)}, got {name!r}")
    return name


def _picture(figure: Figure, suffix: str) -> bytes:
    with optional_import("matplotlib", "plots").rc_context(STYLE):
        # The first layout is for ticks that may change with it; the second one fits.
        figure.draw_without_rendering()
    return plots.picture(figure, suffix.removeprefix("."))


def _figure(
    name: str, panels: Sequence[str], dataset: str, scale: Scale, store: Store
) -> Figure | None:
    shown = drawn_runs(name, dataset, scale)
    if shown and not any(map(store.has, shown)):
        return None
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    size = (plots.SIZE[0] * columns, plots.SIZE[1] * rows)
    with optional_import("matplotlib", "plots").rc_context(STYLE):
        figure: Figure = optional_import("matplotlib.figure", "plots").Figure(
            size, layout="constrained"
        )
        for place, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, columns, place)
            _draw(axes, name, panel, dataset, scale, store)
    return figure


def _draw(axes: Axes, name: str, panel: str, dataset: str, scale: Scale, store: Store) -> None:
    match name:
        case "bins":
            axes.set_xlabel("number of bins")
            _sweep(axes, panel, BIN_COUNTS, bin_count_runs, dataset, scale, store)
        case "sigma":
            axes.set_xlabel("σ of the target (bin widths)")
            _sweep(axes, panel, SIGMAS, sigma_runs, dataset, scale, store)
        case "curves":
            _curves(axes, panel, dataset, scale, store)
        case _:
            _targets(axes, dataset)


def _head(axes: Axes, what: str, how: str) -> None:
    axes.set_title(f"{what}\n{how}", loc="left")


def _legend(axes: Axes, columns: int) -> None:
    """Below the picture, where it covers no line. Nothing is drawn of runs that diverged."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.45, -0.2),
            fontsize=9,
            ncols=columns,
            columnspacing=1.2,
        )


# Figure 1


def _sweep(
    axes: Axes,
    error: str,
    values: Sequence[Any],
    runs_with: Callable[[str, Any, Scale], list[Run]],
    dataset: str,
    scale: Scale,
    store: Store,
) -> None:
    for part in ("train", "test"):
        metric = f"{part}_{error}"
        cells = [mean_cell(runs_with(dataset, value, scale), metric, store) for value in values]
        _points(axes, values, cells, part)
        _baseline(axes, mean_cell(method_runs(dataset, "l2", scale), metric, store), part)
    _log_ticks(axes, values)
    axes.set_ylabel(f"{error.upper()} ({UNITS[original_name(dataset)]})")
    _head(axes, f"{dataset_title(dataset)}, scale: {scale.name}", "mean ± standard error")
    _legend(axes, columns=2)


def _points(axes: Axes, values: Sequence[float], cells: Sequence[Cell], part: str) -> None:
    found = [
        (v, c.mean, c.stderr or 0.0) for v, c in zip(values, cells, strict=True) if _drawable(c)
    ]
    if not found:
        return
    x, means, errors = np.array(found, dtype=np.float64).T
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


def _baseline(axes: Axes, l2: Cell, part: str) -> None:
    if l2.mean is None or not _drawable(l2):
        return
    style = "-" if part == "test" else "--"
    label = f"{METHOD_TITLES['l2']}, {part}"
    axes.axhline(l2.mean, color=COLORS["l2"], linestyle=style, linewidth=1.2, label=label)
    spread = l2.stderr or 0.0
    axes.axhspan(l2.mean - spread, l2.mean + spread, color=COLORS["l2"], alpha=0.15, linewidth=0)


def _drawable(found: Cell) -> bool:
    return found.mean is not None and bool(np.isfinite(found.mean))


def _log_ticks(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


# Figure 2


def _curves(axes: Axes, quantity: str, dataset: str, scale: Scale, store: Store) -> None:
    for method in CURVE_METHODS:
        records = [store.read(run) for run in curve_runs(dataset, method, scale)]
        histories = [record["history"] for record in records if record is not None]
        if histories and quantity == "gradient_norm":
            _gradient(axes, method, histories[0])
        elif histories:
            _errors(axes, method, quantity, histories)
    if axes.get_lines():
        _log_heights(axes)
    axes.set_xlabel("epoch")
    head = f"{dataset_title(dataset)}, scale: {scale.name}"
    if quantity == "gradient_norm":
        axes.set_ylabel("gradient norm (÷ its median)")
        _head(axes, head, "last layer, first run")
    else:
        part, error = quantity.split("_")
        axes.set_ylabel(f"{part} {error.upper()} ({UNITS[original_name(dataset)]})")
        _head(axes, head, "mean ± standard error")
    _legend(axes, columns=3)


def _gradient(axes: Axes, method: str, history: Mapping[str, Any]) -> None:
    """One run: a mean over several would hide how the norm jumps from epoch to epoch."""
    norms = _numbers(history["gradient_norm"])
    finite = norms[np.isfinite(norms)]
    if len(finite) and np.median(finite) > 0:
        _line(axes, method, history["epoch"], norms / np.median(finite), linewidth=0.8)


def _errors(axes: Axes, method: str, quantity: str, histories: Sequence[Mapping[str, Any]]) -> None:
    runs = np.stack([_numbers(history[quantity]) for history in histories])
    mean, epochs = runs.mean(0), histories[0]["epoch"]
    if not np.isfinite(mean).any():
        return
    if len(runs) > 1:
        spread = runs.std(0, ddof=1) / np.sqrt(len(runs))
        low, high = mean - spread, mean + spread
        axes.fill_between(epochs, low, high, color=COLORS[method], alpha=0.2, linewidth=0)
    _line(axes, method, epochs, mean, linewidth=1.2)


def _line(axes: Axes, method: str, epochs: Any, values: Values, linewidth: float) -> None:
    axes.plot(
        epochs,
        values,
        color=COLORS[method],
        linestyle=LINES[method],
        linewidth=linewidth,
        label=METHOD_TITLES[method],
    )


def _numbers(values: Sequence[float | None]) -> Values:
    """With NaN for what was not finite, so that a line has a gap there."""
    return np.array(values, dtype=np.float64)


def _log_heights(axes: Axes) -> None:
    """A logarithmic axis with plain numbers also where it spans less than a power of ten."""
    ticker = optional_import("matplotlib.ticker", "plots")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_locator(ticker.NullLocator())


# Figure 3


def _targets(axes: Axes, dataset: str) -> None:
    data = load_dataset(dataset)
    axes.hist(data.y, bins=100, range=(data.low, data.high), color=COLORS["hl-gaussian"])
    axes.set_xlabel(f"target ({UNITS[original_name(dataset)]})")
    axes.set_ylabel("rows")
    # The data themselves, which do not depend on the scale.
    _head(axes, dataset_title(dataset), f"{len(data.y):,} rows, 100 bins")
