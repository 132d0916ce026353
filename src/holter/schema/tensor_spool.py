"""The spool's files of tensors: frames that a training process appends and the agent reads.

A process (`P`, as in `record`) owns:

* `P.N.tensors`: file number N, a sequence of frames. Each file names the tensors it speaks of before it
  speaks of them, so that it can be read without the others.
* `P.STEP-MODE.safetensors`: tensors whole, of one step and mode; it is there only once it is complete.

A frame is its payload's size, its kind, the payload, and the size once more, turned around: a frame that was
cut by a kill or a full disk is known by that.
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_HEAD = struct.Struct("<IB3x")
"""Size of the payload in bytes, kind."""
FRAME_TAIL = struct.Struct("<I")
"""The size, all bits turned around; never 0, so that a hole in a file is no frame."""
_ALL = 0xFFFF_FFFF

FILE_BYTES = 4 << 20
"""A file is followed by the next one from here on."""
MAX_FILES = 32
"""Files that may wait for the agent; beyond them frames are dropped and counted."""
MAX_RAW_BYTES = 4 << 30
"""Bytes of whole tensors that may wait for the agent, for each process."""
RAW_RESERVE = 256 << 20
"""Bytes that whole tensors leave free on a disk: the recording of everything else needs them."""
RAW_LIMIT = 8 << 30
"""Bytes of whole tensors that the agent keeps for each job on each node; later ones are dropped and counted."""
MAX_PAYLOAD = 64 << 20
"""A larger payload is damage."""

ENV_SAVE = "HOLTER_SAVE"
"""JSON: which tensors to save; the default selection when it is absent."""

ENV_KEPT = "HOLTER_TENSORS_KEPT"
"""The job's folder, on whose disk whole tensors stay in the end; where it is on no disk, no path."""


class Kind(IntEnum):
    """What a frame holds."""

    TENSOR = 1
    """JSON: `id`, `name`, `role`, `collections` of a tensor, of a part of one `part` and `parts`, too; comes
    before the first frame with that id."""
    ROW = 2
    """`ROW`: one row of the table `tensors`."""
    VALUES = 3
    """`VALUES`, then doubles: rows of the table `tensor_values`."""
    COLLECTIONS = 4
    """JSON: settings of collections by name, as `tensors.json` has them."""


class Values(IntEnum):
    """What a tensor is described by; the name in lower case is the column `kind` of `tensor_values`."""

    VALUE = 1
    SHAPE = 2
    HISTOGRAM = 3
    EXPONENTS = 4
    ACTIVE = 5
    SAMPLES = 6
    ABS_MIN = 7
    PROD = 8


STATES = ("", "frozen", "unused", "skipped")
"""The states of a row, by their numbers."""

COUNTS = ("count", "nan", "posinf", "neginf", "zeros", "tiny")
STATISTICS = ("min", "max", "mean", "std", "abs_mean", "q05", "q50", "q95")
DELTAS = ("delta_l2", "delta_abs_mean", "delta_max")

ROW = struct.Struct("<qiIBB2x6q11dq")
"""time (monotonic ns), step, id, mode, state, COUNTS, STATISTICS, DELTAS (NaN = none), fingerprint."""

VALUES = struct.Struct("<qiIBB6x")
"""time (monotonic ns), step, id, mode, kind; doubles follow."""


def free_bytes(directory: str | os.PathLike[str]) -> int:
    """Return the bytes that may be written to a directory's disk; raises `OSError` for a missing directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def frame(kind: int, payload: bytes) -> bytes:
    """Return a frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size, kind) + payload + FRAME_TAIL.pack(size ^ _ALL)


def frames(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield kind, payload and end of the frames at the start of `data`, up to the first that is not whole.

    Raises:
        ValueError: What follows is no frame, however much of it is still to come.
    """
    at = 0
    overhead = FRAME_HEAD.size + FRAME_TAIL.size
    while at + overhead <= len(data):
        size, kind = FRAME_HEAD.unpack_from(data, at)
        if size > MAX_PAYLOAD:
            raise ValueError(f"a frame of {size} bytes")
        begin, end = at + FRAME_HEAD.size, at + overhead + size
        if end > len(data):
            return
        if FRAME_TAIL.unpack_from(data, end - FRAME_TAIL.size)[0] != size ^ _ALL:
            raise ValueError("a frame that does not end as it began")
        yield kind, data[begin : begin + size], end
        at = end


def frames_name(process: str, number: int) -> str:
    """Name of one file of frames of a process."""
    return f"{process}.{number}.tensors"


def raw_name(process: str, step: int, mode: str) -> str:
    """Name of the file that holds the tensors of one step and mode whole."""
    return f"{process}.{step:09d}-{mode}.safetensors"
