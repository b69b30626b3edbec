"""Records that are read and written, and files that are no records."""

import math

import pytest

from softbins.paper.run.plan import method_runs
from softbins.paper.run.sealed_json import seal, unseal
from softbins.paper.run.store import Store
from tests.paper.synthetic import record

DAMAGES = {
    "empty": (lambda data: b"", "it is empty"),
    "cut": (lambda data: data[:-20], "it is not JSON"),
    "list": (lambda data: b"[]", "it is not a JSON object"),
    "one digit": (lambda data: data.replace(b"30.0", b"30.1"), "it was changed after it was"),
    "one space": (lambda data: data + b" ", "it was changed after it was written"),
    "newer": (lambda data: resealed(data, format=3), "it is of another format"),
    "another run": (lambda data: resealed(data, run={}), "it is of another run"),
    "wrong form": (lambda data: resealed(data, seconds="30"), "record.seconds: need a number"),
}


def resealed(data, **changes):
    """A file with other fields and the right digest."""
    return seal(unseal(data) | changes)


@pytest.mark.parametrize(("damage", "fault"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_record_counts_as_none_and_is_named(damage, fault, store, scale):
    whole, hurt = method_runs("bike", "l2", scale)
    for run in (whole, hurt):
        store.write(run, record(run, 20.0))
    path = store.record_path(hurt)
    path.write_bytes(damage(path.read_bytes()))
    assert (store.has(hurt), store.read(hurt)) == (False, None)
    assert fault in store.record_fault(hurt)
    (line,) = store.damaged_records([whole, hurt])
    assert line.startswith(f"{path}: {fault}")
    assert store.has(whole)


def test_what_is_not_there_is_not_damaged(store, scale):
    assert store.damaged_records(method_runs("bike", "l2", scale)) == []
    assert not store.folder.exists()


def test_files_that_are_set_aside_keep_their_content_and_get_new_names(store):
    path = store.running_path("some.progress")
    for text in ("one", "two"):
        path.write_text(text)
        store.set_aside(path)
    assert store.set_aside(path) is None
    found = {path.name: path.read_text() for path in path.parent.iterdir()}
    assert found == {"some.progress.damaged": "one", "some.progress.damaged-2": "two"}


def test_asking_whether_something_is_locked_makes_no_file(store):
    assert not store.is_locked("stack")
    assert not store.folder.exists()
    with store.lock("stack", wait=False):
        assert store.is_locked("stack")
    assert not store.is_locked("stack")


def test_a_store_stays_where_it_is_for_workers_in_other_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store("here")
    monkeypatch.chdir("/")
    assert store.folder == tmp_path / "here"


def test_scores_that_are_not_finite_become_null(store, scale):
    run = method_runs("bike", "l2", scale)[0]
    store.write(run, record(run, math.nan))
    assert set(store.read(run)["scores"].values()) == {None}
    assert store.record_path(run).read_text().endswith("}\n")
