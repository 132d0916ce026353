"""Reads Horovod's timeline from the file in `HOROVOD_TIMELINE`: negotiations and exchanges."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.agent.drain.clock import Clock
    from holter.store.documents import Document
    from holter.store.parquet.columns import Columns

VARIABLE = "HOROVOD_TIMELINE"
DYNAMIC = "DYNAMIC"
"""The value of the variable when the script names the file itself."""
LOOK_S = 2.0
AT_ONCE = 4 << 20
"""Bytes read at a time."""
MAX_LINE = 1 << 16
MAX_OPEN = 10_000
"""Slices that have begun and not ended, in all lanes."""
_RANK = 0
"""Only the coordinator writes a timeline."""


class HorovodTimeline:
    """One file that grows. What stood in it before the job is another job's, until Horovod begins it anew."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.more = False
        """There is more to read: poll again."""
        self._clock = clock
        self._before = self._state()
        self._offset = 0
        self._base: int | None = None
        self._lanes: dict[int, str] = {}
        self._open: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        self._due = 0.0
        self._slices: list[tuple[int, int, int, str, str]] = []
        self._tracks: list[tuple[int, str]] = []

    def poll(self, *, final: bool = False) -> dict[str, Columns]:
        """Return new columns of `operators` and `tracks`, at most every `LOOK_S`. Raises `OSError`."""
        now = time.monotonic()
        if now < self._due and not (final or self.more):
            return {}
        self._due = now + LOOK_S
        for event in self._events():
            with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
                self._take(event)
        return self._columns()

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _events(self) -> Iterator[Document]:
        """Yield events of whole lines that have come since, in the order of the file."""
        state = self._state()
        self.more = False
        if state is None or state == self._before:
            return
        self._before = None
        if state[1] < self._offset:  # begun anew
            self._offset, self._base = 0, None
            self._lanes.clear()
            self._open.clear()
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(AT_ONCE)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == AT_ONCE:
            end = AT_ONCE  # no line is so long
        self._offset += end
        self.more = len(data) == AT_ONCE
        for line in data[:end].splitlines():
            text = line.strip().rstrip(b",")
            if text in (b"", b"[", b"]"):
                continue
            try:
                event = json.loads(text) if len(text) <= MAX_LINE else None
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict):
                yield event

    def _take(self, event: Document) -> None:
        kind, lane, name = str(event["ph"]), int(event["pid"]), str(event.get("name", ""))
        if kind == "M":
            given = event["args"]
            if "start_time_since_epoch_in_micros" in given:
                self._base = int(given["start_time_since_epoch_in_micros"]) * 1000
            elif name == "process_name":
                self._lanes[lane] = str(given["name"])
                self._tracks.append((lane, self._lanes[lane]))
            return
        when = self._wall(float(event["ts"]))
        if kind == "B":
            if sum(map(len, self._open.values())) < MAX_OPEN:
                self._open[lane].append((name, when))
        elif kind == "E":
            if self._open[lane]:
                begun, begin = self._open[lane].pop()
                self._slices.append((begin, max(when - begin, 0), lane, begun, "operator"))
        elif kind == "X":
            self._slices.append((when, max(int(float(event["dur"]) * 1000), 0), lane, name, "operator"))
        elif kind in "iI":
            self._slices.append((when, 0, lane, name, "annotation"))

    def _wall(self, microseconds: float) -> int:
        """Return ns since the epoch: the file says when it began, or its times are of the monotonic clock."""
        relative = int(microseconds * 1000)
        if self._base is None:
            now = time.monotonic_ns()
            near = abs(now - relative) < 3600 * 10**9
            self._base = self._clock.offset if near else self._clock.time_ns() - relative
        return self._base + relative

    def _columns(self) -> dict[str, Columns]:
        found: dict[str, Columns] = {}
        slices, self._slices = sorted(self._slices), []
        tracks, self._tracks = self._tracks, []
        if slices:
            times, durations, lanes, names, kinds = map(list, zip(*slices, strict=True))
            details = [
                json.dumps({"tensor": self._lanes[one]}) if one in self._lanes else "" for one in lanes
            ]
            found["operators"] = {
                "time": times, "duration": durations, "thread": lanes, "name": names, "kind": kinds,
                "detail": details, **_same(len(slices), rank=_RANK, step=-1),
            }  # fmt: skip
        if tracks:
            lanes, names = map(list, zip(*tracks, strict=True))
            count = len(tracks)
            found["tracks"] = {
                "thread": lanes, "name": names, "position": lanes, "kind": ["thread"] * count,
                **_same(count, time=self._clock.time_ns(), rank=_RANK, process=-1, device=-1),
            }  # fmt: skip
        return found


def timeline(environment: Mapping[str, str], clock: Clock) -> HorovodTimeline | None:
    """Return the timeline that the environment asks for; None without one."""
    named = environment.get(VARIABLE, "")
    return HorovodTimeline(Path(os.path.abspath(named)), clock) if named and named != DYNAMIC else None


def _same(count: int, **values: int) -> dict[str, list[int]]:
    return {name: [value] * count for name, value in values.items()}
