"""Writes rows and whole tensors into the spool, bounded; counts what it drops."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
from collections import deque
from typing import TYPE_CHECKING

from holter.recorder.guard import tell
from holter.recorder.spool.files import RETRY_NS
from holter.recorder.tensors import safetensors
from holter.recorder.tensors.schedule import MODES
from holter.schema import tensor_spool as spool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.recorder.session import Session
    from holter.recorder.tensors.collections import Collection, TensorInfo

NO_DELTAS = (math.nan, math.nan, math.nan)
_FEW_SAVES = 100


class TensorFiles:
    """The tensor files of one process. Frames wait in memory until `flush`, once for each saved step."""

    def __init__(
        self,
        session: Session,
        *,
        file_bytes: int = spool.FILE_BYTES,
        max_files: int = spool.MAX_FILES,
        max_raw_bytes: int = spool.MAX_RAW_BYTES,
    ) -> None:
        self._session = session
        self._file_bytes, self._max_files, self._max_raw_bytes = file_bytes, max_files, max_raw_bytes
        self._estimated = False
        self.collections: dict[str, Collection] = {}
        self._notices: set[str] = set()
        self.dropped: dict[str, int] = {}
        """Frames, and bytes of whole tensors, that were dropped since the last report."""
        self._forget()
        self._ids: dict[tuple[str, tuple[int, int]], int] = {}
        self._facts: list[bytes] = []

    def forked(self) -> None:
        """Start again in a forked child, without the files of the parent."""
        self._forget()
        self.dropped.clear()

    def _forget(self) -> None:
        self._path = ""
        self._number = 0
        self._size = 0
        self._waiting: deque[str] = deque()
        self._raw: deque[tuple[str, int]] = deque()
        self._named: set[int] = set()
        self._told = False
        self._retry_at = 0
        self._frames: list[tuple[int, bytes]] = []

    def id(self, tensor: TensorInfo, part: tuple[int, int] = (0, 0)) -> int:
        """Return the number of a tensor, whose name precedes its first row in each file.

        `part`: the number of its local part, and the number of all parts; 0, 0 if unknown.
        """
        known = self._ids.get((tensor.name, part))
        if known is None:
            known = self._ids[tensor.name, part] = len(self._ids)
            of = [name for name, one in self.collections.items() if one.holds(tensor)]
            fact = {"id": known, "name": tensor.name, "role": tensor.role, "collections": of}
            if part[1]:
                fact |= {"part": part[0], "parts": part[1]}
            self._facts.append(spool.frame(spool.Kind.TENSOR, json.dumps(fact).encode()))
        return known

    def row(
        self,
        when: int,
        step: int,
        mode: int,
        number: int,
        counts: Sequence[int],
        statistics: Sequence[float],
        deltas: Sequence[float] = NO_DELTAS,
        fingerprint: int = 0,
        state: int = 0,
    ) -> None:
        """Keep one row of `tensors`; `counts`, `statistics`, `deltas` as `tensor_spool` lists them."""
        payload = spool.ROW.pack(when, step, number, mode, state, *counts, *statistics, *deltas, fingerprint)
        self._frames.append((number, spool.frame(spool.Kind.ROW, payload)))

    def values(self, when: int, step: int, mode: int, number: int, kind: int, data: bytes) -> None:
        """Keep values of a tensor; `data` are doubles."""
        payload = spool.VALUES.pack(when, step, number, mode, kind) + data
        if len(payload) > spool.MAX_PAYLOAD:
            self.drop("frames", 1)
            return
        self._frames.append((number, spool.frame(spool.Kind.VALUES, payload)))

    def flush(self) -> None:
        """Write the frames in one piece; frames that cannot be written are dropped and counted."""
        frames, self._frames = self._frames, []
        if not frames:
            return
        try:
            if not self._ready():
                self.drop("frames", len(frames))
                return
            new = {number for number, _ in frames} - self._named
            lead = [] if self._told else [self._settings()]
            data = b"".join(
                [*lead, *(self._facts[number] for number in sorted(new)), *(one for _, one in frames)]
            )
            _append(self._path, data)
            self._size += len(data)
            self._named |= new
            self._told = True
            self._tell_dropped()
        except OSError as error:
            self.drop("frames", len(frames))
            self._path = ""  # the file may end in a cut frame: nothing may follow it
            self._retry_at = time.perf_counter_ns() + RETRY_NS
            self._session.fault("tensors.spool", error)

    def save(self, when: int, step: int, mode: int, entries: Sequence[safetensors.Entry]) -> bool:
        """Write whole tensors as one file; return False if they had to be dropped."""
        size = sum(memoryview(data).nbytes for *_, data in entries)
        directory = self._session.spool.directory
        while self._raw and not os.path.exists(self._raw[0][0]):
            self._raw.popleft()
        free = spool.free_bytes(directory)
        self._estimate(size, free)
        waiting = sum(one for _, one in self._raw if os.path.exists(_))
        if waiting + size > self._max_raw_bytes or size + spool.RAW_RESERVE > free:
            self.drop("raw bytes", size)
            self.drop("saves", 1)
            return False
        try:
            self._session.open()
            path = self._session.spool.path(spool.raw_name(self._session.process, step, MODES[mode]))
            metadata = {"step": str(step), "mode": MODES[mode], "time": str(when)}
            written = safetensors.save(path, entries, metadata)
        except OSError as error:
            self.drop("raw bytes", size)
            self.drop("saves", 1)
            self._session.fault("tensors.spool", error)
            return False
        self._raw.append((path, written))
        return True

    def _estimate(self, size: int, free: int) -> None:
        """Warn at the first save if there is little space for more saves of that size."""
        if self._estimated or not size:
            return
        self._estimated = True
        kept = os.environ.get(spool.ENV_KEPT)
        if kept:
            with contextlib.suppress(OSError):  # an object store has no limit
                free = min(free, spool.free_bytes(kept))
        fit = min(free - spool.RAW_RESERVE, spool.RAW_LIMIT) // size
        if fit < _FEW_SAVES:
            tell(
                f"whole tensors take {size / 1e6:.0f} MB at each save: space is left for {max(fit, 0)} saves"
            )

    def tell_once(self, key: str, text: str) -> None:
        """Write a notice to stderr, once for each key."""
        if key not in self._notices:
            self._notices.add(key)
            tell(text)

    def drop(self, what: str, count: int) -> None:
        """Count dropped frames, saves or bytes."""
        self.dropped[what] = self.dropped.get(what, 0) + count

    def describe(self, collections: Iterable[Collection]) -> None:
        """Add collections; their settings are written with the next rows."""
        self.flush()
        self.collections.update({one.name: one for one in collections})
        self._told = False
        # Tensors named before may belong to the new ones.
        self._ids.clear()
        self._facts.clear()
        self._named.clear()

    def end(self) -> None:
        """Write the frames, and report dropped ones."""
        self.flush()
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self.dropped:
            dropped, self.dropped = self.dropped, {}
            self._session.journal("dropped", {"time": time.perf_counter_ns(), "what": "tensors", **dropped})

    def _settings(self) -> bytes:
        text = json.dumps({name: one.to_json() for name, one in self.collections.items()})
        return spool.frame(spool.Kind.COLLECTIONS, text.encode())

    def _ready(self) -> bool:
        """Open a file if necessary; return False if too many wait, or shortly after a failure."""
        if self._path and self._size < self._file_bytes:
            return True
        if time.perf_counter_ns() < self._retry_at:
            return False
        self._path = ""
        while self._waiting and not os.path.exists(self._waiting[0]):
            self._waiting.popleft()
        if len(self._waiting) >= self._max_files:
            self._retry_at = time.perf_counter_ns() + RETRY_NS
            return False
        self._session.open(recording=True)
        self._path = self._session.spool.path(spool.frames_name(self._session.process, self._number))
        self._number += 1
        self._waiting.append(self._path)
        self._size = 0
        self._named.clear()
        self._told = False
        return True


def _append(path: str, data: bytes) -> None:
    """Append in one write. No file stays open: scripts may close every descriptor they find."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(descriptor)
