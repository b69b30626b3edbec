"""Killed writers, full disks, missing permissions, damaged and hostile files.

Two promises: after a failed write the old file is as it was, and a file that is not exactly what
was written raises `ModelFileError`, never anything else and never a wrong result.
"""

import errno
import itertools
import json
import multiprocessing
import os
import pickle
import random
import re
import resource
import subprocess
import tempfile
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from softbins._core import files
from softbins._core import model_file as storage
from tests.core.test_model_file import TENSORS, exactly

HEADER = {"target": "hl", "bins": [0.0, 0.5, 1.0], "deep": {"yes": True, "none": None}}
SMALL = {
    # Two of the same size and two of the same kind: their places, names or kinds can be swapped.
    "a": torch.tensor([1.5, -2.0], dtype=torch.float64),
    "b": torch.tensor([1, 2]),
    "c": torch.tensor([True, False]),
    "d": torch.tensor([3, 4]),
}


def content(header, tensors):
    """The bytes of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        storage.write(Path(folder, "m"), header, tensors)
        return Path(folder, "m").read_bytes()


ORIGINAL = content(HEADER, SMALL)
EXPECTED = exactly(HEADER, SMALL)


def strays(folder):
    return [name for name in os.listdir(folder) if name.startswith(".softbins-")]


# -- writing fails: the old file stays as it was


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    # Only SIGKILL leaves no chance to clean up. What it may cost is one stray file each time.
    moments = random.Random(0)
    path, last = tmp_path / "m", 0
    storage.write(path, *numbered(last))
    for kills in range(1, 13):
        kill_while_writing(path, after=moments.uniform(0.0, 0.03))
        header, tensors = storage.read(path)
        assert exactly(header, tensors) == exactly(*numbered(header["number"]))
        assert header["number"] > last, "the writer did write"
        last = header["number"]
        assert len(strays(tmp_path)) <= kills
    assert set(os.listdir(tmp_path)) == {"m", *strays(tmp_path)}


def numbered(number):
    """A model all of whose parts say which one it is, large enough to be caught half-written."""
    return {"number": number}, {"a": torch.full((200_000,), number), "b": torch.tensor(number)}


def keep_writing(path, started):
    for number in itertools.count(storage.read(path)[0]["number"] + 1):
        storage.write(path, *numbered(number))
        started.set()


def kill_while_writing(path, after):
    # The fork server has imported torch once for all writers.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["softbins._core.model_file", __name__])
    started = context.Event()
    writer = context.Process(target=keep_writing, args=(path, started))
    writer.start()
    assert started.wait(60)
    time.sleep(after)
    writer.kill()
    writer.join()
    assert writer.exitcode == -9


class UnpluggedError(Exception):
    """Something that no one expects."""


STEPS = ["open", "os.chmod", "os.fsync", "os.replace"]


@pytest.mark.parametrize(
    "fault", [OSError(errno.EIO, "disk"), KeyboardInterrupt(), UnpluggedError()]
)
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_leaves_the_old_file_and_nothing_else(
    step, fault, tmp_path, monkeypatch
):
    path = tmp_path / "m"
    path.write_bytes(ORIGINAL)

    def fail(*args, **kwargs):
        raise fault

    owner, name = (files.os, step.removeprefix("os.")) if "." in step else (files, step)
    monkeypatch.setattr(owner, name, fail, raising=False)
    with pytest.raises(type(fault)):
        storage.write(path, {}, {})
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m"]
    assert path.read_bytes() == ORIGINAL


def test_a_folder_that_cannot_be_synced_is_no_failed_write(tmp_path, monkeypatch):
    # By then the new file is in place; some file systems refuse to sync folders.
    real = os.fsync

    def refuse_folders(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "not for folders")
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", refuse_folders)
    storage.write(tmp_path / "m", HEADER, SMALL)
    assert exactly(*storage.read(tmp_path / "m")) == EXPECTED


@contextmanager
def tiny_disk(folder):
    """A real file system of 64 kB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root's powers")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def small_files(folder):
    """The kernel's limit on the size of a file, which anyone may set."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FULL = {"tmpfs": (tiny_disk, errno.ENOSPC), "rlimit": (small_files, errno.EFBIG)}


@pytest.mark.parametrize(("full", "number"), FULL.values(), ids=FULL.keys())
def test_a_full_disk_keeps_the_old_file_and_says_what_to_do(full, number, tmp_path):
    with full(tmp_path):
        path = tmp_path / "m"
        storage.write(path, HEADER, SMALL)
        with pytest.raises(OSError, match="nothing was changed; free some space") as caught:
            storage.write(path, {}, {"w": torch.zeros(100_000)})
        assert caught.value.errno == number
        assert str(path) in str(caught.value)
        assert os.listdir(tmp_path) == ["m"]
        assert path.read_bytes() == ORIGINAL
        storage.write(path, {"fits": "again"}, {})
        assert storage.read(path)[0] == {"fits": "again"}


@contextmanager
def without_root():
    """Root ignores permissions. Until the end of this block, be somebody else."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except OSError:
        pytest.skip("root, whom permissions do not bind, cannot become somebody else here")
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def own_folder():
    """A folder that anybody can reach, unlike pytest's own, and that belongs to nobody special."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        with without_root():
            own = Path(folder, "own")
            own.mkdir()
            (own / "m").write_bytes(ORIGINAL)
            yield own
            own.chmod(0o700)


@pytest.mark.parametrize("name", ["m", "new"])
def test_an_unwritable_folder(name, own_folder):
    own_folder.chmod(0o555)
    with pytest.raises(PermissionError, match="nothing was changed; choose a place you may write"):
        storage.write(own_folder / name, {}, {})
    assert os.listdir(own_folder) == ["m"]
    assert (own_folder / "m").read_bytes() == ORIGINAL


def test_a_write_protected_file_is_respected(own_folder):
    # Replacing a file needs rights on its folder only; who protects a file means the file.
    (own_folder / "m").chmod(0o444)
    with pytest.raises(PermissionError, match=re.escape(str(own_folder / "m"))):
        storage.write(own_folder / "m", {}, {})
    assert os.listdir(own_folder) == ["m"]
    assert (own_folder / "m").read_bytes() == ORIGINAL


def test_an_unreadable_file(own_folder):
    (own_folder / "m").chmod(0o000)
    with pytest.raises(PermissionError, match="cannot read .*; change its permissions.*/m'"):
        storage.read(own_folder / "m")


# What stands in the way, how it is made, and the error of reading and writing there.
OBSTACLES = {
    "missing folder": (lambda p: p / "no" / "m", FileNotFoundError, "create the folder first"),
    "folder": (lambda p: p.mkdir() or p, IsADirectoryError, "give the name of a file in it"),
    "slash": (lambda p: p.mkdir() or f"{p}/", IsADirectoryError, "give the name of a file in it"),
    "file as folder": (lambda p: p.touch() or p / "m", NotADirectoryError, "choose another folder"),
    # Stands for devices too: root, writing to /dev/null, must not make a file of it.
    "pipe": (lambda p: os.mkfifo(p) or p, OSError, "it is a pipe, socket or device"),
    "link in a circle": (lambda p: p.symlink_to(p) or p, OSError, "choose another one"),
    "long name": (lambda p: p.with_name("x" * 256), OSError, "choose another one"),
}


@pytest.mark.parametrize(("make", "kind", "advice"), OBSTACLES.values(), ids=OBSTACLES.keys())
def test_where_no_file_can_be_the_error_names_the_path_and_the_way_out(
    make, kind, advice, tmp_path
):
    path = make(tmp_path / "place")
    before = sorted(os.walk(tmp_path))
    with pytest.raises(kind, match=advice) as caught:
        storage.write(path, {}, {})
    assert repr(str(path)) in str(caught.value)
    with pytest.raises(kind, match="cannot read") as caught:
        storage.read(path)
    assert repr(str(path)) in str(caught.value)
    assert sorted(os.walk(tmp_path)) == before


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot read .*check the path.*/none'"):
        storage.read(tmp_path / "none")


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    path = tmp_path / "m"

    def write_some(first):
        for number in range(first, first + 10):
            storage.write(path, *numbered(number))

    writers = [threading.Thread(target=write_some, args=(10 * i,)) for i in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            header, tensors = storage.read(path)
            assert exactly(header, tensors) == exactly(*numbered(header["number"]))
    assert os.listdir(tmp_path) == ["m"]
    assert storage.read(path)[0]["number"] % 10 == 9, "the last of one of the writers"


# -- reading what was not written so


def place_new(path, data):
    # Some file systems wait for the disk when a file is emptied and filled again.
    path.unlink(missing_ok=True)
    path.write_bytes(data)


@pytest.fixture
def expect_refused(tmp_path):
    """Put bytes into a file, and see that reading it is refused, in one line with the path."""

    def check(data, match=None):
        path = tmp_path / "m"
        place_new(path, data)
        with pytest.raises(storage.ModelFileError, match=match) as caught:
            storage.read(path)
        line = str(caught.value)
        with pytest.raises(storage.ModelFileError, match=re.escape(line)):
            storage.read_stored(path)
        assert line.startswith(f"{path}: ")
        assert len(line.splitlines()) == 1
        assert len(line) < len(str(path)) + 250
        return line

    return check


def refused_or_equal(path, data):
    """Whether reading refuses these bytes; if not, the result must be that of the original."""
    place_new(path, data)
    try:
        found = storage.read(path)
    except storage.ModelFileError:
        return True
    assert exactly(*found) == EXPECTED
    return False


def test_a_file_cut_at_any_length_is_refused(expect_refused):
    for length in range(len(ORIGINAL)):
        expect_refused(ORIGINAL[:length])


def test_a_file_with_something_behind_it_is_refused(expect_refused):
    for more in (b"\0", b" ", b"\n", ORIGINAL):
        expect_refused(ORIGINAL + more, "damaged or changed")


def test_a_change_of_any_bit_at_any_place_is_noticed(tmp_path):
    # All but those that mean nothing: the padding of safetensors' header may be any white space.
    changes = [1 << bit for bit in range(8)] + [0xFF]
    for place in range(len(ORIGINAL)):
        for change in changes:
            data = bytearray(ORIGINAL)
            data[place] ^= change
            assert refused_or_equal(tmp_path / "m", data) or bytes([data[place]]).isspace()


def test_a_change_of_any_byte_of_the_values_is_refused_as_damage(expect_refused):
    start = 8 + int.from_bytes(ORIGINAL[:8], "little")
    assert len(ORIGINAL) - start == 16 + 16 + 2 + 16
    for place in range(start, len(ORIGINAL)):
        for value in set(range(0, 256, 5)) - {ORIGINAL[place]}:
            expect_refused(ORIGINAL[:place] + bytes([value]) + ORIGINAL[place + 1 :], "digest")


places = st.integers(0, len(ORIGINAL))
edits = st.lists(st.tuples(places, places, st.binary(max_size=8)), min_size=1, max_size=4)


@given(edits)
def test_any_edit_is_refused_or_without_effect(edits):
    data = ORIGINAL
    for start, stop, new in edits:
        data = data[:start] + new + data[stop if start <= stop <= start + 16 else start :]
    with tempfile.TemporaryDirectory() as folder:
        assert refused_or_equal(Path(folder, "m"), data) or len(data) == len(ORIGINAL)


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_are_refused(data, as_header):
    # Also where the length of safetensors' header is right, so that its parser is reached.
    data = len(data).to_bytes(8, "little") + data if as_header else data
    with tempfile.TemporaryDirectory() as folder:
        assert refused_or_equal(Path(folder, "m"), data)


def safetensors_file(preamble, values=b""):
    text = preamble if isinstance(preamble, bytes) else json.dumps(preamble).encode()
    return len(text).to_bytes(8, "little") + text + values


def entry(envelope):
    return {"__metadata__": {"softbins": envelope}}


def torch_file(path):
    torch.save({"w": torch.ones(2)}, path)
    return path.read_bytes()


def zip_file(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("m", ORIGINAL)
    return path.read_bytes()


FOREIGN = {
    "empty": lambda p: b"",
    "text": lambda p: b"epoch,loss\n1,0.5\n",
    "json": lambda p: json.dumps(HEADER).encode(),
    "zeros": lambda p: bytes(1000),
    "pickle": lambda p: pickle.dumps(SMALL),
    "torch.save": torch_file,
    "zip of a model": zip_file,
    "safetensors": lambda p: safetensors.torch.save(SMALL),
    "safetensors of others": lambda p: safetensors.torch.save(SMALL, {"format": "pt"}),
    "entry that is no JSON": lambda p: safetensors_file(entry("hello")),
    "entry that is no text": lambda p: safetensors_file(entry({"version": 1})),
    "entry that is a list": lambda p: safetensors_file(entry("[1]")),
    "metadata that is a list": lambda p: safetensors_file({"__metadata__": ["softbins"]}),
    "header that is a list": lambda p: safetensors_file(["__metadata__"]),
    "header that is a number": lambda p: safetensors_file(3),
    "header in another encoding": lambda p: safetensors_file('{"ä": 1}'.encode("latin1")),
    "brackets without end": lambda p: safetensors_file(b"[" * 1_000_000),
    "brackets without end inside": lambda p: safetensors_file(entry("[" * 1_000_000)),
    "integer without end": lambda p: safetensors_file(entry('{"version":' + "1" * 10_000 + "}")),
    "a claim of 2^64 - 1 bytes of header": lambda p: b"\xff" * 8 + ORIGINAL[8:],
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_are_called_what_they_are(make, expect_refused, tmp_path):
    expect_refused(make(tmp_path / "made"), "not a softbins model file")


def pickled(bomb, path, protocol):
    path.write_bytes(pickle.dumps(bomb, protocol))


def saved_by_torch(bomb, path, protocol):
    torch.save(bomb, path, pickle_protocol=protocol)


WEAPONS = [(pickled, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
WEAPONS += [(saved_by_torch, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]


@pytest.mark.parametrize(("save", "protocol"), WEAPONS)
def test_nothing_in_a_file_is_executed(save, protocol, expect_refused, tmp_path):
    mark, path = tmp_path / "executed", tmp_path / "bomb"
    save(Bomb(mark), path, protocol)
    expect_refused(path.read_bytes(), "not a softbins model file")
    assert not mark.exists()
    # The bomb is a real one: who does trust the file makes the folder.
    pickle.loads(path.read_bytes()) if save is pickled else torch.load(path, weights_only=False)
    assert mark.exists()


class Bomb:
    """An object whose unpickling makes a folder."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def forged(header=HEADER, version=1, tensors=None, digest=None, values=b""):
    """A file by somebody who knows the format."""
    digest = digest or storage.digest_of(header if isinstance(header, dict) else {}, {})
    envelope = {"version": version, "header": header, "sha256": digest}
    return safetensors_file({**entry(json.dumps(envelope)), **(tensors or {})}, values)


@pytest.mark.parametrize("version", [2, 3, 10**6])
def test_a_newer_file_asks_for_an_upgrade(version, expect_refused):
    # Before anything else of it is looked at: a new format may change all the rest.
    message = rf"newer softbins \(format {version}, this one reads up to 1\); upgrade"
    expect_refused(forged(version=version), message)
    expect_refused(forged(version=version, header=None, digest="other"), message)
    expect_refused(safetensors_file(entry(json.dumps({"version": version}))), message)


@pytest.mark.parametrize("version", [0, -1, "1", "2", 1.0, True, None, [1]])
def test_a_version_that_never_was_is_refused(version, expect_refused):
    expect_refused(forged(version=version), "damaged.*version")


def tensor(shape, offsets, dtype="F32"):
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


FORGED = {
    "no header": {"header": None, "digest": "0"},
    "header that is a list": {"header": [1]},
    "digest of something else": {"digest": "0" * 64},
    "digest that is no text": {"digest": [0]},
    "NaN": {"header": {"x": float("nan")}, "digest": "0"},
    "infinity by overflow": {"header": {"x": 10**309}, "digest": "0"},
    "a tensor more": {"tensors": tensor([1], [0, 4]), "values": bytes(4)},
    "a tensor of nothing more": {"tensors": tensor([0], [0, 0])},
    "kind that torch lacks": {"tensors": tensor([1], [0, 1], "F8_E8M0"), "values": b"0"},
    "kind that nobody has": {"tensors": tensor([1], [0, 1], "F3"), "values": b"0"},
    "negative shape": {"tensors": tensor([-1], [0, 4]), "values": bytes(4)},
    "offsets backwards": {"tensors": tensor([1], [4, 0]), "values": bytes(4)},
    "values that no tensor has": {"values": bytes(4)},
    "terabytes": {"tensors": tensor([2**40], [0, 2**42])},
    "terabytes in four bytes": {"tensors": tensor([2**40], [0, 4]), "values": bytes(4)},
    "more than can be counted": {"tensors": tensor([2**32, 2**32], [0, 4]), "values": bytes(4)},
    "nothing, but wide": {"tensors": tensor([0, 2**62, 8], [0, 0])},
    "nothing, but wider": {"tensors": tensor([0, 2**63], [0, 0])},
}


@pytest.mark.parametrize("lie", FORGED.values(), ids=FORGED.keys())
def test_a_lying_header_is_refused_without_believing_its_sizes(lie, expect_refused):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expect_refused(forged(**lie), "damaged or changed")
    # In kB. The peak so far hides less than this, the lies are of terabytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_an_honest_forgery_is_read_because_a_digest_is_no_signature(tmp_path):
    # The control of the test above: `forged` itself is right, so that only the lies are refused.
    (tmp_path / "m").write_bytes(forged())
    assert storage.read(tmp_path / "m") == (HEADER, {})


def test_a_large_foreign_file_is_refused_without_reading_it(tmp_path):
    # A terabyte of nothing: to read it all would end this process.
    preamble = safetensors_file({"w": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 1]}})
    (tmp_path / "m").write_bytes(preamble)
    os.truncate(tmp_path / "m", 2**40)
    with pytest.raises(storage.ModelFileError, match="not a softbins model file"):
        storage.read(tmp_path / "m")


def test_running_out_of_memory_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(ORIGINAL)

    def exhausted(data):
        raise MemoryError

    monkeypatch.setattr(storage.safetensors, "deserialize", exhausted)
    with pytest.raises(MemoryError):
        storage.read(tmp_path / "m")


@pytest.mark.parametrize("tensors", TENSORS.values(), ids=TENSORS.keys())
def test_exchanged_renamed_or_retyped_tensors_are_noticed(tensors, expect_refused):
    whole = content(HEADER, tensors)
    length = int.from_bytes(whole[:8], "little")
    preamble, values = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    names = [name for name in preamble if name != "__metadata__"]
    for name in names:
        others = {key: value for key, value in preamble.items() if key != name}
        expect_refused(safetensors_file({**others, f"{name}x": preamble[name]}, values), "digest")
    for one, other in itertools.pairwise(names):
        swapped = {**preamble, one: preamble[other], other: preamble[one]}
        if exactly({}, {"w": tensors[one]}) != exactly({}, {"w": tensors[other]}):
            expect_refused(safetensors_file(swapped, values), "digest")
    added = {**preamble, "more": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}
    expect_refused(safetensors_file(added, values), "digest")
