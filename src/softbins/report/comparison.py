"""Methods compared by cross-validation on a table: scores, a page and a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from softbins import plots
from softbins._core.checks import numeric_column
from softbins._core.figures import picture
from softbins._core.files import write_whole
from softbins._core.text import aligned, number_text
from softbins.report.cross_validation import KINDS, check_methods, cross_validate
from softbins.report.forecasts import COVERAGE
from softbins.report.page import Page, Section, Table, figure_of, picture_of
from softbins.tabular.frames import as_frame
from softbins.tabular.validation import check_unit

Result = Mapping[str, Any]
OnProgress = Callable[[float, str], object]

ERRORS = ("mae", "rmse", "crps")
CAPTION = (
    "Mean absolute error of each method over the folds, with its standard error. "
    "A star marks what is undertrained."
)
HEAD = ("Method", "What it is", "MAE", "±", "RMSE", "±", "CRPS", "±", "Coverage", "Seconds")
NOTES = (
    "MAE and RMSE are those of predicted means. CRPS judges the distribution; for a method that "
    "predicts numbers only, it is the MAE. Coverage is the share of targets in intervals for "
    f"{COVERAGE:.0%}. Seconds are the processor's for one fit."
)
UNDERTRAINED = (
    "{} undertrained: in most folds the error on held-out rows was smallest at the end of the "
    "training, so that a longer one would probably err less."
)


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
    """Cross-validate methods on a table, all on the same folds.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, d)
        The features.
    y : array-like of shape (n,)
        The targets.
    methods : sequence of str
        What to compare: ``"softbins"`` and ``"softbins-fast"``, which are `HistogramRegressor`
        and its fast preset; ``"trees"``, scikit-learn's boosted trees; ``"linear"`` regression;
        a ``"constant"``, the mean and the distribution of the training targets; the paper's
        plain networks ``"l2"``, ``"l1"``, ``"l2-noise"``, ``"l2-clipping"``, ``"l2-softmax"``,
        ``"hl-onebin"``, ``"hl-uniform"``, ``"hl-gaussian"`` and ``"mdn"``; and, if they are
        installed, ``"lightgbm"``, ``"catboost"`` and ``"xgboost"`` at their defaults.
    folds : int, default 5
        Each method predicts every fold after training on the others.
    epochs : int, default 100
        Passes over the data of the plain networks. What fills gaps and which categories there
        are, they learn from all rows, without the target.
    seed : int, default 0
        The same seed gives the same folds and the same results, but for seconds.
    on_progress : callable, optional
        Called as ``on_progress(methods_done, text)`` after every epoch or fold, with the number of
        methods that are finished, as a fraction, and the method that is running.

    Returns
    -------
    list of dict
        One for each method, smallest MAE first, methods that diverged last: ``method`` and its
        ``kind``; ``mae`` and ``rmse`` of the means and ``crps`` of the distributions, averaged over
        the folds, with their standard errors ``mae_stderr``, ``rmse_stderr`` and ``crps_stderr``;
        ``coverage`` of intervals for 90%, None without distributions, where the ``crps`` is the
        MAE; ``seconds`` of the processor for one fit; ``undertrained``, whether in most folds the
        held-out error was smallest at the end of the training, None if that is not known; and
        ``folds``, the scores of each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins.evaluation import compare_methods
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> results = compare_methods(X, X[:, 0] - X[:, 1], ["l2", "linear"], folds=2, epochs=2)
    >>> [(result["method"], result["kind"]) for result in results]
    [('linear', 'baseline'), ('l2', 'plain network')]
    >>> results[0]["crps"] == results[0]["mae"], results[0]["coverage"]
    (True, None)
    """
    check_methods(methods)
    table = X if as_frame(X) is not None else np.asarray(X)
    target = numeric_column("y", y, len(table))
    check_unit(target)
    results = []
    for number, method in enumerate(methods):

        def show(share: float, number: int = number, name: str = method) -> None:
            if on_progress is not None:
                on_progress(number + share, f"{name} ({number + 1}/{len(methods)})")

        scores, late = cross_validate(
            table, target, method, folds=folds, epochs=epochs, seed=seed, on_share=show
        )
        results.append(summarize_folds(method, scores, late))
    return sorted(results, key=lambda result: (math.isnan(result["mae"]), result["mae"]))


def summarize_folds(
    method: str, folds: Sequence[Mapping[str, Any]], undertrained: bool | None = None
) -> dict[str, Any]:
    """Means and standard errors of a method's scores over the folds."""
    result: dict[str, Any] = {"method": method, "kind": KINDS[method]}
    for name in ERRORS:
        values = [fold[name] for fold in folds]
        # The errors of a method that diverged have no spread.
        spread = statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
        result[name] = statistics.fmean(values)
        result[f"{name}_stderr"] = spread / math.sqrt(len(values))
    for name in ("coverage", "seconds"):
        known = [fold[name] for fold in folds if fold[name] is not None]
        result[name] = statistics.fmean(known) if known else None
    return result | {"undertrained": undertrained, "folds": list(folds)}


def score_table(results: Sequence[Result]) -> str:
    """The scores of methods with their standard errors, as text in aligned columns."""
    rows = [
        [
            method_label(result),
            *(_with_error(result, name) for name in ERRORS),
            "" if result["coverage"] is None else f"{result['coverage']:.1%}",
            f"{result['seconds']:.2g}",
        ]
        for result in results
    ]
    return aligned([["method", "MAE", "RMSE", "CRPS", "coverage", "seconds"], *rows])


def method_label(result: Result) -> str:
    """A method's name with what one has to know about it."""
    marks = [result["kind"]] if result["kind"] in ("plain network", "library") else []
    marks += ["undertrained"] if result["undertrained"] else []
    return f"{result['method']} ({', '.join(marks)})" if marks else str(result["method"])


def remarks(results: Sequence[Result]) -> list[str]:
    """Whole sentences on methods that diverged or are undertrained."""
    diverged = [result["method"] for result in results if not math.isfinite(result["mae"])]
    found = [f"{name} diverged: its errors are not finite." for name in diverged]
    late = [result["method"] for result in results if result["undertrained"]]
    names = f"{', '.join(late)} {'is' if len(late) == 1 else 'are'}"
    return [*found, UNDERTRAINED.format(names)] if late else found


def comparison_page(
    results: Sequence[Result], data_name: str = "a table", facts: Mapping[str, Any] | None = None
) -> str:
    """Write the scores of methods on one table as one HTML page.

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
        _drawing(results), name="comparison", caption=CAPTION, height=_picture_height(results)
    )
    columns = [part for error in ERRORS for part in (error, f"{error}_stderr")]
    columns += ["coverage", "seconds"]
    rows = [
        [result["method"], _what_it_is(result), *(result[name] for name in columns)]
        for result in results
    ]
    section = Section("scores", "Scores", [Table(HEAD, rows, NOTES)], remarks(results), [picture])
    page = Page(
        title=f"Methods on {data_name}",
        lead=f"Scores of {len(results)} methods on rows that they were not trained on: "
        f"mean and standard error over {len(results[0]['folds'])} folds, best first.",
        sections=[section],
        facts={"data": data_name} | dict(facts or {}),
    )
    return page.html()


def _what_it_is(result: Result) -> str:
    return f"{result['kind']}{', undertrained' if result['undertrained'] else ''}"


def _with_error(result: Result, name: str) -> str:
    return f"{number_text(result[name])} ± {number_text(result[f'{name}_stderr'], 2)}"


def _drawing(results: Sequence[Result]) -> Callable[[Any], object]:
    marked = [f"{each['method']}{' *' if each['undertrained'] else ''}" for each in results]
    bars = [{**each, "method": name} for each, name in zip(results, marked, strict=True)]
    return partial(plots.comparison, bars)


def draw_comparison(results: Sequence[Result], path: Path, kind: str) -> None:
    """Write a picture of every method's MAE as an "svg", "png" or "pdf" file."""
    figure = figure_of(_drawing(results), _picture_height(results), background="white")
    write_whole(path, picture(figure, kind))


def _picture_height(results: Sequence[Result]) -> float:
    """Inches that bars for all the methods need."""
    return 1.0 + 0.35 * len(results)
