"""Write what smdebug writes: collections, and for each step an index and its event file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {"float32": 1, "int64": 9}


def collections(folder: Path, *workers: str, names: tuple[str, ...] = ()) -> None:
    """Write the collections of some workers."""
    place = folder / "collections/000000000"
    place.mkdir(parents=True, exist_ok=True)
    told = {
        "_meta": {"num_workers": len(workers)},
        "collections": {"default": {"name": "default", "tensor_names": list(names)}},
    }
    for worker in workers:
        (place / f"{worker}_collections.json").write_text(json.dumps(told))


def save(
    folder: Path, step: int, tensors: dict[str, Any], *, worker: str = "worker_0", mode: str = "TRAIN"
) -> None:
    """Save tensors of a step; lists are texts."""
    records, entries = b"", []
    for name, value in tensors.items():
        record = _record(1_600_000_000.0 + step, name, value)
        entries.append({"tensorname": name, "start_idx": len(records), "length": len(record)})
        records += record
    file = f"events/{step:012d}/{step:012d}_{worker}.tfevents"
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(records)
    index = folder / f"index/{step // 1000:09d}/{step:012d}_{worker}.json"
    index.parent.mkdir(parents=True, exist_ok=True)
    meta = {"mode": mode, "mode_step": step, "event_file_name": file}
    index.write_text(json.dumps({"meta": meta, "tensor_payload": entries, "shape_payload": []}))


def end(folder: Path) -> None:
    """Say that nothing follows."""
    (folder / "training_job_end.ts").touch()


def _record(time: float, name: str, value: Any) -> bytes:
    array = np.asarray(value)
    sizes = b"".join(_field(2, _number(1, size)) for size in array.shape)
    if isinstance(value, list):  # smdebug leaves the type of texts away
        tensor = _field(2, sizes) + b"".join(_field(8, text.encode()) for text in value)
    else:
        tensor = _number(1, _TYPES[array.dtype.name]) + _field(2, sizes) + _field(4, array.tobytes())
    summary = _field(1, _field(1, name.encode()) + _field(8, tensor))
    event = b"\x09" + struct.pack("<d", time) + _field(5, summary)
    return struct.pack("<QI", len(event), 0) + event + bytes(4)


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
