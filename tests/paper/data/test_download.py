"""Archives, and downloads from a server on this machine: broken, changed later, on full disks."""

import dataclasses
import errno
import gc
import gzip
import hashlib
import json
import resource
import sys
import threading
import types
import warnings
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from softbins.paper.data.download import DOWNLOAD_RETRIES
from softbins.paper.data.originals import fetch_original, read_original
from softbins.paper.data.specifications import CT
from tests.paper.data.small_originals import (
    BOTH,
    CHECKS,
    HTML,
    SMALL_CT,
    archive,
    changed,
    check_ct,
    content,
    csv_bytes,
    ct_rows,
    files_in,
    zipped,
)

pytest.importorskip("pooch", reason='needs pooch: pip install "softbins[paper]"')
# pooch leaves a failed response open until the garbage is collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


# A server on this machine, which gives one answer after another and repeats the last.


@dataclasses.dataclass
class Answer:
    body: bytes
    status: int = 200
    cut: bool = False


@dataclasses.dataclass
class Server:
    base: str
    requests: list[str]


@contextmanager
def serving(*answers):
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers[min(len(requests), len(answers) - 1)]
            requests.append(self.path)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{server.server_port}/static/public/", requests)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True, scope="module")
def _no_open_sockets_for_other_tests():
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Without pooch's seconds of waiting before it tries again, and without proxies."""
    monkeypatch.setattr("pooch.core.time", types.SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


# What is taken


@BOTH
def test_a_download_becomes_a_parquet_file_and_a_second_call_asks_nobody(tmp_path, spec):
    folder = tmp_path / "new" / "a=1"
    with serving(Answer(archive(spec))) as server:
        path = fetch_original(spec, folder, base=server.base)
        assert fetch_original(spec, folder, base=server.base) == path
    assert server.requests == ["/static/public/" + spec.address]
    assert path == folder / f"{spec.name}.parquet"
    CHECKS[spec.name](read_original(spec, folder), server.base + spec.address)
    kept = f"downloads/{spec.address.partition('/')[2]}"
    assert files_in(folder) == sorted([f"{spec.name}.json", f"{spec.name}.parquet", kept])
    # Without a server, and still the same file.
    assert fetch_original(spec, folder, base=server.base) == path


@BOTH
def test_what_was_taken_is_remembered(tmp_path, spec):
    with serving(Answer(archive(spec))) as server:
        fetch_original(spec, tmp_path, base=server.base)
    record = json.loads((tmp_path / f"{spec.name}.json").read_text())
    when = record.pop("when")
    assert len(when) == 25
    assert when.endswith("+00:00")
    assert record == {
        "source": server.base + spec.address,
        "sha256": hashlib.sha256(archive(spec)).hexdigest(),
        "member": spec.member,
        "member_sha256": hashlib.sha256(content(spec)).hexdigest(),
        "rows": spec.n_rows,
    }


def test_a_progress_bar_is_shown_when_asked_for(tmp_path, capsys):
    pytest.importorskip("tqdm", reason="a progress bar needs tqdm")
    with serving(Answer(archive(SMALL_CT))) as server:
        fetch_original(SMALL_CT, tmp_path / "quiet", base=server.base)
        assert "%|" not in capsys.readouterr().err
        fetch_original(SMALL_CT, tmp_path / "loud", base=server.base, progress=True)
    assert "100%|" in capsys.readouterr().err


# What is refused


def damaged_zip():
    data = bytearray(archive(SMALL_CT))
    data[data.index(CT.member.encode()) + 100] ^= 1
    return bytes(data)


# A file's name and content, and what is said about it.
BROKEN = {
    "a page saved as zip": ("a.zip", HTML, "File is not a zip file); it begins with b'<!DOCTYPE"),
    "cut zip": ("a.zip", archive(SMALL_CT)[:-30], "File is not a zip file"),
    "empty zip": ("a.zip", b"", "File is not a zip file"),
    "changed byte": ("a.zip", damaged_zip(), "cannot be unpacked ("),
    "member missing": (
        "a.zip",
        zipped(b"1,2\n", "x.csv"),
        "no slice_localization_data.csv in it, only readme.txt, x.csv",
    ),
    "cut gzip": ("a.csv.gz", gzip.compress(content(SMALL_CT))[:-9], "cannot be unpacked ("),
    "no gzip": ("a.csv.gz", content(SMALL_CT), "Not a gzipped file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_cannot_be_unpacked_is_refused(tmp_path, case):
    name, data, said = BROKEN[case]
    source = tmp_path / name
    source.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be unpacked") as caught:
        fetch_original(SMALL_CT, tmp_path / "data", source)
    assert str(caught.value).startswith(f"{source}: cannot be unpacked (")
    assert said in str(caught.value)
    assert f"unpack {CT.member} yourself and name it with --from" in str(caught.value)
    assert files_in(tmp_path) == [name]


def test_a_missing_file_and_one_of_another_kind_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.zip"):
        fetch_original(SMALL_CT, tmp_path / "data", tmp_path / "missing.zip")
    with pytest.raises(ValueError, match=r"a\.xlsx: unknown kind of file; need \.zip, \.csv"):
        fetch_original(SMALL_CT, tmp_path / "data", tmp_path / "a.xlsx")
    assert files_in(tmp_path) == []


def test_a_refused_download_is_removed_and_a_repeat_downloads_anew(tmp_path):
    cut = zipped(csv_bytes(ct_rows()[:-1], SMALL_CT), CT.member)
    with serving(Answer(cut), Answer(archive(SMALL_CT))) as server:
        with pytest.raises(ValueError, match="rows: expected 40, got 39") as caught:
            fetch_original(SMALL_CT, tmp_path, base=server.base)
        assert f"downloaded from {server.base}{CT.address}; removed" in str(caught.value)
        assert files_in(tmp_path) == []
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert len(server.requests) == 2
    check_ct(read_original(SMALL_CT, tmp_path), server.base + CT.address)


@pytest.mark.parametrize("case", ["a page saved as zip", "cut zip", "member missing"])
def test_an_archive_that_cannot_be_unpacked_is_not_kept(tmp_path, case):
    with serving(Answer(BROKEN[case][1])) as server:
        for attempt in (1, 2):
            with pytest.raises(ValueError, match="cannot be unpacked"):
                fetch_original(SMALL_CT, tmp_path, base=server.base)
            assert len(server.requests) == attempt
    assert files_in(tmp_path) == []


def test_a_missing_library_is_named_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'^pooch is not installed: .*"softbins\[paper\]"$'):
        fetch_original(SMALL_CT, tmp_path)


# Later downloads


def another(spec=SMALL_CT):
    """A file that passes every check and is yet another one."""
    return changed(3, 1, 0.5, spec)


def test_a_later_download_that_differs_is_refused_until_the_note_is_removed(tmp_path):
    with serving(Answer(archive(SMALL_CT)), Answer(zipped(another(), CT.member))) as server:
        path = fetch_original(SMALL_CT, tmp_path, base=server.base)
        path.unlink()
        (tmp_path / "downloads" / CT.address.partition("/")[2]).unlink()
        with pytest.raises(ValueError, match="is not the one fetched before") as caught:
            fetch_original(SMALL_CT, tmp_path, base=server.base)
        for data in (content(SMALL_CT), another()):
            assert hashlib.sha256(data).hexdigest() in str(caught.value)
        assert f"to accept it, remove {tmp_path / 'ct.json'}" in str(caught.value)
        assert files_in(tmp_path) == ["ct.json"]
        (tmp_path / "ct.json").unlink()
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert read_original(SMALL_CT, tmp_path).X[3, 0] == 0.5


def test_the_same_data_packed_otherwise_are_taken_and_the_note_stays(tmp_path):
    sources = {"a.zip": archive(SMALL_CT), "b.csv": content(SMALL_CT)}
    for name, data in sources.items():
        (tmp_path / name).write_bytes(data)
    path = fetch_original(SMALL_CT, tmp_path, tmp_path / "a.zip")
    note = (tmp_path / "ct.json").read_bytes()
    path.unlink()
    fetch_original(SMALL_CT, tmp_path, tmp_path / "b.csv")
    assert (tmp_path / "ct.json").read_bytes() == note
    check_ct(read_original(SMALL_CT, tmp_path), "b.csv")


NOTES = {"cut": b'{"sha', "list": b"[]", "other": b'{"sha256": "0"}', "binary": b"\xff\xfe\0"}


@pytest.mark.parametrize("case", NOTES)
def test_a_broken_note_is_refused_before_anything_is_downloaded(tmp_path, case):
    (tmp_path / "ct.json").write_bytes(NOTES[case])
    with (
        serving(Answer(archive(SMALL_CT))) as server,
        pytest.raises(ValueError, match=r"ct\.json: .*; remove it$"),
    ):
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert server.requests == []


# Broken connections


@BOTH
def test_a_transfer_cut_halfway_is_repeated(tmp_path, spec):
    with serving(Answer(archive(spec), cut=True), Answer(archive(spec))) as server:
        fetch_original(spec, tmp_path, base=server.base)
    assert len(server.requests) == 2
    CHECKS[spec.name](read_original(spec, tmp_path), server.base + spec.address)


UNREACHABLE = {
    "always cut": Answer(archive(SMALL_CT), cut=True),
    "not found": Answer(b"gone", status=404),
    "busy": Answer(HTML, status=503),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_a_download_that_never_succeeds_says_where_from_and_the_way_out(tmp_path, case):
    with (
        serving(UNREACHABLE[case]) as server,
        pytest.raises(OSError, match="cannot be downloaded") as caught,
    ):
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert len(server.requests) == 1 + DOWNLOAD_RETRIES
    assert str(caught.value).startswith(f"{server.base}{CT.address}: cannot be downloaded (")
    assert "--from" in str(caught.value)
    assert files_in(tmp_path) == []


def test_nobody_listening_is_an_error_of_the_same_kind(tmp_path):
    with serving(Answer(b"")) as server:
        pass
    with pytest.raises(OSError, match="cannot be downloaded .* --from"):
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert files_in(tmp_path) == []


# Disks


@contextmanager
def files_no_longer_than(size):
    """Writing beyond fails as on a full disk, with another number."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_while_downloading_names_the_folder_and_leaves_nothing(tmp_path):
    noise = np.random.default_rng(0).bytes(100_000)
    with (
        serving(Answer(zipped(noise, CT.member))) as server,
        files_no_longer_than(50_000),
        pytest.raises(OSError, match=r"cannot be written .*free some space") as caught,
    ):
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert str(caught.value).startswith(str(tmp_path / "downloads"))
    assert len(server.requests) == 1
    assert files_in(tmp_path) == []


def test_a_full_disk_while_converting_names_the_file_and_leaves_the_download(tmp_path):
    with (
        serving(Answer(archive(SMALL_CT))) as server,
        files_no_longer_than(1500),
        pytest.raises(OSError, match="free some space") as caught,
    ):
        fetch_original(SMALL_CT, tmp_path, base=server.base)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(tmp_path / "ct.parquet")
    assert files_in(tmp_path) == [f"downloads/{CT.address.partition('/')[2]}"]


def test_no_parquet_file_stays_without_its_note(tmp_path, monkeypatch):
    def full(note, record):
        raise OSError(errno.ENOSPC, "No space left on device", str(note))

    monkeypatch.setattr("softbins.paper.data.originals.write_note", full)
    (tmp_path / "a.csv").write_bytes(content(SMALL_CT))
    with pytest.raises(OSError, match=r"No space left on device: .*ct\.json"):
        fetch_original(SMALL_CT, tmp_path, tmp_path / "a.csv")
    assert files_in(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("way", ["downloaded", "at hand"])
@pytest.mark.parametrize("place", ["file", "file/below", "/proc/softbins"])
def test_a_folder_that_cannot_be_is_an_os_error_with_its_path(tmp_path, way, place):
    # Root, too, can make no folder in a file and none in /proc.
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "a.csv").write_bytes(content(SMALL_CT))
    source = tmp_path / "a.csv" if way == "at hand" else None
    with (
        serving(Answer(archive(SMALL_CT))) as server,
        pytest.raises(OSError, match=r"Not a directory|No such file|denied") as caught,
    ):
        fetch_original(SMALL_CT, tmp_path / place, source, base=server.base)
    assert str(tmp_path / place) in str(caught.value)
    assert server.requests == []
