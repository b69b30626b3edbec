"""Small originals for tests: the real specifications with fewer columns and rows."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from softbins.paper.data.specifications import CT, SONG

SMALL_CT = dataclasses.replace(
    CT,
    columns=("patientId", "value0", "value1", "reference"),
    n_rows=40,
    target_range=(1.738733, 40.738733),
    target_mean=21.239,
)
SMALL_SONG = dataclasses.replace(
    SONG, columns=("year", "timbre_avg_1", "timbre_cov_1"), n_rows=90, target_range=(1922, 2011)
)
BOTH = pytest.mark.parametrize("spec", [SMALL_CT, SMALL_SONG], ids=["ct", "song"])


def ct_rows():
    return [[i // 10, i / 40, -0.25, round(1.738733 + i, 6)] for i in range(40)]


def song_rows():
    return [[2011 - i, f"{i - 50.12345:.5f}", f"{i * 100.00074:.5f}"] for i in range(90)]


def csv_bytes(rows, spec):
    """The file as the archive has it: CRLF and a header for CT, neither for Song."""
    lines = [",".join(map(str, row)) for row in ([spec.columns] if spec.header else []) + rows]
    end = "\r\n" if spec.header else "\n"
    return (end.join(lines) + end).encode()


def content(spec):
    return csv_bytes(ct_rows() if spec.name == "ct" else song_rows(), spec)


def zipped(data, name, folder=""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # ZipInfo, because its date is fixed: equal contents give equal archives.
        archive.writestr(zipfile.ZipInfo("readme.txt"), "about the data")
        archive.writestr(zipfile.ZipInfo(folder + name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def archive(spec):
    return zipped(content(spec), spec.member)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def changed(row, column, cell, spec=SMALL_CT):
    rows = ct_rows() if spec.name == "ct" else song_rows()
    rows[row][column] = cell
    return csv_bytes(rows, spec)


def check_ct(original, source):
    rows, X, y = ct_rows(), original.X, original.y
    assert (X.dtype, y.dtype, original.groups.dtype) == (np.float32, np.float64, np.int64)
    assert X.tolist() == [[np.float32(row[1]), -0.25] for row in rows]
    assert y.tolist() == [row[3] for row in rows], "every digit of the target"
    assert original.groups.tolist() == [row[0] for row in rows]
    assert original.feature_names == ["value0", "value1"]
    assert original.source == source


def check_song(original, source):
    rows = song_rows()
    assert (original.X.dtype, original.y.dtype) == (np.float32, np.float64)
    assert original.X.tolist() == [[np.float32(cell) for cell in row[1:]] for row in rows]
    assert original.y.tolist() == [row[0] for row in rows]
    assert original.groups is None
    assert original.feature_names == ["timbre_avg_1", "timbre_cov_1"]
    assert original.source == source


CHECKS = {"ct": check_ct, "song": check_song}


# What a busy server sends in place of a file.
HTML = b"<!DOCTYPE html>\n<html><body>\n<p>Too many requests, try again later\n</html>\n"
