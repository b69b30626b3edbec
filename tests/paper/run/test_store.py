"""Records that are read and written, and files that are no records."""

from pathlib import Path

import pytest

from softbins.paper.run.plan import method_runs
from softbins.paper.run.store import Store


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a record of a run; remove it"),
        ('{"format": 1', "not a record of a run; remove it"),
        ("[]", "not a record of a run; remove it"),
        ('{"format": 2, "run": {}}', "a record of another run or format; remove it"),
    ],
    ids=["empty", "cut", "list", "newer"],
)
def test_a_damaged_record_is_named(text, message, store, scale):
    run = method_runs("bike", "linear", scale)[0]
    store.record_path(run).parent.mkdir(parents=True)
    store.record_path(run).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        store.read(run)
    assert str(store.record_path(run)) in str(caught.value)


def test_a_store_stays_where_it_is_for_workers_in_other_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store("here")
    monkeypatch.chdir("/")
    assert store.folder == tmp_path / "here"


def test_figures_that_are_not_finite_become_null(store, scale):
    run = method_runs("bike", "linear", scale)[0]
    store.write(run, {"scores": {"test_mae": float("nan"), "test_rmse": [float("inf"), 1.0]}})
    assert store.read(run)["scores"] == {"test_mae": None, "test_rmse": [None, 1.0]}
    assert Path(store.record_path(run)).read_text().endswith("}\n")
