"""Packets of a Perfetto trace: tracks, slices that nest, values of counters, arrows; names are sent once.

Numbers of fields: Perfetto's `trace_packet.proto`, `track_event.proto` and `track_descriptor.proto`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import IO

from holter.report.exports._protobuf import double, fixed64, message, number, text
from holter.schema.varint import varint

BOOT_TIME, REAL_TIME = 6, 1
_BEGIN, _END, _COUNTER = (number(9, type_) for type_ in (1, 2, 4))
_SEQUENCE = number(10, 1)
_CLEARED, _NEEDS_NAMES = number(13, 1), number(13, 2)
_TIME = varint(8 << 3)
_EXPLICIT = 3
_BY_KEY, _NOT_MERGED = 3, 2


@lru_cache(maxsize=65536)
def argument(name: str, value: int | str) -> bytes:
    """Encode what an event says besides: a number, or text."""
    told = number(4, value) if isinstance(value, int) else text(6, value)
    return message(4, text(10, name) + told)


def arrow(arrow: int, *, ends: bool = False) -> bytes:
    """Encode that an arrow begins, or ends, at an event."""
    return fixed64(48 if ends else 47, arrow)


class Packets:
    """Writes packets of one sequence to a file."""

    def __init__(self, file: IO[bytes], base: int) -> None:
        """Begin a trace whose times are ns since the epoch, the first of them `base`."""
        self._file = file
        self._numbers: dict[tuple[int, str], bytes] = {}
        self._open: dict[int, list[int]] = {}
        """Slices of each track that have not ended: when they will, the innermost last."""
        self._beside: dict[int, list[int]] = {}
        """Tracks that take what does not nest in a track."""
        self._next = 1 << 40
        self._base = base - 1
        clocks = ((BOOT_TIME, 1), (REAL_TIME, base))
        told = b"".join(message(1, number(1, clock) + number(2, time)) for clock, time in clocks)
        self._write(_SEQUENCE + _CLEARED + message(6, told))

    def process(self, track: int, process: int, name: str, position: int) -> None:
        """Declare a process."""
        told = number(1, process) + text(6, name) + number(3, position)
        self._write(_SEQUENCE + message(60, number(1, track) + message(3, told) + number(11, _EXPLICIT)))

    def row(self, track: int, parent: int, name: str, position: int) -> None:
        """Declare a row of slices of a process."""
        self._track(track, parent, name, position, number(15, _NOT_MERGED))

    def counter(self, track: int, parent: int, name: str, unit: str = "") -> None:
        """Declare a counter of a process."""
        self._track(track, parent, name, 1 << 20, message(8, text(6, unit) if unit else b""))

    def slice(self, track: int, begin: int, end: int, category: str, name: str, more: bytes = b"") -> None:
        """Write a slice; those of a track come in the order of begin, the longer first. Times in ns.

        A slice that overlaps another without lying in it goes to a track beside.

        Args:
            track: Its track.
            begin: Begin.
            end: End.
            category: What kind of event it is.
            name: What it is called.
            more: Encoded fields of the event: `argument`, `arrow`.
        """
        for place in (track, *self._beside.get(track, ())):
            around = self._open.get(place)
            if around is None:
                around = self._open[place] = []
            while around and around[-1] <= begin:
                self._event(around.pop(), _END + number(11, place))
            if not around or end <= around[-1]:
                break
        else:
            place = self._next = self._next + 1
            self._beside.setdefault(track, []).append(place)
            self._track(place, track, "overlapping", 0, number(15, _BY_KEY) + number(17, track))
            around = self._open[place] = []
        around.append(end)
        fresh: list[bytes] = []
        names = self._name(3, 1, category, fresh) + self._name(10, 2, name, fresh)
        interned = message(12, b"".join(fresh)) if fresh else b""
        self._event(begin, _BEGIN + number(11, place) + names + more, interned)

    def value(self, track: int, at: int, value: float) -> None:
        """Write a value of a counter."""
        self._event(at, _COUNTER + number(11, track) + double(44, value))

    def close(self) -> None:
        """Write the ends of all slices."""
        for track, around in self._open.items():
            while around:
                self._event(around.pop(), _END + number(11, track))

    def _track(self, track: int, parent: int, name: str, position: int, more: bytes) -> None:
        told = number(1, track) + number(5, parent) + text(2, name) + number(12, position) + more
        self._write(_SEQUENCE + message(60, told))

    def _name(self, field: int, kind: int, name: str, fresh: list[bytes]) -> bytes:
        known = self._numbers.get((kind, name))
        if known is None:
            place = len(self._numbers) + 1
            known = self._numbers[kind, name] = number(field, place)
            fresh.append(message(kind, number(1, place) + text(2, name)))
        return known

    def _event(self, at: int, event: bytes, interned: bytes = b"") -> None:
        self._write(
            _TIME + varint(at - self._base) + _SEQUENCE + _NEEDS_NAMES + interned + message(11, event)
        )

    def _write(self, packet: bytes) -> None:
        self._file.write(b"\x0a" + varint(len(packet)) + packet)
