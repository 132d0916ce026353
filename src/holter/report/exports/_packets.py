"""Encodes packets of a Perfetto trace: tracks, nested slices, counters and arrows; each name is written once.

Numbers of fields: Perfetto's `trace_packet.proto`, `track_event.proto` and `track_descriptor.proto`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import IO

from holter.schema.protobuf import bytes_field, double_field, fixed64_field, number_field, text_field
from holter.schema.varint import varint

BOOT_TIME, REAL_TIME = 6, 1
_BEGIN, _END, _COUNTER = (number_field(9, type_) for type_ in (1, 2, 4))
_SEQUENCE = number_field(10, 1)
_CLEARED, _NEEDS_NAMES = number_field(13, 1), number_field(13, 2)
_TIME = varint(8 << 3)
_EXPLICIT = 3
_BY_KEY, _NOT_MERGED = 3, 2


@lru_cache(maxsize=65536)
def argument(name: str, value: int | str) -> bytes:
    """Encode an argument of an event, a number or text."""
    fields = number_field(4, value) if isinstance(value, int) else text_field(6, value)
    return bytes_field(4, text_field(10, name) + fields)


def arrow(arrow: int, *, ends: bool = False) -> bytes:
    """Encode the begin or the end of an arrow at an event."""
    return fixed64_field(48 if ends else 47, arrow)


class Packets:
    """Writes packets of one sequence to a file."""

    def __init__(self, file: IO[bytes], base: int) -> None:
        """Begin a trace whose times are ns since the epoch, the first of them `base`."""
        self._file = file
        self._numbers: dict[tuple[int, str], bytes] = {}
        self._open: dict[int, list[int]] = {}
        """End times of the open slices of each track, the innermost last."""
        self._beside: dict[int, list[int]] = {}
        """Extra tracks for slices that do not nest."""
        self._next = 1 << 40
        self._base = base - 1
        clocks = ((BOOT_TIME, 1), (REAL_TIME, base))
        fields = b"".join(
            bytes_field(1, number_field(1, clock) + number_field(2, time)) for clock, time in clocks
        )
        self._write(_SEQUENCE + _CLEARED + bytes_field(6, fields))

    def process(self, track: int, process: int, name: str, position: int) -> None:
        """Declare a process."""
        fields = number_field(1, process) + text_field(6, name) + number_field(3, position)
        self._write(
            _SEQUENCE
            + bytes_field(60, number_field(1, track) + bytes_field(3, fields) + number_field(11, _EXPLICIT))
        )

    def row(self, track: int, parent: int, name: str, position: int) -> None:
        """Declare a row of slices of a process."""
        self._track(track, parent, name, position, number_field(15, _NOT_MERGED))

    def counter(self, track: int, parent: int, name: str, unit: str = "") -> None:
        """Declare a counter of a process."""
        self._track(track, parent, name, 1 << 20, bytes_field(8, text_field(6, unit) if unit else b""))

    def slice(self, track: int, begin: int, end: int, category: str, name: str, more: bytes = b"") -> None:
        """Write a slice; those of a track come in the order of begin, the longer first. Times in ns.

        A slice that overlaps another one without lying inside it goes to an extra track. `more` holds encoded
        fields of the event: `argument`, `arrow`.
        """
        for place in (track, *self._beside.get(track, ())):
            around = self._open.get(place)
            if around is None:
                around = self._open[place] = []
            while around and around[-1] <= begin:
                self._event(around.pop(), _END + number_field(11, place))
            if not around or end <= around[-1]:
                break
        else:
            place = self._next = self._next + 1
            self._beside.setdefault(track, []).append(place)
            self._track(place, track, "overlapping", 0, number_field(15, _BY_KEY) + number_field(17, track))
            around = self._open[place] = []
        around.append(end)
        fresh: list[bytes] = []
        names = self._name(3, 1, category, fresh) + self._name(10, 2, name, fresh)
        interned = bytes_field(12, b"".join(fresh)) if fresh else b""
        self._event(begin, _BEGIN + number_field(11, place) + names + more, interned)

    def value(self, track: int, at: int, value: float) -> None:
        """Write a value of a counter."""
        self._event(at, _COUNTER + number_field(11, track) + double_field(44, value))

    def close(self) -> None:
        """Write the ends of all slices."""
        for track, around in self._open.items():
            while around:
                self._event(around.pop(), _END + number_field(11, track))

    def _track(self, track: int, parent: int, name: str, position: int, more: bytes) -> None:
        fields = (
            number_field(1, track)
            + number_field(5, parent)
            + text_field(2, name)
            + number_field(12, position)
            + more
        )
        self._write(_SEQUENCE + bytes_field(60, fields))

    def _name(self, field: int, kind: int, name: str, fresh: list[bytes]) -> bytes:
        known = self._numbers.get((kind, name))
        if known is None:
            place = len(self._numbers) + 1
            known = self._numbers[kind, name] = number_field(field, place)
            fresh.append(bytes_field(kind, number_field(1, place) + text_field(2, name)))
        return known

    def _event(self, at: int, event: bytes, interned: bytes = b"") -> None:
        self._write(
            _TIME + varint(at - self._base) + _SEQUENCE + _NEEDS_NAMES + interned + bytes_field(11, event)
        )

    def _write(self, packet: bytes) -> None:
        self._file.write(b"\x0a" + varint(len(packet)) + packet)
