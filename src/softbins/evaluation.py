"""Models and methods judged by rows that they have not seen: scores, and one HTML page.

`evaluate` judges a fitted estimator, `compare_methods` methods by cross-validation on a table.
"""

from softbins.report.comparison import compare_methods, comparison_page
from softbins.report.evaluation import Evaluation, evaluate, predictions
from softbins.report.verdict import Finding
from softbins.tabular.description import description

__all__ = [
    "Evaluation",
    "Finding",
    "compare_methods",
    "comparison_page",
    "description",
    "evaluate",
    "predictions",
]
