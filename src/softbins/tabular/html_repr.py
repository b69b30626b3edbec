"""What a notebook shows of an estimator: scikit-learn's diagram, and below it what `fit` chose."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

from sklearn.utils import estimator_html_repr

from softbins._core.text import shown
from softbins.tabular.description import description


class ShowsWhatWasChosen:
    """A mixin for estimators, before scikit-learn's own, which makes the diagram."""

    def _repr_html_inner(self) -> str:
        return str(estimator_html_repr(self)) + chosen_table(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += chosen_table(self)
        return bundle


def chosen_table(model: Any) -> str:
    """An HTML table of what a fitted estimator has become; nothing before it is fitted."""
    if not model.__sklearn_is_fitted__():
        return ""
    cells = [
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(text)}</td></tr>'
        for name, text in chosen(model).items()
    ]
    return f'<table style="font-size: 12px"><caption>Fitted</caption>{"".join(cells)}</table>'


def chosen(model: Any) -> dict[str, str]:
    """The choices in the words of the page, in their order; what a model lacks is left out."""
    about = description(model)
    bins = about["bins"]
    trees, process = about["share_of_trees"], about["share_of_gaussian_process"]
    found = {
        "columns": shown(dict(Counter(about["kinds"]))),
        "networks": shown(about["members"]),
        "hidden units": shown(about["hidden"]),
        "epochs": shown(model.n_epochs_),
        "bins": bins and f"{bins['count']}, from {shown(bins['low'])} to {shown(bins['high'])}",
        "share of the trees": None if trees is None else f"{trees:.0%}",
        "share of the Gaussian process": None if process is None else f"{process:.0%}",
        "rows that calibrate": about["calibration_rows"] and shown(about["calibration_rows"]),
    }
    return {name: text for name, text in found.items() if text is not None}
