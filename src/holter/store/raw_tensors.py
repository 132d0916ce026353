"""Raw tensors of a job: safetensors files, one for each step, mode and rank, read without copying them.

Files may come from anywhere: lengths are checked against the file before anything is read or made.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

T = TypeVar("T", dict[str, object], list[object])
RAW = "tensors-raw"
"""The folder of a job that holds them."""

LONGEST_HEADER = 100_000_000
"""Bytes; what the format itself allows."""
_MOST_DIMENSIONS = 32
_CHECKED = 256 << 20
_CHECKSUMS = "crc32"
"""Metadata key of the CRC-32 of each tensor in files of the recorder."""

_TEXTS = "texts"
"""Metadata key of the list of text tensors: code points, padded in the last dimension."""

_KEY = re.compile(RAW + r"/node=([^/]+)/rank=(\d{1,9})/(\d{9})-(train|eval|predict|global)\.safetensors")

DTYPES: dict[str, tuple[str, str]] = {
    "BOOL": ("bool", "?"),
    "U8": ("uint8", "<u1"),
    "I8": ("int8", "<i1"),
    "U16": ("uint16", "<u2"),
    "I16": ("int16", "<i2"),
    "U32": ("uint32", "<u4"),
    "I32": ("int32", "<i4"),
    "U64": ("uint64", "<u8"),
    "I64": ("int64", "<i8"),
    "F16": ("float16", "<f2"),
    "F32": ("float32", "<f4"),
    "F64": ("float64", "<f8"),
    "C64": ("complex64", "<c8"),
    "BF16": ("bfloat16", "<u2"),
    "F8_E4M3": ("float8_e4m3fn", "<u1"),
    "F8_E5M2": ("float8_e5m2", "<u1"),
    "F8_E8M0": ("float8_e8m0fnu", "<u1"),
}
"""Names of types in files → the usual name, and what numpy keeps their bits in."""


_NARROW = ("BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0")
"""Types that numpy lacks."""


class DamagedRaw(ValueError):
    """A file of raw tensors is not what it should be."""

    def __init__(self, file: object, offset: int, why: str) -> None:
        self.file, self.offset = str(file), offset
        super().__init__(f"{file}: {why} (at byte {offset})")


class RawKey(NamedTuple):
    """The parsed name of a file of raw tensors."""

    node: str
    rank: int
    step: int
    mode: str


def parse_raw(key: str) -> RawKey | None:
    """Parse a raw file's key; None for other names."""
    match = _KEY.fullmatch(key)
    return RawKey(unquote(match[1]), int(match[2]), int(match[3]), match[4]) if match else None


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor in a file. Nothing of it is read before it is asked for."""

    path: Path
    name: str
    dtype: str
    """Usual name of its type, as `bfloat16`."""
    shape: tuple[int, ...]
    offset: int
    """Where its bytes begin in the file."""
    bits: str
    """The numpy type that holds its elements or their bits, see `array`. Empty for unknown types."""
    crc32: int | None = None
    """Of its bytes, if the file has it."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return math.prod(self.shape) * np.dtype(self.bits).itemsize

    def stored(self) -> NDArray[Any]:
        """Return the elements as they lie in the file, mapped and read-only; bfloat16 and float8 as bits.

        The checksum of more than 256 MiB is not compared, because that would read all mapped bytes.

        Raises:
            DamagedRaw: The file is incomplete, its bytes have changed, or the type is unknown.
        """
        if not self.bits:
            why = f"tensor {self.name!r} has type {self.dtype!r}; known are {', '.join(DTYPES)}"
            raise DamagedRaw(self.path, self.offset, why)
        if self.size == 0:
            return np.empty(self.shape, dtype=self.bits)
        try:
            mapped = np.memmap(self.path, np.uint8, "r", self.offset, self.size)
        except (OSError, ValueError) as error:
            raise DamagedRaw(self.path, self.offset, f"tensor {self.name!r}: {error}") from error
        if self.crc32 is not None and self.size <= _CHECKED and zlib.crc32(mapped.data) != self.crc32:
            raise DamagedRaw(
                self.path, self.offset, f"the bytes of tensor {self.name!r} have changed: CRC-32"
            )
        if self.dtype == "text" and mapped.view("<u4").max() > sys.maxunicode:
            raise DamagedRaw(self.path, self.offset, f"tensor {self.name!r} is said to be text and is not")
        return mapped.view(np.ndarray).view(self.bits).reshape(self.shape)

    def array(self) -> NDArray[Any]:
        """Return the elements; bfloat16 and float8, which numpy lacks, as the same numbers in float32."""
        stored = self.stored()
        if self.dtype == "bfloat16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        if self.dtype.startswith("float8"):
            widened: NDArray[Any] = _FLOAT8[self.dtype][stored]
            return widened
        return stored


def read_header(path: Path, key: str = "") -> tuple[dict[str, RawTensor], dict[str, str]]:
    """Return the tensors in a file by name, and its metadata (`step`, `mode`, `rank`, `time`).

    Errors name the file by its `key`.

    Raises:
        DamagedRaw: It is incomplete, not a file of tensors, or its header does not fit its size.
        FileNotFoundError: It does not exist.
    """
    file = key or path
    with path.open("rb") as opened:
        opened.seek(0, 2)
        size = opened.tell()
        opened.seek(0)
        head = opened.read(8)
        if len(head) < 8:
            raise DamagedRaw(file, 0, f"is cut: {size} bytes, and 8 are its first number")
        (length,) = struct.unpack("<Q", head)
        if length > min(LONGEST_HEADER, size - 8):
            raise DamagedRaw(file, 0, f"says its header has {length} bytes; the file has {size}")
        header = opened.read(length)
    try:
        document = json.loads(header, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DamagedRaw(file, 8, f"its header is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DamagedRaw(file, 8, "its header is not a JSON object")
    says = document.pop("__metadata__", {})
    if not isinstance(says, dict):
        raise DamagedRaw(file, 8, "its __metadata__ is not a JSON object")
    begin = 8 + length
    tensors = {name: _tensor(path, file, name, entry, begin, size) for name, entry in document.items()}
    for name, crc32 in _metadata(says, _CHECKSUMS, dict).items():
        if name in tensors and type(crc32) is int:
            tensors[name] = replace(tensors[name], crc32=crc32)
    for text in _metadata(says, _TEXTS, list):
        if isinstance(text, str) and text in tensors:
            tensors[text] = _text(tensors[text])
    return tensors, {str(name): str(value) for name, value in says.items()}


def _metadata(says: Mapping[str, str], key: str, kind: type[T]) -> T:
    """Return JSON of this kind from a file's metadata; empty where it is missing or damaged."""
    try:
        value = json.loads(says[key])
    except (KeyError, TypeError, ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()


def _text(tensor: RawTensor) -> RawTensor:
    if tensor.dtype != "uint32" or not tensor.shape or not 0 < tensor.shape[-1] <= LONGEST_HEADER:
        return tensor
    return replace(tensor, dtype="text", shape=tensor.shape[:-1], bits=f"<U{tensor.shape[-1]}")


def pack(arrays: Mapping[str, NDArray[Any]], says: Mapping[str, str]) -> bytes:
    """Write arrays of numpy's own types or of texts as a file; `says` is what it says of itself."""
    texts = {name: array for name, array in arrays.items() if array.dtype.kind == "U"}
    if texts:
        points = {
            name: np.frombuffer(text.tobytes(), "<u4").reshape(*text.shape, text.itemsize // 4)
            for name, text in texts.items()
        }
        arrays, says = {**arrays, **points}, {**says, _TEXTS: json.dumps(list(texts))}
    names = {np.dtype(bits): name for name, (_, bits) in DTYPES.items() if name not in _NARROW}
    header: dict[str, object] = {"__metadata__": dict(says)}
    begin = 0
    # The widest elements first, so that each lies where its type may lie in memory.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in ordered:
        end = begin + array.nbytes
        kind = names[array.dtype.newbyteorder("=")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for _, array in ordered)


def _tensor(path: Path, file: object, name: str, entry: Any, begin: int, size: int) -> RawTensor:
    def wrong(why: str, offset: int = 8) -> DamagedRaw:
        return DamagedRaw(file, offset, f"tensor {name!r} {why}")

    if not isinstance(entry, dict):
        raise wrong("is described by no JSON object")
    kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str):
        raise wrong(f"has type {str(kind)[:80]}")
    if shape is None or not _naturals(shape) or len(shape) > _MOST_DIMENSIONS:
        raise wrong(f"has shape {str(shape)[:80]}")
    if offsets is None or not _naturals(offsets) or len(offsets) != 2:
        raise wrong(f"has data_offsets {str(offsets)[:80]}")
    first, last = offsets
    if not first <= last <= size - begin:
        raise wrong(f"lies at bytes {first} to {last} of {size - begin}", begin + min(first, size - begin))
    # A type of tomorrow costs only its own tensors.
    dtype, bits = DTYPES.get(kind, (kind, ""))
    if not bits:
        return RawTensor(path, name, dtype, tuple(shape), begin + first, bits)
    need = math.prod(shape) * np.dtype(bits).itemsize
    if need != last - first:
        raise wrong(f"of shape {shape} needs {need} bytes and has {last - first}", begin + first)
    return RawTensor(path, name, dtype, tuple(shape), begin + first, bits)


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in it")
    return found


def _float8(exponent_bits: int, mantissa_bits: int, *, finite: bool) -> NDArray[np.float32]:
    """Return the 256 numbers of a float8; `finite`: no infinity, and only all ones are not a number."""
    bits = np.arange(256)
    exponent = bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (bits & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    bias = (1 << exponent_bits - 1) - 1
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    if finite:
        value[bits & 0x7F == 0x7F] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        value[top] = np.where(mantissa[top] == 0, np.inf, np.nan)
    return np.where(bits >> 7 == 1, -value, value).astype(np.float32)


_SCALES = np.append(np.ldexp(np.float64(1), np.arange(255) - 127), np.nan).astype(np.float32)
"""The numbers of a float8 that has an exponent only."""
_FLOAT8 = {
    "float8_e8m0fnu": _SCALES,
    "float8_e4m3fn": _float8(4, 3, finite=True),
    "float8_e5m2": _float8(5, 2, finite=False),
}
