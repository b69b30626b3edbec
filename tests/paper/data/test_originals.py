"""The originals from files at hand: what is taken, what is refused, what is left behind."""

import dataclasses
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from softbins.paper.data.download import UCI_ADDRESS
from softbins.paper.data.originals import default_folder, fetch_original, read_original
from softbins.paper.data.specifications import CT, SONG, SPECIFICATIONS
from tests.paper.data.small_originals import (
    BOTH,
    CHECKS,
    HTML,
    SMALL_CT,
    SMALL_SONG,
    archive,
    changed,
    check_ct,
    content,
    csv_bytes,
    ct_rows,
    files_in,
    zipped,
)

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "softbins[paper]"')
pq = pytest.importorskip("pyarrow.parquet", reason='needs pyarrow: pip install "softbins[paper]"')

# Some people have samples of the originals in a folder beside the project's.
SHARED = Path(__file__).parents[4] / "shared" / "data"
CT_SAMPLE = SHARED / "ct" / "slice_localization_data.first682.csv"
CT_TARGET = SHARED / "ct" / "reference_53500.npy.gz"
SONG_SAMPLE = SHARED / "song" / "YearPredictionMSD.first1176.txt"
needs_samples = pytest.mark.skipif(
    not CT_SAMPLE.is_file(), reason=f"no samples of the originals in {SHARED}"
)


# What is known


def test_the_specifications_are_the_paper_s_datasets():
    assert list(SPECIFICATIONS) == ["ct", "song"]
    assert (len(CT.features), len(SONG.features)) == (384, 90)
    assert (len(CT.columns), len(SONG.columns)) == (386, 91)
    assert (CT.features[0], CT.features[-1]) == ("value0", "value383")
    assert SONG.features[11:13] == ["timbre_avg_12", "timbre_cov_1"]
    assert SONG.features[-1] == "timbre_cov_78"
    assert UCI_ADDRESS == "https://archive.ics.uci.edu/static/public/"
    assert CT.address == "206/relative+location+of+ct+slices+on+axial+axis.zip"
    assert SONG.address == "203/yearpredictionmsd.zip"


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^name: no original 'bike'; choose from ct, song$"):
        fetch_original("bike", tmp_path)
    with pytest.raises(ValueError, match="no original 'CT'"):
        read_original("CT", tmp_path)


def test_the_default_folder_is_the_cache_unless_the_environment_names_one(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTBINS_DATA", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv("SOFTBINS_DATA", "~/data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / "data"
    monkeypatch.delenv("SOFTBINS_DATA")
    assert default_folder().name == "softbins"


# What is taken


SOURCES = [
    ("a.zip", archive),
    ("in a folder.ZIP", lambda spec: zipped(content(spec), spec.member, "data/YP/")),
    ("a.zip.gz", lambda spec: gzip.compress(archive(spec))),
    ("a.csv", content),
    ("a.txt", content),
    ("a.csv.gz", lambda spec: gzip.compress(content(spec))),
    ("a.txt.gz", lambda spec: gzip.compress(content(spec))),
    ("no last line end.csv", lambda spec: content(spec).rstrip()),
    ("other line ends.csv", lambda spec: content(spec).replace(b"\r\n", b"\n")),
    ("blank line at the end.csv", lambda spec: content(spec) + b"\n"),
]


@BOTH
@pytest.mark.parametrize(("name", "make"), SOURCES, ids=[name for name, _ in SOURCES])
def test_a_file_at_hand_is_taken_and_left_alone(tmp_path, spec, name, make):
    source = tmp_path / name
    data = make(spec)
    source.write_bytes(data)
    fetch_original(spec, tmp_path / "data", source, base="http://127.0.0.1:1/")
    CHECKS[spec.name](read_original(spec, tmp_path / "data"), name)
    assert files_in(tmp_path / "data") == [f"{spec.name}.json", f"{spec.name}.parquet"]
    assert source.read_bytes() == data


# What is refused


def without_column():
    lines = content(SMALL_CT).decode().split("\r\n")
    return "\r\n".join(line.rpartition(",")[0] for line in lines[:-1]).encode()


ONE_ROW_LESS = (
    "rows: expected 40, got 39; "
    "column reference: largest value expected 40.738733, got 39.738733; "
    "column reference: mean expected 21.239, got 20.738733"
)
EMPTY = "empty or not finite in 1 rows, first row"
RANGE = "values expected within -0.25 .. 1.0"
NO_FLOAT = (
    "cannot be parsed (In CSV column #2: Row #3: CSV conversion error to float: invalid value"
)
NO_INTEGER = NO_FLOAT.replace("#2: Row #3", "#0: Row #2").replace("float", "int64")
ONE_CELL = "expected 3 cells, got 1"

# The content of a file, and all that is said to differ.
DIFFERENT_CT = {
    "last row gone": (csv_bytes(ct_rows()[:-1], SMALL_CT), ONE_ROW_LESS),
    "cut in the last row": (
        content(SMALL_CT)[:-13],
        f"{ONE_ROW_LESS}; line 41: expected 4 cells, got 3",
    ),
    "no rows": (csv_bytes([], SMALL_CT), "rows: expected 40, got 0"),
    "NaN": (changed(6, 2, "NaN"), f"column value1: {EMPTY} 7"),
    "patient unknown": (changed(3, 0, ""), f"column patientId: {EMPTY} 4"),
    "too large": (changed(2, 1, 1.5), f"column value0: {RANGE}, got 1.5 in row 3"),
    "too small": (changed(39, 2, -0.26), f"column value1: {RANGE}, got -0.2599999905 in row 40"),
    "last digit of the smallest target": (
        changed(0, 3, 1.738734),
        "column reference: smallest value expected 1.738733, got 1.738734",
    ),
    "target within the range": (
        changed(5, 3, 7),
        "column reference: mean expected 21.239, got 21.24526468",
    ),
    "a word": (changed(1, 2, "air"), f"{NO_FLOAT} 'air')"),
    "an open quotation mark": (changed(1, 2, '"0'), f"{NO_FLOAT} '\"0')"),
    "a column gone": (
        without_column(),
        "columns: expected 4, got 3, column 4 should be reference, is nothing",
    ),
    "no header": (
        content(SMALL_CT).partition(b"\r\n")[2],
        "rows: expected 40, got 39; columns: expected 4, got 4, column 1 should be patientId, is 0",
    ),
    "a page instead": (
        HTML,
        "rows: expected 40, got 2; columns: expected 4, got 1, column 1 should be patientId, "
        "is <!DOCTYPE html>; line 3: expected 1 cells, got 2",
    ),
}
DIFFERENT_SONG = {
    "a row too many": (content(SMALL_SONG) + b"2000,1,2\n", "rows: expected 90, got 91"),
    "empty cell": (changed(89, 1, "", SMALL_SONG), f"column timbre_avg_1: {EMPTY} 90"),
    "infinity": (changed(0, 2, "inf", SMALL_SONG), f"column timbre_cov_1: {EMPTY} 1"),
    "year unknown": (changed(4, 0, "", SMALL_SONG), f"column year: {EMPTY} 5"),
    "no year known": (
        csv_bytes([["", 1, 2]] * 90, SMALL_SONG),
        "column year: empty or not finite in 90 rows, first row 1",
    ),
    "year too early": (
        changed(50, 0, 1921, SMALL_SONG),
        "column year: smallest value expected 1922, got 1921",
    ),
    "half a year": (changed(1, 0, "2010.5", SMALL_SONG), f"{NO_INTEGER} '2010.5')"),
    "nothing": (b"", "cannot be parsed (Empty CSV file)"),
    "a page instead": (
        HTML.replace(b",", b""),
        "; ".join(["rows: expected 90, got 0", *(f"line {i}: {ONE_CELL}" for i in range(1, 5))]),
    ),
    "everything at once": (
        csv_bytes([[1, 2, "nan"]] * 3, SMALL_SONG) + b"1\n" * 9,
        "rows: expected 90, got 3; column year: smallest value expected 1922, got 1; "
        "column year: largest value expected 2011, got 1; "
        "column timbre_cov_1: empty or not finite in 3 rows, first row 1; "
        f"line 4: {ONE_CELL}; line 5: {ONE_CELL}; line 6: {ONE_CELL}; line 7: {ONE_CELL}; "
        "and 5 more",
    ),
}
DIFFERENT = [(SMALL_CT, *case) for case in DIFFERENT_CT.values()]
DIFFERENT += [(SMALL_SONG, *case) for case in DIFFERENT_SONG.values()]
DIFFERENT_IDS = [f"ct, {name}" for name in DIFFERENT_CT]
DIFFERENT_IDS += [f"song, {name}" for name in DIFFERENT_SONG]


@pytest.mark.parametrize(("spec", "data", "differences"), DIFFERENT, ids=DIFFERENT_IDS)
def test_a_file_that_is_not_the_original_is_refused_with_all_that_differs(
    tmp_path, spec, data, differences
):
    source = tmp_path / "a.csv"
    source.write_bytes(data)
    with pytest.raises(ValueError, match="not the original") as caught:
        fetch_original(spec, tmp_path / "data", source)
    assert str(caught.value) == (
        f"{source}: not the original {spec.member}: {differences}; "
        f"get it again from {UCI_ADDRESS}{spec.address}"
    )
    assert files_in(tmp_path) == ["a.csv"]


# Parquet files that are not as they should be


def test_reading_what_was_never_fetched_names_the_command(tmp_path):
    folder = tmp_path / "my data"
    with pytest.raises(ValueError, match=r"ct\.parquet: no such file") as caught:
        read_original("ct", folder)
    assert f"`softbins paper fetch ct --data '{folder}'`" in str(caught.value)


def other_columns(path):
    pq.write_table(pq.read_table(path).drop_columns(["value1"]), path)


def fewer_rows(path):
    pq.write_table(pq.read_table(path).slice(1), path)


STORED = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "damaged ("),
    "empty": (lambda path: path.write_bytes(b""), "damaged ("),
    "other columns": (other_columns, "not the columns of slice_localization_data.csv"),
    "fewer rows": (fewer_rows, "rows: expected 40, got 39; column reference: smallest value"),
}


@pytest.mark.parametrize("case", STORED)
def test_a_damaged_parquet_file_is_refused_by_read_and_replaced_by_fetch(tmp_path, case):
    damage, said = STORED[case]
    (tmp_path / "a.csv").write_bytes(content(SMALL_CT))
    path = fetch_original(SMALL_CT, tmp_path / "data", tmp_path / "a.csv")
    damage(path)
    with pytest.raises(ValueError, match="softbins paper fetch ct") as caught:
        read_original(SMALL_CT, tmp_path / "data")
    assert str(caught.value).startswith(f"{path}: {said}")
    assert fetch_original(SMALL_CT, tmp_path / "data", tmp_path / "a.csv") == path
    check_ct(read_original(SMALL_CT, tmp_path / "data"), "a.csv")


def test_a_changed_bit_of_a_value_is_refused_by_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(content(SMALL_CT))
    path = fetch_original(SMALL_CT, tmp_path, tmp_path / "a.csv")
    target = pq.read_metadata(path).row_group(0).column(3)
    data = bytearray(path.read_bytes())
    data[target.data_page_offset - 10] ^= 1  # in the dictionary of its values
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"damaged \(.*CRC.*\); repeat `softbins paper fetch ct"):
        read_original(SMALL_CT, tmp_path)


def test_a_changed_value_in_the_parquet_file_is_refused_by_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(content(SMALL_CT))
    path = fetch_original(SMALL_CT, tmp_path, tmp_path / "a.csv")
    table = pq.read_table(path)
    values = table["value0"].to_pylist()
    table = table.set_column(1, table.schema.field(1), pa.array([2.0, *values[1:]], "float32"))
    pq.write_table(table, path)
    with pytest.raises(ValueError, match=r"column value0: values expected .* got 2 in row 1; rem"):
        read_original(SMALL_CT, tmp_path)


# Real samples


CUT = {
    "ct": (
        CT_SAMPLE,
        "rows: expected 53500, got 682; "
        "column reference: smallest value expected 1.738733, got 5.935522; "
        "column reference: largest value expected 97.489115, got 39.764708; "
        "column reference: mean expected 47.028, got 22.57353446; get it again from",
    ),
    "song": (
        SONG_SAMPLE,
        "rows: expected 515345, got 1176; column year: smallest value expected 1922, got 1930; "
        "column year: largest value expected 2011, got 2010; get it again from",
    ),
}


@needs_samples
@pytest.mark.parametrize("name", CUT)
def test_the_first_rows_of_a_real_file_are_refused_as_cut(tmp_path, name):
    sample, differences = CUT[name]
    with pytest.raises(ValueError, match="not the original") as caught:
        fetch_original(name, tmp_path, sample)
    assert f"{SPECIFICATIONS[name].member}: {differences}" in str(caught.value)
    assert files_in(tmp_path) == []


@needs_samples
def test_the_first_rows_of_the_real_ct_file_are_parsed_right(tmp_path):
    spec = dataclasses.replace(
        CT, n_rows=682, target_range=(5.935522, 39.764708), target_mean=22.5735
    )
    fetch_original(spec, tmp_path, CT_SAMPLE)
    original, expected = (
        read_original(spec, tmp_path),
        np.loadtxt(CT_SAMPLE, delimiter=",", skiprows=1),
    )
    np.testing.assert_array_equal(original.X, expected[:, 1:-1].astype(np.float32))
    np.testing.assert_array_equal(original.y, expected[:, -1])
    np.testing.assert_array_equal(original.groups, expected[:, 0])
    assert set(original.groups.tolist()) == {0, 1}


@needs_samples
def test_the_first_rows_of_the_real_song_file_are_parsed_right(tmp_path):
    spec = dataclasses.replace(SONG, n_rows=1176, target_range=(1930, 2010))
    fetch_original(spec, tmp_path, SONG_SAMPLE)
    original, expected = read_original(spec, tmp_path), np.loadtxt(SONG_SAMPLE, delimiter=",")
    np.testing.assert_array_equal(original.X, expected[:, 1:].astype(np.float32))
    np.testing.assert_array_equal(original.y, expected[:, 0])


@needs_samples
@pytest.mark.slow
def test_a_file_of_the_full_size_with_the_real_targets_passes(tmp_path):
    y = np.load(io.BytesIO(gzip.decompress(CT_TARGET.read_bytes())))
    header, *lines = CT_SAMPLE.read_text().splitlines()
    begins = [line.rpartition(",")[0] for line in lines]
    rows = [f"{begins[i % len(begins)]},{value}" for i, value in enumerate(y)]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    fetch_original("ct", tmp_path, tmp_path / "a.csv")
    original = read_original("ct", tmp_path)
    assert original.X.shape == (53_500, 384)
    np.testing.assert_array_equal(original.y, y)
