"""What a notebook shows of an estimator."""

import re

import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softbins import HistogramRegressor
from tests.report.small_models import fitted, tabular


def said(model):
    """The table below the diagram, by the heads of its rows."""
    html = model._repr_mimebundle_()["text/html"]
    assert model._repr_html_().endswith(html[html.rindex("<table") :])
    return dict(
        re.findall(r"<th[^>]*>([^<]*)</th><td[^>]*>([^<]*)</td>", html.rpartition("Fitted")[2])
    )


def test_what_was_chosen_stands_below_the_diagram_of_scikit_learn():
    model = tabular()
    found = said(model)
    bins, shares = model.bins_, model.aggregator_.shares
    assert found == {
        "columns": "number 2",
        "networks": "2",
        "hidden units": "8",
        "epochs": str(model.n_epochs_),
        "bins": f"{bins.count}, from {bins.low:.4g} to {bins.high:.4g}",
        "share of the trees": f"{shares.get('trees', 0.0):.0%}",
        "share of the Gaussian process": f"{shares.get('gaussian_process', 0.0):.0%}",
        "rows that calibrate": f"{model.aggregator_.rows:.0f}",
    }
    assert "sk-top-container" in model._repr_html_()


@pytest.mark.parametrize("objective", ["l2", "mdn", "hl-gaussian"])
def test_what_a_model_lacks_is_left_out(objective):
    found = said(fitted(objective))
    assert {"networks", "hidden units", "epochs"} <= set(found)
    assert ("bins" in found) == (objective == "hl-gaussian")
    assert "rows that calibrate" not in found


def test_before_fit_there_is_only_the_diagram():
    model = HistogramRegressor()
    html = model._repr_mimebundle_()["text/html"]
    assert "Fitted</caption>" not in html
    assert "HistogramRegressor" in html


def test_those_who_want_text_get_text():
    with config_context(display="text"):
        assert list(tabular()._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(tabular(), "_repr_html_")


def test_the_diagram_of_a_pipeline_still_draws():
    assert (
        "HistogramRegressor" in make_pipeline(StandardScaler(), HistogramRegressor())._repr_html_()
    )
