"""A fitted model described by plain values."""

from softbins.evaluation import description
from tests.report.small_models import tabular


def test_a_description_has_none_for_what_a_model_has_not(models):
    found = {name: description(model) for name, model in models.items()}
    found["as in the paper"] = description(tabular(early_stopping=False))
    assert len({tuple(about) for about in found.values()}) == 1
    for name, about in found.items():
        held_out = [about[key] for key in ("share_of_trees", "calibration_rows")]
        assert (None not in held_out) if name == "calibrated" else (held_out == [None] * 2)
    assert found["mdn"]["bins"] is found["equal bins"]["bias_of_bins"] is None
    assert found["calibrated"]["hidden"] == [8]
