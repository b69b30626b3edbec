"""What is written is what is read: bit for bit, as one file, with sensible permissions."""

import ast
import hashlib
import inspect
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from softbins._core import model_file as storage

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
SHAPES = [(), (0,), (1,), (3, 0, 2), (2, 3), (2, 1, 3, 2)]


def every_bit_pattern(dtype, shape):
    """Random bytes, and so NaNs with payloads, infinities and denormals; 0 or 1 for bool."""
    size = torch.empty(shape, dtype=dtype).numel()
    width = torch.empty(0, dtype=dtype).element_size()
    patterns = torch.randint(0, 256, (size * width,), dtype=torch.uint8)
    patterns = patterns % 2 if dtype == torch.bool else patterns
    return patterns.view(dtype).reshape(shape)


def views():
    """Tensors whose memory is not simply their own values in order."""
    base = torch.arange(24.0).reshape(4, 6)
    complex_pair = torch.tensor([1 + 2j, 3 - 4j])
    return {
        "transposed": base.T,
        "every other column": base[:, ::2],
        "shares memory with the others": base,
        "row of it": base[1],
        "expanded": torch.tensor([1.5]).expand(5),
        "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        # A view whose sign exists only as a flag.
        "negated lazily": complex_pair.conj().imag,
        "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0])),
    }


def tensor_sets():
    torch.manual_seed(0)
    everything = {f"{d}{s}": every_bit_pattern(d, s) for d in DTYPES for s in SHAPES}
    special = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324]
    return {
        "no tensors": {},
        "every dtype and shape": everything,
        "views": views(),
        "special values": {"special": torch.tensor(special, dtype=torch.float64)},
        "odd names": {name: torch.ones(2) for name in ["", "a.b/c", " ", 'ä\n"\\\0', "😀", "é"]},
        "a state_dict": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        .state_dict()
        .copy(),
    }


HEADERS = {
    "empty": {},
    "leaves": {"text": "hl", "count": 100, "sigma": 0.1, "yes": True, "no": False, "none": None},
    "nested": {"bins": {"edges": [0.0, [1, [2.5, {}]], []]}, "a": [{"b": [None, "c"]}]},
    "floats": {"x": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 1 / 3, 1.0, 100.0]},
    "integers": {"x": [0, -1, 2**53 + 1, 2**64, -(2**200), 2**2048 - 1]},
    "text": {"": "", "ä": '😀 \u2028 \x00 \x7f \\ " \n', "__metadata__": "softbins", "</": "é"},
    "like an envelope": {"version": 99, "sha256": "0" * 64, "header": {}},
    "as deep as allowed": json.loads('{"a":' * 99 + "1" + "}" * 99),
    "long": {"x": "y" * 100_000, "z": list(range(10_000))},
}
TENSORS = tensor_sets()
MODELS = {
    **{f"tensors: {name}": ({"count": 3}, tensors) for name, tensors in TENSORS.items()},
    **{f"header: {name}": (header, {"w": torch.ones(2)}) for name, header in HEADERS.items()},
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request):
    return request.param


def bits(tensor):
    """The values as bytes: NaN equals itself, and -0.0 differs from 0.0."""
    # Via numpy, not the way of storage.py, except that numpy has no bfloat16.
    tensor = tensor.detach().resolve_neg()
    tensor = tensor.contiguous().view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    return tensor.numpy().tobytes()


def exactly(header, tensors):
    """Something that is equal only for the same types, order, shapes and bits."""
    described = {n: (t.dtype, tuple(t.shape), bits(t)) for n, t in tensors.items()}
    # repr tells 1 from 1.0 and True, and -0.0 from 0.0.
    return repr(json.loads(json.dumps(header, sort_keys=True))), sorted(described.items())


# -- what every model promises


def test_what_was_written_is_read_bit_for_bit(model, tmp_path):
    storage.write(tmp_path / "m", *model)
    header, tensors = storage.read(tmp_path / "m")
    assert header == model[0]
    assert exactly(header, tensors) == exactly(*model)


def test_tensors_come_back_dense_on_the_cpu_without_gradient_and_by_sorted_name(model, tmp_path):
    storage.write(tmp_path / "m", *model)
    tensors = storage.read(tmp_path / "m")[1]
    assert list(tensors) == sorted(model[1])
    for tensor in tensors.values():
        assert tensor.is_contiguous()
        assert tensor.device.type == "cpu"
        assert not tensor.requires_grad


def test_writing_leaves_the_arguments_alone(model, tmp_path):
    before = exactly(*model), list(model[1]), repr(model[0])
    storage.write(tmp_path / "m", *model)
    assert (exactly(*model), list(model[1]), repr(model[0])) == before


def test_equal_models_give_equal_files_whatever_the_order(model, tmp_path):
    header, tensors = model
    storage.write(tmp_path / "a", header, tensors)
    reverse = [dict(reversed(part.items())) for part in model]
    storage.write(tmp_path / "b", *reverse)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_plain_safetensors_for_any_other_reader(model, tmp_path):
    storage.write(tmp_path / "m", *model)
    with safetensors.safe_open(tmp_path / "m", "pt") as file:
        assert list(file.metadata()) == [storage.MAGIC]
        envelope = json.loads(file.metadata()[storage.MAGIC])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert envelope["version"] == storage.FORMAT_VERSION
    assert exactly(envelope["header"], tensors) == exactly(*model)


def test_tensors_own_their_memory_and_outlive_the_file(model, tmp_path):
    path = tmp_path / "m"
    storage.write(path, *model)
    tensors = storage.read(path)[1]
    # In place, under whoever still maps the file.
    path.write_bytes(b"\xff" * path.stat().st_size)
    path.unlink()
    assert exactly(model[0], tensors) == exactly(*model)
    for name, tensor in tensors.items():
        others = {n: bits(t) for n, t in tensors.items() if n != name}
        tensor.fill_(1)
        assert {n: bits(t) for n, t in tensors.items() if n != name} == others


def test_nothing_but_the_file_is_left_in_the_folder(model, tmp_path):
    storage.write(tmp_path / "m", *model)
    storage.write(tmp_path / "m", *model)
    assert os.listdir(tmp_path) == ["m"]


# -- the format, which other versions must be able to read


def test_the_digest_is_what_the_description_says(tmp_path):
    storage.write(tmp_path / "m", {"a": 1}, {"w": torch.tensor([1.0, -2.0])})
    with safetensors.safe_open(tmp_path / "m", "pt") as file:
        envelope = json.loads(file.metadata()["softbins"])
    # Version, header and layout as compact JSON, then the values: 1.0f and -2.0f, little-endian.
    text = b'[1,{"a":1},[["w","torch.float32",[2]]]]'
    expected = hashlib.sha256(text + b"\x00\x00\x80\x3f\x00\x00\x00\xc0").hexdigest()
    assert envelope == {"version": 1, "header": {"a": 1}, "sha256": expected}


def test_a_file_of_format_1_can_be_read_forever(tmp_path):
    # Written by the first version of this module. It must never have to change.
    text = (
        '{"__metadata__":{"softbins":"{\\"header\\":{\\"a\\":1},\\"sha256\\":\\"DIGEST\\",'
        '\\"version\\":1}"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    ).replace("DIGEST", "050c5b9befd8b2e3dfa4e8381cb1c7ae02cd286409c760b9ea48ba4f5b1d046d")
    data = len(text).to_bytes(8, "little") + text.encode() + b"\x00\x00\x80\x3f\x00\x00\x00\xc0"
    (tmp_path / "m").write_bytes(data)
    header, tensors = storage.read(tmp_path / "m")
    assert header == {"a": 1}
    assert tensors["w"].tolist() == [1.0, -2.0]


def test_storage_knows_tensors_and_json_only_and_no_pickle():
    tree = ast.parse(inspect.getsource(storage))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
    }
    assert not imported & {"pickle", "marshal", "shelve"}
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert not called & {"torch.load", "torch.save", "eval", "exec"}


# -- what cannot be written is refused before anything is touched

SELF = {}
SELF["self"] = SELF
REFUSED_HEADERS = {
    "nan": ({"a": [1.0, float("nan")]}, r"header\['a'\]\[1\]: JSON has no nan"),
    "inf": ({"a": {"b": float("inf")}}, r"header\['a'\]\['b'\]: JSON has no inf"),
    "-inf": ({"a": -float("inf")}, r"header\['a'\]: JSON has no -inf"),
    "tuple": ({"a": (1, 2)}, r"header\['a'\]: tuple is not plain JSON"),
    "numpy": ({"a": np.float64(1.0)}, r"header\['a'\]: float64 is not plain JSON"),
    "tensor": ({"a": torch.ones(1)}, r"header\['a'\]: Tensor is not plain JSON.*tensors"),
    "bytes": ({"a": b"x"}, r"header\['a'\]: bytes is not plain JSON"),
    "integer keys": ({"a": {1: 2}}, r"header\['a'\]: keys must be text, got 1"),
    "half characters": ({"a": "\ud83d\ude00"}, r"header\['a'\]:.*surrogate"),
    "half a key": ({"\ud83d": 1}, r"header: keys must be text"),
    "huge integer": ({"a": 2**2048}, r"header\['a'\]: integer of more than 2048 bits"),
    "in itself": (SELF, r"header: nested deeper than 100, or in itself"),
    "too deep": ({"a": json.loads("[" * 100 + "]" * 100)}, r"header: nested deeper than 100"),
    "too long": ({"a": "x" * 10_000_000}, r"header: 100000\d\d characters.*tensors"),
    "a list": ([1], r"header: need a dict, got list"),
    "none": (None, r"header: need a dict, got NoneType"),
}
REFUSED_TENSORS = {
    "complex": ({"w": torch.ones(1, dtype=torch.complex64)}, r"tensors\['w'\]:.*torch.complex64"),
    "sparse": ({"w": torch.eye(2).to_sparse()}, r"tensors\['w'\]:.*torch.sparse_coo"),
    "meta": ({"w": torch.empty(2, device="meta")}, r"tensors\['w'\]:.* on meta"),
    "array": ({"w": np.ones(2)}, r"tensors\['w'\]: need a tensor, got ndarray"),
    "reserved name": ({"__metadata__": torch.ones(1)}, r"tensors: need names.*'__metadata__'"),
    "half a name": ({"\ud83d": torch.ones(1)}, r"tensors: need names"),
    "integer name": ({3: torch.ones(1)}, r"tensors: need names.*got 3"),
}
REFUSED = {
    **{name: (header, {}, message) for name, (header, message) in REFUSED_HEADERS.items()},
    **{name: ({}, tensors, message) for name, (tensors, message) in REFUSED_TENSORS.items()},
}


@pytest.mark.parametrize(("header", "tensors", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_not_come_back_equal_is_refused_by_name(header, tensors, message, tmp_path):
    (tmp_path / "m").write_bytes(b"old")
    with pytest.raises(ValueError, match=message) as caught:
        storage.write(tmp_path / "m", header, tensors)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, storage.ModelFileError), "it is the caller's, not a file's"
    assert (tmp_path / "m").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes"])
def test_a_path_must_be_a_name_in_text(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for act in (
        lambda: storage.write(path, {}, {}),
        lambda: storage.write_whole(path, b""),
        lambda: storage.read(path),
    ):
        with pytest.raises(ValueError, match="path: need the name of a file"):
            act()
    assert os.listdir() == []


# -- where and how files are placed


def permissions(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def umask():
    """Set the umask, and put it back after the test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
def test_a_new_file_follows_the_umask(mask, umask, tmp_path):
    # tempfile.mkstemp would give 0600 whatever the umask says: a model saved by one user could
    # not be read by the server or the colleague it was saved for.
    umask(mask)
    storage.write_whole(tmp_path / "m", b"x")
    assert permissions(tmp_path / "m") == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_replaced_file_keeps_its_permissions(mode, umask, tmp_path):
    # Else a private file would become public the second time it is saved.
    umask(0o022)
    (tmp_path / "m").write_bytes(b"old")
    (tmp_path / "m").chmod(mode)
    storage.write_whole(tmp_path / "m", b"new")
    assert permissions(tmp_path / "m") == mode
    assert (tmp_path / "m").read_bytes() == b"new"


@pytest.mark.parametrize("data", [b"", b"x", b"a,b\r\n1,2\n", bytes(range(256)) * 5000])
@pytest.mark.parametrize("old", [None, b"", b"old" * 100_000])
def test_write_whole_writes_exactly_these_bytes_over_whatever_was_there(data, old, tmp_path):
    if old is not None:
        (tmp_path / "m").write_bytes(old)
    storage.write_whole(tmp_path / "m", data)
    assert (tmp_path / "m").read_bytes() == data
    assert os.listdir(tmp_path) == ["m"]


def test_a_model_replaces_a_larger_one_and_anything_else(tmp_path):
    (tmp_path / "m").write_text("not a model")
    for size in (1000, 1):
        storage.write(tmp_path / "m", {"size": size}, {"w": torch.ones(size)})
        header, tensors = storage.read(tmp_path / "m")
        assert header["size"] == tensors["w"].numel() == size


def test_who_has_the_old_file_open_keeps_reading_the_old_file(tmp_path):
    storage.write_whole(tmp_path / "m", b"old")
    with open(tmp_path / "m", "rb") as file:
        storage.write_whole(tmp_path / "m", b"new")
        assert file.read() == b"old"


def test_relative_paths_are_relative_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    for path in ("m", "./n", "sub/m", "sub/../o", Path("p")):
        storage.write(path, {"path": str(path)}, {})
        assert storage.read(path)[0] == {"path": str(path)}
    assert sorted(os.listdir()) == ["m", "n", "o", "p", "sub"]
    assert os.listdir("sub") == ["m"]


def test_names_may_be_odd_and_as_long_as_the_system_allows(tmp_path):
    for name in ("x" * 255, "with space", "-rf", "ä😀", "new\nline", "*"):
        storage.write(tmp_path / name, {}, {})
        assert storage.read(tmp_path / name) == ({}, {})


def test_a_tilde_is_a_name_like_any_other(tmp_path, monkeypatch):
    # Expanding is the shell's and the caller's business. `open` does not do it, and a silent
    # second meaning would put the file where the caller does not look. The error says so.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Path("home").mkdir()
    with pytest.raises(FileNotFoundError, match="create the folder.*expanduser.*'~/m'"):
        storage.write("~/m", {}, {})
    with pytest.raises(FileNotFoundError, match="expanduser.*'~/m'"):
        storage.read("~/m")
    Path("~").mkdir()
    storage.write("~/m", {}, {})
    assert os.listdir("~") == ["m"]
    assert os.listdir("home") == []


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    # "latest -> run7/model" must go on pointing there.
    (tmp_path / "run7").mkdir()
    (tmp_path / "latest").symlink_to("run7/model")
    for content in (b"through a link to nothing yet", b"again"):
        storage.write_whole(tmp_path / "latest", content)
        assert (tmp_path / "latest").is_symlink()
        assert (tmp_path / "run7" / "model").read_bytes() == content
    assert os.listdir(tmp_path / "run7") == ["model"]
