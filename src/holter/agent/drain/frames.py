"""Read one process's tensor frames, file by file, each frame once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from holter.schema import tensor_spool as spool

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ROW = np.dtype(
    [
        ("time", "<i8"),
        ("step", "<i4"),
        ("name", "<u4"),
        ("mode", "u1"),
        ("state", "u1"),
        ("", "V2"),
        *((name, "<i8") for name in spool.COUNTS),
        *((name, "<f8") for name in (*spool.STATISTICS, *spool.DELTAS)),
        ("fingerprint", "<i8"),
    ]
)
assert ROW.itemsize == spool.ROW.size  # noqa: S101 - the two declarations of the format must agree

_CHUNK = 4 << 20


class TensorFact(msgspec.Struct):
    """A tensor, or a part of one, as its process describes it."""

    id: int
    name: str
    role: str
    collections: list[str] = []
    part: int = 0
    parts: int = 0


class TensorValues(NamedTuple):
    """Values of one tensor at one step."""

    tensor: TensorFact
    time: int
    """Monotonic ns."""
    step: int
    mode: int
    kind: int
    elements: NDArray[np.float64]


Rows = list[tuple[TensorFact, bytes]]


class Frames:
    """The files of one process; `take` gives what is new."""

    def __init__(self, folder: Path, process: str, spent: list[tuple[Path, int]]) -> None:
        """Read the files of a process; `spent` gets each that is read completely, with the time."""
        self.folder = folder
        self.process = process
        self.collections: dict[str, dict[str, object]] = {}
        """The latest settings of the process, by name."""
        self._spent = spent
        self._done = -1
        """Files up to this number are spent."""
        self._began = 0
        self._number: int | None = None
        self._offset = 0
        self._tensors: dict[int, TensorFact] = {}

    def take(self, numbers: list[int], *, final: bool) -> tuple[Rows, list[TensorValues]]:
        """Return new rows and values, each with its tensor; `numbers` are the files that exist, in order.

        `final`: the process has ended, so no more comes after an incomplete frame.
        """
        rows: Rows = []
        values: list[TensorValues] = []
        numbers = [number for number in numbers if number > self._done]
        while numbers:
            if self._number not in numbers:
                self._number, self._offset, self._tensors = numbers[0], 0, {}
                self._began = time.monotonic_ns()
            path = self.folder / spool.frames_name(self.process, self._number)
            found = self._read(path, rows, values)
            closed = final or self._number < numbers[-1]
            if not closed:
                break
            if found:
                continue
            self._spent.append((path, self._began))
            self._done = self._number
            numbers = [number for number in numbers if number > self._done]
        return rows, values

    def _read(self, path: Path, rows: Rows, values: list[TensorValues]) -> int:
        """Read on; return the number of bytes that were taken."""
        try:
            with open(path, "rb") as file:
                file.seek(self._offset)
                # The next frame may be larger than a chunk.
                large = path.stat().st_size - self._offset > _CHUNK
                data = file.read(_CHUNK + spool.MAX_PAYLOAD if large else _CHUNK)
        except OSError:
            return 0
        at = 0
        try:
            for kind, payload, end in spool.frames(data):
                at = end
                self._frame(kind, payload, rows, values)
        except ValueError:
            at = len(data)  # nothing after it can be found
        self._offset += at
        return at

    def _frame(self, kind: int, payload: bytes, rows: Rows, values: list[TensorValues]) -> None:
        try:
            if kind == spool.Kind.TENSOR:
                tensor = msgspec.json.decode(payload, type=TensorFact)
                self._tensors[tensor.id] = tensor
            elif kind == spool.Kind.COLLECTIONS:
                self.collections |= msgspec.json.decode(payload, type=dict[str, dict[str, object]])
            elif kind == spool.Kind.ROW and len(payload) == spool.ROW.size:
                rows.append((self._tensors[int.from_bytes(payload[12:16], "little")], payload))
            elif kind == spool.Kind.VALUES and len(payload) >= spool.VALUES.size:
                when, step, number, mode, what = spool.VALUES.unpack_from(payload)
                elements = np.frombuffer(payload, "<f8", offset=spool.VALUES.size)
                values.append(TensorValues(self._tensors[number], when, step, mode, what, elements))
        except KeyError:
            pass  # damage: the tensor is not described
