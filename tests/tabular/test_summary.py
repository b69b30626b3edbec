"""What the history of a fitted estimator says in a few numbers."""

from types import SimpleNamespace

from softbins.tabular.summary import final_row, history_summary, training_summary


def test_a_member_that_has_stopped_keeps_its_best_epoch():
    scores = [5.0, 3.0, None, float("nan"), 3.0, 4.0]
    rows = [{"epoch": i, "validation_mae": score} for i, score in enumerate(scores, 1)]
    for stopping, epoch in [(True, 2), (False, 6)]:
        assert final_row(rows, "mae" if stopping else None)["epoch"] == epoch


def test_errors_are_averaged_over_the_members():
    history = [
        {"member": member, "epoch": epoch, "validation_mae": mae, "validation_rmse": 2 * mae}
        for member, epoch, mae in [(0, 1, 4.0), (1, 1, 2.0), (0, 2, 3.0), (1, 2, 5.0)]
    ]
    model = SimpleNamespace(history_=history, early_stopping=True, monitor="mae")
    assert training_summary(model) == {"epochs": 2, "validation_mae": 2.5, "validation_rmse": 5.0}
    assert history_summary([], None) == {"epochs": 0}
