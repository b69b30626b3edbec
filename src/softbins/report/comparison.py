"""The paper's methods compared by cross-validation on a table: errors, a page and a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from softbins import plots
from softbins._core.checks import numeric_column
from softbins._core.figures import picture
from softbins._core.files import write_whole
from softbins._core.text import aligned
from softbins.report.cross_validation import cross_validate
from softbins.report.page import Page, figure_of, picture_of
from softbins.tabular.columns import Columns
from softbins.tabular.validation import check_unit

Result = Mapping[str, Any]
OnProgress = Callable[[float, str], object]

ERRORS = ("mae", "rmse")
CAPTION = "Mean absolute error of each method over the folds, with its standard error."


def compare_methods(
    X: Any,
    y: Any,
    methods: Sequence[str],
    *,
    folds: int = 5,
    epochs: int = 100,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Cross-validate the paper's methods on a table.

    All of them are the paper's network and nothing else, but for linear regression. What fills
    gaps and which categories there are is learnt from all rows of X, without the target.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, d)
        The features.
    y : array-like of shape (n,)
        The targets.
    methods : sequence of str
        What to compare: ``"linear"``, ``"l2"``, ``"l1"``, ``"l2-noise"``, ``"l2-clipping"``,
        ``"l2-softmax"``, ``"hl-onebin"``, ``"hl-uniform"``, ``"hl-gaussian"`` or ``"mdn"``.
    folds : int, default 5
        Each method predicts every fold after training on the others.
    epochs : int, default 100
        Passes over the data.
    seed : int, default 0
        The same seed gives the same folds and the same results.
    on_progress : callable, optional
        Called as ``on_progress(methods_done, text)`` after every epoch, with the number of methods
        that are finished, as a fraction, and the method that is running.

    Returns
    -------
    list of dict
        One for each method, best first, methods that diverged last: ``method``; ``mae`` and
        ``rmse``, the means over the folds; their standard errors ``mae_stderr`` and
        ``rmse_stderr``; and ``folds``, the errors on each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.evaluation import compare_methods
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> results = compare_methods(X, X[:, 0] - X[:, 1], ["l2", "linear"], folds=2, epochs=2)
    >>> [result["method"] for result in results]
    ['linear', 'l2']
    """
    x = Columns.fit(X).transform(X)
    target = numeric_column("y", y, len(x))
    check_unit(target)
    results: list[dict[str, Any]] = []
    # Linear regression comes last: it takes no time, and would make the time left look short.
    order = sorted(methods, key=lambda method: method == "linear")
    for method in order:

        def show(epoch: int, epochs: int, *_: Any, name: str = method) -> None:
            if on_progress is not None:
                text = f"{name} ({len(results) + 1}/{len(order)})"
                on_progress(len(results) + epoch / epochs, text)

        errors = cross_validate(
            x, target, method, folds=folds, epochs=epochs, seed=seed, progress=show
        )
        results.append(summarize_folds(method, errors))
    return sorted(results, key=lambda result: (math.isnan(result["mae"]), result["mae"]))


def summarize_folds(method: str, folds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and standard error of a method's errors over the folds."""
    result: dict[str, Any] = {"method": method}
    for name in ERRORS:
        values = [fold[name] for fold in folds]
        # The errors of a method that diverged have no spread.
        spread = statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
        result[name] = statistics.fmean(values)
        result[f"{name}_stderr"] = spread / math.sqrt(len(values))
    return result | {"folds": list(folds)}


def score_table(results: Sequence[Result]) -> str:
    """The errors of methods with their standard errors, as text in aligned columns."""
    rows = [
        [result["method"], *(f"{result[e]:.4g} ± {result[f'{e}_stderr']:.2g}" for e in ERRORS)]
        for result in results
    ]
    return aligned([["method", "MAE", "RMSE"], *rows])


def comparison_page(
    results: Sequence[Result], data_name: str = "a table", facts: Mapping[str, Any] | None = None
) -> str:
    """Write the errors of methods on one table as one HTML page.

    The page needs no other file and requests nothing; the same results give the same page. Needs
    ``pip install "softbins[plots]"``.

    Parameters
    ----------
    results : sequence of dict
        What `compare_methods` returns, at least one.
    data_name : str, default "a table"
        What the page calls the table.
    facts : mapping, optional
        What else to tell at the end of the page, by name, such as the number of rows.

    Returns
    -------
    str
        The text of an HTML file.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.evaluation import compare_methods, comparison_page
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> results = compare_methods(X, X[:, 0] - X[:, 1], ["linear"], folds=2)
    >>> "<title>Methods on 40 rows</title>" in comparison_page(results, "40 rows")
    True
    """
    picture = picture_of(
        partial(plots.comparison, results),
        name="comparison",
        caption=CAPTION,
        height=_picture_height(results),
    )
    columns = ("method", "mae", "mae_stderr", "rmse", "rmse_stderr")
    diverged = [result["method"] for result in results if not math.isfinite(result["mae"])]
    page = Page(
        title=f"Methods on {data_name}",
        lead=f"Errors of {len(results)} methods on rows that they were not trained on: "
        f"mean and standard error over {len(results[0]['folds'])} folds, best first.",
        head=["Method", "MAE", "±", "RMSE", "±"],
        table=[[result[name] for name in columns] for result in results],
        remarks=[f"{name} diverged: its errors are not finite." for name in diverged],
        pictures=[picture],
        facts={"data": data_name} | dict(facts or {}),
    )
    return page.html()


def draw_comparison(results: Sequence[Result], path: Path, kind: str) -> None:
    """Write a picture of every method's MAE as an "svg", "png" or "pdf" file."""
    draw = partial(plots.comparison, results)
    figure = figure_of(draw, _picture_height(results), background="white")
    write_whole(path, picture(figure, kind))


def _picture_height(results: Sequence[Result]) -> float:
    """Inches that bars for all the methods need."""
    return 1.0 + 0.35 * len(results)
