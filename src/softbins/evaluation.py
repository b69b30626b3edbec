"""A model judged on rows that it has not seen: scores, and one HTML page.

This is the public name of `softbins.report`.
"""

from softbins.report.evaluation import Evaluation, evaluate, predictions

__all__ = ["Evaluation", "evaluate", "predictions"]
