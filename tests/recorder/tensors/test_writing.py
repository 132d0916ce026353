"""What reaches the spool is whole, bounded, and counted where it is dropped; whatever type it has."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import resource
import zlib

import pytest
import torch
from tests.recorder import reading as records
from tests.recorder.tensors.reading import raw, saved

from holter.recorder.tensors.collections import TensorInfo
from holter.recorder.tensors.requests import request
from holter.recorder.tensors.safetensors import DTYPES, save
from holter.recorder.tensors.writing import TensorFiles
from holter.schema import tensor_spool as layout

WEIGHT = TensorInfo("a.weight", "parameter", "weight")
COUNTS, NUMBERS = (6, 0, 0, 0, 1, 0), (0.0,) * 8


def test_frames_are_read_up_to_the_first_that_is_cut():
    generator = random.Random(5)
    payloads = [generator.randbytes(generator.randrange(200)) for _ in range(50)]
    data = b"".join(layout.frame(layout.Kind.VALUES, payload) for payload in payloads)
    whole = [payload for _, payload, _ in layout.frames(data)]
    assert whole == payloads
    for cut in range(0, len(data), 37):
        found = [payload for _, payload, _ in layout.frames(data[:cut])]
        assert found == payloads[: len(found)]
        assert sum(len(p) + 12 for p in payloads[: len(found) + 1]) > cut or found == payloads


def test_a_hole_is_no_frame():
    with pytest.raises(ValueError, match="does not end"):
        list(layout.frames(bytes(64)))


def test_every_file_names_its_tensors(session, spool):
    files = TensorFiles(session, file_bytes=1000)
    files.describe([request("weights")])
    for step in range(40):
        files.row(1, step, 1, files.id(WEIGHT), COUNTS, NUMBERS)
        files.flush()
    found = saved(spool)
    assert found.steps("a.weight") == list(range(40))
    assert len(list(spool.glob("*.tensors"))) > 5
    assert found.rows[-1].collections == ["weights"]


def test_too_many_files_that_wait_are_dropped_and_counted(session, spool):
    files = TensorFiles(session, file_bytes=100, max_files=3)
    for step in range(5):
        files.row(1, step, 1, files.id(WEIGHT), COUNTS, NUMBERS)
        files.flush()
    assert saved(spool).steps("a.weight") == [0, 1, 2]
    files.end()
    (dropped,) = records.only(spool).facts("dropped")
    assert (dropped["what"], dropped["frames"]) == ("tensors", 2)


def test_a_spool_that_is_gone_costs_the_rows_and_no_more(session, spool, capsys):
    files = TensorFiles(session)
    files.row(1, 0, 1, files.id(WEIGHT), COUNTS, NUMBERS)
    files.flush()
    for path in spool.iterdir():
        path.unlink()
    spool.rmdir()
    for step in range(1, 4):
        files.row(1, step, 1, files.id(WEIGHT), COUNTS, NUMBERS)
        files.flush()
    assert files.dropped["frames"] == 3
    assert capsys.readouterr().err.count("fault in tensors.spool") == 1


def test_collections_may_change_while_files_are_written(session, spool):
    files = TensorFiles(session)
    other = TensorInfo("b.weight", "parameter", "weight")
    files.row(1, 0, 1, files.id(WEIGHT), COUNTS, NUMBERS)
    files.row(1, 0, 1, files.id(other), COUNTS, NUMBERS)
    files.describe([request("/b/")])
    files.row(1, 1, 1, files.id(other), COUNTS, NUMBERS)
    files.flush()
    found = saved(spool)
    assert found.steps("b.weight") == [0, 1]
    assert found.row("b.weight", 1).collections == ["/b/"]
    assert found.collections["/b/"]["include_regex"] == ["b"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_saved_whole(tmp_path, dtype):
    data = bytes(range(256)) * 2
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    if dtype == "bool":
        tensor = tensor % 2
    tensor = tensor.view(getattr(torch, dtype))
    entry = ("x", dtype, tuple(tensor.shape), bytes(tensor.untyped_storage()))
    path = tmp_path / "a.safetensors"
    assert save(str(path), [entry, ("empty", dtype, (0, 3), b"")], {"step": "1"}) == path.stat().st_size
    metadata, tensors = raw(path)
    assert json.loads(metadata.pop("crc32")) == {"x": zlib.crc32(entry[3]), "empty": 0}
    assert metadata == {"step": "1"}
    assert tensors["empty"][1:] == ([0, 3], b"")
    assert torch.equal(
        torch.frombuffer(bytearray(tensors["x"][2]), dtype=torch.uint8), tensor.view(torch.uint8)
    )
    assert len(tensors["x"][2]) == tensor.numel() * tensor.element_size()


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    entry = ("x", "float32", (1,), b"1234")
    with pytest.raises(OSError, match="No such"):
        save(str(tmp_path / "absent" / "a.safetensors"), [entry], {})
    with pytest.raises(KeyError):
        save(str(tmp_path / "a.safetensors"), [("x", "quint8", (1,), b"1")], {})
    assert os.listdir(tmp_path) == []


def test_whole_tensors_beyond_the_bound_are_dropped(session, spool):
    files = TensorFiles(session, max_raw_bytes=6000)
    entry = ("x", "uint8", (2000,), bytes(2000))
    assert [files.save(1, step, 1, [entry]) for step in range(4)] == [True, True, False, False]
    assert files.dropped == {"raw bytes": 4000, "saves": 2}
    next(spool.glob("*-train.safetensors")).unlink()  # the agent has taken one
    assert files.save(1, 5, 1, [entry])


def test_a_schedule_for_which_there_is_no_room_is_said_at_its_first_save(session, spool, capsys):
    files = TensorFiles(session, max_raw_bytes=1000)
    memory = mmap.mmap(-1, layout.RAW_LIMIT // 20)  # reserved and never touched
    assert not files.save(1, 0, 1, [("x", "uint8", (len(memory),), memory)])
    files.save(1, 1, 1, [("x", "uint8", (1,), b"1")])
    said = [line for line in capsys.readouterr().err.splitlines() if "space is left" in line]
    assert len(said) == 1
    assert "429 MB" in said[0]


def test_room_is_asked_for_where_whole_tensors_stay(session, capsys, monkeypatch):
    monkeypatch.setenv(layout.ENV_KEPT, "/proc")  # a file system without any
    assert TensorFiles(session).save(1, 0, 1, [("x", "uint8", (1,), b"1")])
    assert "space is left for 0 saves" in capsys.readouterr().err
    monkeypatch.setenv(layout.ENV_KEPT, "s3://bucket/job")
    assert TensorFiles(session).save(1, 1, 1, [("x", "uint8", (1,), b"1")])
    assert "room for" not in capsys.readouterr().err


@contextlib.contextmanager
def files_no_larger_than(size):
    """Let writes beyond a size fail, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_while_rows_are_written(session, spool, capsys):
    files = TensorFiles(session)
    files.row(1, 0, 1, files.id(WEIGHT), COUNTS, NUMBERS)
    files.flush()
    (path,) = spool.glob("*.tensors")
    with files_no_larger_than(path.stat().st_size + 100):
        for step in (1, 2):
            files.row(1, step, 1, files.id(WEIGHT), COUNTS, NUMBERS)
        files.flush()
    assert files.dropped == {"frames": 2}
    assert capsys.readouterr().err.count("fault in tensors.spool") == 1
    kinds = [kind for kind, *_ in layout.frames(path.read_bytes())]
    assert kinds.count(layout.Kind.ROW) == 1  # what was cut is not taken for a row


def test_a_disk_that_fills_while_a_tensor_is_written(session, spool, capsys):
    files = TensorFiles(session)
    with files_no_larger_than(5000):
        assert not files.save(1, 0, 1, [("x", "uint8", (8000,), bytes(8000))])
        assert files.save(1, 1, 1, [("x", "uint8", (80,), bytes(80))])
    assert files.dropped == {"raw bytes": 8000, "saves": 1}
    assert capsys.readouterr().err.count("fault in tensors.spool") == 1
    assert [path.name.partition(".")[2] for path in spool.glob("*safetensors*")] == [
        "000000001-train.safetensors"
    ]
