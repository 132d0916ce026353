"""Writes whole tensors into a safetensors file: a length, a JSON header, the bytes."""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
"""Names of types, as numpy and torch have them → as the format has them."""

CHECKSUMS = "crc32"
"""What the metadata call the CRC-32 of each tensor's bytes: JSON, by the tensor's name."""

Entry = tuple[str, str, "Sequence[int]", Any]
"""Name, type (a key of `DTYPES`), sizes, and the bytes: little-endian, row by row, anything `write` takes."""


def save(path: str, entries: Sequence[Entry], metadata: Mapping[str, str]) -> int:
    """Write a file in one piece: it is at `path` once it is complete, and not before; returns its bytes.

    Raises:
        OSError: It could not be written; nothing is left of it then.
        KeyError: A type that the format does not have.
    """
    sums = {name: zlib.crc32(memoryview(data)) for name, *_, data in entries}
    header: dict[str, object] = {"__metadata__": {**metadata, CHECKSUMS: json.dumps(sums)}}
    offset = 0
    for name, dtype, shape, data in entries:
        size = memoryview(data).nbytes
        header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of 8
    draft = f"{path}.part"
    try:
        with open(draft, "xb", buffering=0) as file:
            _write(file.fileno(), struct.pack("<Q", len(text)) + text)
            for *_, data in entries:
                _write(file.fileno(), data)
        os.rename(draft, path)
    except OSError:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
    return 8 + len(text) + offset


def _write(descriptor: int, data: Any) -> None:
    left = memoryview(data)
    left = left.cast("B") if left.nbytes else left[:0]
    while left.nbytes:
        left = left[os.write(descriptor, left[: 1 << 26]) :]
