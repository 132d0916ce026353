"""Raw tensors: every type as it was, nothing copied, and files that lie, are cut or are no such files."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save as safetensors
from tests.tensors.writing import Recording

from holter.recorder.tensors.safetensors import save
from holter.store.raw_tensors import DamagedRaw, parse_raw, read_header
from holter.tensors.errors import IndexReaderException

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
TYPES = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64"]


def test_every_type_comes_back_as_it_was(tmp_path):
    # D29: the reference read int8 as uint8, and five types not at all. D07: it refused bfloat16.
    data = torch.tensor([0, 1, 2, 100, 127, 3]).reshape(2, 3)
    tensors = {name: data.to(getattr(torch, name)) for name in TYPES}
    tensors["int8"] = -data.to(torch.int8)
    odd = torch.randn(3, 4)
    narrow = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    tensors |= {name: odd.to(getattr(torch, name)) for name in narrow}
    tensors["empty"] = torch.empty(0, 3)
    tensors["scalar"] = torch.tensor(2.5)
    recording = Recording(tmp_path)
    recording.put(0, safetensors(tensors))
    job = recording.open()
    assert job.tensors().names == sorted(tensors)
    for name, tensor in tensors.items():
        read = job.tensors()[name]
        expected = (tensor.float() if name in narrow else tensor).numpy()
        assert read.value(0).dtype == expected.dtype
        assert np.array_equal(read.value(0), expected), name
        back = read.to_torch(0)
        assert back.dtype == tensor.dtype
        same = (back, tensor) if name == "complex64" else (back.double(), tensor.double())
        assert torch.equal(*same), name


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "bfloat16"])
def test_every_bit_pattern_of_narrow_types(tmp_path, name):
    bits = torch.arange(65536 if name == "bfloat16" else 256, dtype=torch.int32)
    tensor = bits.to(torch.int16 if name == "bfloat16" else torch.uint8).view(getattr(torch, name))
    recording = Recording(tmp_path)
    recording.put(0, safetensors({"x": tensor}))
    read = recording.open().tensors()["x"].value(0)
    assert np.array_equal(read, tensor.float().numpy(), equal_nan=True)


def test_a_large_tensor_is_mapped_and_not_copied(tmp_path):
    recording = Recording(tmp_path)
    recording.put(0, safetensors({"x": torch.zeros(1 << 20)}))
    value = recording.open().tensors()["x"].value(0)
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    assert isinstance(owner, np.memmap)


def test_bytes_that_changed_are_not_handed_out(tmp_path):
    # D30: the reference's checksums are of a constant.
    path = tmp_path / "a.safetensors"
    arrays = {name: np.arange(1000, dtype=np.float32) + n for n, name in enumerate("xy")}
    entries = [(name, "float32", (1000,), array.tobytes()) for name, array in arrays.items()]
    save(str(path), entries, {"step": "0"})
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    found, _ = read_header(path)
    assert np.array_equal(found["x"].array(), arrays["x"])
    with pytest.raises(DamagedRaw, match=r"'y' have changed: CRC-32 \(at byte \d+\)"):
        found["y"].array()


@pytest.mark.parametrize("told", ["{", "[]", "7", "null", '{"x": "1", "z": 1}'])
def test_checksums_that_are_none_are_passed_over(tmp_path, told):
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors({"x": torch.ones(3)}, {"crc32": told}))
    assert read_header(path)[0]["x"].array().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("tensors-raw/node=a%2Fb/rank=3/000000007-eval.safetensors", True),
        ("tensors-raw/node=n/rank=3/7-eval.safetensors", False),
        ("tensors-raw/node=n/rank=3/000000007-dance.safetensors", False),
        ("tensors-raw/node=n/rank=-1/000000007-eval.safetensors", False),
        ("tensors-raw/rank=1/000000007-eval.safetensors", False),
    ],
)
def test_names_of_raw_files(key, known):
    found = parse_raw(key)
    assert (found is not None) == known
    if found:
        assert (found.node, found.rank, found.step, found.mode) == ("a/b", 3, 7, "eval")


def file_of(header, data=b"\0" * 16, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(4,), offsets=(0, 16)):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


BAD = {
    "empty": (b"", 0, "is cut"),
    "cut": (b"\1\0\0", 0, "is cut"),
    "length": (file_of({}, length=10**9), 0, "1000000000 bytes"),
    "greatest length": (file_of({}, length=2**64 - 1), 0, "18446744073709551615 bytes"),
    "no JSON": (file_of(b"{]"), 8, "not JSON"),
    "no UTF-8": (file_of(b"\xff\xfe{}"), 8, "not JSON"),
    "list": (file_of([]), 8, "not a JSON object"),
    "deep": (file_of(b"[" * 100_000), 8, "not JSON"),
    "twice": (file_of(b'{"a": 1, "a": 2}'), 8, "twice"),
    "metadata": (file_of({"__metadata__": 3}), 8, "__metadata__"),
    "no entry": (file_of({"x": 3}), 8, "'x'"),
    "list as type": (file_of(entry(dtype=["F32"])), 8, "has type"),
    "shape": (file_of(entry(shape=(-1, -4))), 8, "shape"),
    "dimensions": (file_of(entry(shape=(1,) * 100)), 8, "shape"),
    "fraction": (file_of(entry(shape=(4.0,))), 8, "shape"),
    "beyond": (file_of(entry(offsets=(8, 24))), None, "8 to 24 of 16"),
    "backwards": (file_of(entry(offsets=(16, 0))), None, "16 to 0"),
    "negative": (file_of(entry(offsets=(-16, 0))), 8, "data_offsets"),
    "three": (file_of(entry(offsets=(0, 8, 16))), 8, "data_offsets"),
    "too small": (file_of(entry(shape=(5,))), None, "needs 20 bytes"),
    "huge": (file_of(entry(shape=(10**9, 10**9, 10**9))), None, "needs 4000"),
    "cut data": (file_of(entry(), data=b"\0" * 8), None, "0 to 16 of 8"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named_with_the_place(tmp_path, case):
    data, offset, why = BAD[case]
    recording = Recording(tmp_path)
    recording.save(0, {"x": 1.0})
    recording.put(0, data)
    source = recording.source()
    assert source.names == ["x"]  # the file costs only itself
    (skipped,) = source.saved.skipped
    assert skipped["file"].endswith("000000000-train.safetensors")
    assert why in skipped["why"]
    with pytest.raises(IndexReaderException) as damage:
        recording.open().tensors()["x"].value(0)
    assert damage.value.file.endswith("000000000-train.safetensors")
    assert offset is None or damage.value.offset == offset


def test_a_type_of_tomorrow_costs_only_its_own_tensor(tmp_path):
    recording = Recording(tmp_path)
    recording.put(0, file_of({**entry(offsets=(0, 16)), "y": entry("F4", (8,), (0, 4))["x"]}))
    tensors = recording.open().tensors()
    assert tensors.names == ["x", "y"]
    assert tensors["x"].value(0).tolist() == [0.0] * 4
    assert tensors["y"].shape(0) == (8,)
    with pytest.raises(IndexReaderException, match="'y' has type 'F4'; known are"):
        tensors["y"].value(0)


@given(st.binary(max_size=60), st.integers(0, 120))
def test_no_bytes_whatever_do_harm(tmp_path_factory, noise, at):
    good = file_of(entry())
    path = tmp_path_factory.getbasetemp() / "noise.safetensors"
    path.write_bytes(good[:at] + noise + good[at + len(noise) :])
    try:
        tensors, _ = read_header(path)
        for tensor in tensors.values():
            tensor.array().sum()
    except DamagedRaw:
        pass


def test_a_file_that_was_cut_after_it_was_listed(tmp_path):
    recording = Recording(tmp_path)
    path = recording.put(0, safetensors({"x": torch.ones(1000)}))
    tensor = recording.open().tensors()["x"]
    assert tensor.shape(0) == (1000,)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(IndexReaderException, match="'x'"):
        tensor.value(0)
