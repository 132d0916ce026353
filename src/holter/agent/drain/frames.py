"""Read one process's tensor frames, file by file, each frame once."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

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


class Frames:
    """The files of one process; `take` gives what is new."""

    def __init__(self, folder: Path, process: str) -> None:
        self.folder = folder
        self.process = process
        self.damaged = 0
        self.collections: dict[str, Any] = {}
        """The latest settings of the process, by name."""
        self.spent: list[tuple[Path, int]] = []
        """Completely read files with the time; the pipeline removes them once the rows are stored."""
        self._done = -1
        """Files up to this number are spent."""
        self._began = 0
        self._number: int | None = None
        self._offset = 0
        self._tensors: dict[int, dict[str, Any]] = {}

    def take(
        self, numbers: list[int], *, final: bool
    ) -> tuple[list[tuple[dict[str, Any], bytes]], list[Values]]:
        """Return new rows and values, each with the tensor it belongs to.

        Args:
            numbers: Numbers of the files that exist, in order.
            final: The process has ended: what is cut stays so.
        """
        rows: list[tuple[dict[str, Any], bytes]] = []
        values: list[Values] = []
        numbers = [number for number in numbers if number > self._done]
        while numbers:
            if self._number not in numbers:
                self._number, self._offset, self._tensors = numbers[0], 0, {}
                self._began = time.monotonic_ns()
            path = self.folder / spool.frames_name(self.process, self._number)
            found, left = self._read(path, rows, values)
            closed = final or self._number < numbers[-1]
            if not closed:
                break
            if found:
                continue
            self.damaged += left > 0  # a frame that will never be whole
            self.spent.append((path, self._began))
            self._done = self._number
            numbers = [number for number in numbers if number > self._done]
        return rows, values

    def _read(
        self, path: Path, rows: list[tuple[dict[str, Any], bytes]], values: list[Values]
    ) -> tuple[int, int]:
        """Read on; return how many bytes were taken, and how many are there that are no whole frame."""
        try:
            with open(path, "rb") as file:
                file.seek(self._offset)
                data = file.read(_CHUNK + spool.MAX_PAYLOAD if self._stuck(path) else _CHUNK)
        except OSError:
            return 0, 0
        at = 0
        try:
            for kind, payload, end in spool.frames(data):
                at = end
                self._frame(kind, payload, rows, values)
        except ValueError:
            self.damaged += 1
            at = len(data)  # nothing after it can be found
        self._offset += at
        return at, len(data) - at

    def _stuck(self, path: Path) -> bool:
        """Whether the next frame may be larger than a chunk."""
        return path.stat().st_size - self._offset > _CHUNK

    def _frame(
        self, kind: int, payload: bytes, rows: list[tuple[dict[str, Any], bytes]], values: list[Values]
    ) -> None:
        if kind == spool.Kind.TENSOR:
            told = json.loads(payload)
            self._tensors[int(told["id"])] = told
        elif kind == spool.Kind.COLLECTIONS:
            self.collections.update(json.loads(payload))
        elif kind == spool.Kind.ROW and len(payload) == spool.ROW.size:
            tensor = self._tensors.get(int.from_bytes(payload[12:16], "little"))
            if tensor is None:
                self.damaged += 1
            else:
                rows.append((tensor, payload))
        elif kind == spool.Kind.VALUES and len(payload) >= spool.VALUES.size:
            when, step, number, mode, what = spool.VALUES.unpack_from(payload)
            tensor = self._tensors.get(number)
            if tensor is None:
                self.damaged += 1
            else:
                numbers = np.frombuffer(payload, "<f8", offset=spool.VALUES.size)
                values.append((tensor, when, step, mode, what, numbers))


Values = tuple[dict[str, Any], int, int, int, int, "NDArray[Any]"]
"""Tensor, time (monotonic ns), step, mode, kind, elements."""
