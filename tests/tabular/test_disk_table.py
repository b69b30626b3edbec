import os
import resource
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from softbins import HistogramRegressor
from softbins.tabular import disk_table, parquet_table
from softbins.tabular.disk_table import disk_array, disk_training_data
from softbins.tabular.parquet_table import ParquetTable
from softbins.tabular.provenance import fingerprint
from softbins.tabular.validation import training_data

ROWS = 1200
QUICK = {"preset": "fast", "hidden": (16,), "members": 2, "max_epochs": 8, "random_state": 0}


def table(rows=ROWS):
    generator = np.random.default_rng(0)
    size = generator.normal(size=rows)
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(rows) % 11 == 0, np.nan, size),
            "town": generator.choice(["a", "b", "c"], rows),
            "second": 1_800_000_000 + generator.integers(0, 10**6, rows),
        }
    )
    return frame.assign(y=np.sin(2 * size) + (frame["town"] == "a") + 0.1 * size)


def write(folder, frame, files=2):
    folder.mkdir(exist_ok=True)
    for number in range(files):
        part = pa.Table.from_pandas(frame[number::files], preserve_index=False)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=250)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("table") / "files", table())


@pytest.fixture
def small_batches(monkeypatch):
    """As if the table were larger than it is: several batches, and several places on disk."""
    monkeypatch.setattr(parquet_table, "BATCH_ROWS", 100)
    monkeypatch.setattr(disk_table, "BATCH_ROWS", 100)
    monkeypatch.setattr(disk_table, "SHARE_OF_BUCKET", 0.02)


def on_disk(source, target="y", memory=3e5, trees=True):
    return disk_training_data(
        ParquetTable.open(source, target),
        memory=memory,
        categorical_features="from_dtype",
        scaling="robust",
        trees=trees,
        seed=0,
    )


def in_file_order(frame, files=2):
    return pd.concat([frame[number::files] for number in range(files)], ignore_index=True)


def as_rows(data):
    parts = [data.features, data.encoded.codes.T, data.target[:, None]]
    found = np.hstack([part.astype(np.float64) for part in parts])
    return found[np.lexsort(found.T)], found


@pytest.mark.usefixtures("small_batches")
def test_the_rows_on_disk_are_those_in_memory_in_another_order(folder):
    frame = in_file_order(table())
    x, y = frame.drop(columns="y"), frame["y"]
    how = {"categorical_features": "from_dtype", "scaling": "robust", "trees": True}
    expected = training_data(HistogramRegressor(), x, y, None, **how)
    found = on_disk(folder)
    assert isinstance(found.features, np.memmap)
    (ours, shuffled), (theirs, ordered) = as_rows(found), as_rows(expected)
    np.testing.assert_array_equal(ours, theirs)
    assert (shuffled != ordered).any(1).mean() > 0.9
    np.testing.assert_array_equal(found.encoded.low, expected.encoded.low)
    assert fingerprint(found) == fingerprint(expected)


@pytest.mark.usefixtures("small_batches")
def test_a_row_may_come_to_any_place(tmp_path):
    frame = pd.DataFrame({"x": np.arange(2000.0), "y": np.arange(2000.0)})
    found = on_disk(write(tmp_path / "files", frame, files=1))
    place = np.argsort(found.target)
    # Correlation of the place on disk with that in the file, with a standard error of 0.022.
    assert abs(np.corrcoef(place, np.arange(2000))[0, 1]) < 0.09
    np.testing.assert_array_equal(np.sort(found.target), frame["y"])


def test_a_model_from_disk_is_as_good_as_one_from_memory(folder):
    frame = table()
    x, y = frame.drop(columns="y"), frame["y"]
    disk = HistogramRegressor(**QUICK).fit(folder, target="y")
    memory = HistogramRegressor(**QUICK).fit(x, y)
    errors = [np.abs(model.predict(x) - y).mean() for model in (disk, memory)]
    assert errors[0] < 1.3 * errors[1]
    assert disk.feature_names_in_.tolist() == list(x.columns)
    about, usual = disk.provenance_, memory.provenance_
    assert (about.rows, about.target, about.columns) == (ROWS, "y", usual.columns)


def test_a_dataset_is_fitted_with_its_filter(folder):
    some = ds.dataset(folder).filter(ds.field("town") != "a")
    data = on_disk(some)
    assert data.n_rows == (table()["town"] != "a").sum()
    assert not data.encoded.transform.columns.names.count("y")


def test_rows_without_a_target_are_left_out(tmp_path):
    frame = table()
    frame.loc[::3, "y"] = np.nan
    with pytest.warns(UserWarning, match="left out 400 of 1200 rows, which have no target 'y'"):
        data = on_disk(write(tmp_path / "files", frame))
    assert data.n_rows == 800
    np.testing.assert_array_equal(np.sort(data.target), np.sort(frame["y"].dropna()))


# Bad input


def other_columns(folder):
    pq.write_table(pa.table({"size": [1.0], "y": [1.0]}), folder / "2.parquet")


def other_types(folder):
    first = pq.read_table(folder / "0.parquet")
    place = first.schema.get_field_index("second")
    changed = first.set_column(place, "second", first["second"].cast(pa.float64()))
    pq.write_table(changed, folder / "2.parquet")


def no_parquet(folder):
    (folder / "2.parquet").write_bytes(b"no Parquet at all, and that is that")


def cut_off(folder):
    content = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(content[: len(content) // 2])


def damaged(folder):
    content = bytearray((folder / "1.parquet").read_bytes())
    content[4:2000] = b"\0" * 1996
    (folder / "1.parquet").write_bytes(content)


def empty(folder):
    for file in folder.iterdir():
        file.unlink()


BROKEN = {
    other_columns: r"files: 0.parquet has a column 'town', which 2.parquet does not have",
    other_types: r"files: column 'second' is int64 in 0.parquet and double in 2.parquet",
    no_parquet: r"files: .*broken Parquet file \(",
    cut_off: r"files: .*broken Parquet file \(",
    damaged: r"files: broken Parquet file \(",
    empty: r"files: no Parquet files \(.parquet, .pq\) there",
}


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_broken_folders_are_named_in_one_line(tmp_path, monkeypatch, spoil):
    folder, temporary = write(tmp_path / "files", table()), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    spoil(folder)
    model = HistogramRegressor(**QUICK)
    with pytest.raises(ValueError, match=BROKEN[spoil]) as raised:
        model.fit(folder, target="y")
    assert "\n" not in str(raised.value)
    assert not hasattr(model, "network_")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"target": "z"}, "files: no column 'z'"),
        ({"target": "town"}, "files: the target 'town' is no column of numbers"),
        ({}, "target: name the column"),
        ({"target": "y", "memory": 1e4}, "memory: 1e-05 GB is too little for 1200 targets and a"),
        ({"target": "y", "memory": 0}, "memory: "),
        ({"target": "y", "groups": "town"}, "groups: is not taken with a Parquet table"),
        ({"y": np.zeros(ROWS)}, "y: is not taken with a Parquet table"),
    ],
)
def test_what_does_not_fit_is_refused(folder, given, error):
    with pytest.raises(ValueError, match=error):
        HistogramRegressor(**QUICK).fit(folder, **given)


def test_no_jobs_are_refused(folder):
    with pytest.raises(ValueError, match="n_jobs: need a whole number of at least 1"):
        HistogramRegressor(n_jobs=0).fit(folder, target="y")


def test_a_target_is_for_parquet_alone():
    with pytest.raises(ValueError, match="target: is the column of a Parquet table; give y"):
        HistogramRegressor().fit(np.zeros((9, 1)), target="y")


def test_a_path_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder"):
        HistogramRegressor().fit("nowhere", target="y")


@pytest.mark.parametrize("shape", [(3, 4), (0, 2), (2, 0)])
def test_an_array_on_disk_has_no_name(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = disk_array(shape, np.float32)
    array[:] = 1.5
    assert array.sum() == 1.5 * np.prod(shape)
    assert os.listdir(tmp_path) == []


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, before[1]))
    try:
        with pytest.raises(OSError, match="temporary file of 0.008 GB.*TMPDIR names another"):
            disk_array((1000, 1000), np.float64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []
