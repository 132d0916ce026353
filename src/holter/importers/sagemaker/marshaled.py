"""Read statistics of cProfile: plain values as `marshal` writes them, without running `marshal` itself.

The module of the standard library must not be given files of strangers: it can be made to crash, and it
builds code. Statistics are dictionaries, tuples, texts and numbers; nothing else is read here, and no more
than the file holds.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec

from holter.importers.report import UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 1 << 28
"""Bytes of a file, at most."""
_DEEPEST = 16
_LONGEST = 8
"""Digits of a number, of 15 bits each."""

Function = tuple[str, int, str]
"""File, line and name."""
Counts = tuple[int, int, float, float]
"""Primitive calls, calls, seconds in it, seconds in it and in what it called."""
Statistics = dict[Function, tuple[int, int, float, float, dict[Function, Counts]]]
"""What `pstats.Stats` keeps: counts of each function, and with them those by caller."""

_END = object()
_CONSTANTS = {b"N": None, b"T": True, b"F": False, b"0": _END}
_SHORT = {b"z": "ascii", b"Z": "ascii"}
_LONG = {b"a": "ascii", b"A": "ascii", b"u": "utf-8", b"t": "utf-8", b"s": "latin-1"}


def statistics(path: Path) -> Statistics:
    """Read the statistics that a file of cProfile holds.

    Raises:
        UnreadableError: It holds something else; the text says what is wrong, and where.
        OSError: It cannot be opened.
    """
    if path.stat().st_size > LARGEST:
        raise UnreadableError(f"{path.stat().st_size} bytes are more than statistics have")
    found = _Reader(path.read_bytes()).value()
    try:
        return msgspec.convert(found, Statistics)
    except msgspec.ValidationError:
        raise UnreadableError("it holds no statistics of cProfile") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._kept: list[Any] = []

    def value(self, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise UnreadableError(f"values lie more than {_DEEPEST} deep, at byte {self._at}")
        code = self._take(1)[0]
        kind, keeps = bytes([code & 0x7F]), bool(code & 0x80)
        place = len(self._kept)
        if keeps:
            self._kept.append(_END)  # what is kept is numbered as it begins
        found = self._of(kind, depth)
        if keeps:
            self._kept[place] = found
        return found

    def _of(self, kind: bytes, depth: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == b"i":
            return self._number("<i")
        if kind == b"g":
            return self._number("<d")
        if kind == b"l":
            return self._long()
        if kind == b"r":
            return self._again()
        if kind in _SHORT:
            return self._text(self._take(1)[0], _SHORT[kind])
        if kind in _LONG:
            return self._text(self._number("<i"), _LONG[kind])
        if kind in b"()":
            count = self._take(1)[0] if kind == b")" else self._number("<i")
            return tuple(self.value(depth + 1) for _ in range(self._possible(count)))
        if kind == b"{":
            return self._dictionary(depth)
        raise UnreadableError(f"a value of kind {kind!r} at byte {self._at - 1}")

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while (key := self.value(depth + 1)) is not _END:
            try:
                found[key] = self.value(depth + 1)
            except TypeError:
                raise UnreadableError(f"an invalid key at byte {self._at}") from None
        return found

    def _again(self) -> Any:
        number = self._number("<i")
        if not 0 <= number < len(self._kept) or self._kept[number] is _END:
            raise UnreadableError(f"a value that was not told before, at byte {self._at}")
        return self._kept[number]

    def _long(self) -> int:
        count: int = self._number("<i")
        if abs(count) > _LONGEST:
            raise UnreadableError(f"a number of {abs(count)} digits at byte {self._at}")
        digits = struct.unpack(f"<{self._possible(abs(count))}H", self._take(2 * abs(count)))
        total: int = sum(digit << 15 * place for place, digit in enumerate(digits))
        return -total if count < 0 else total

    def _text(self, length: int, coding: str) -> str:
        return self._take(length).decode(coding, "replace")

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _possible(self, count: int) -> int:
        """Return a count; each of what is counted takes a byte at least."""
        if not 0 <= count <= len(self._data) - self._at:
            raise UnreadableError(f"{count} values in the {len(self._data) - self._at} bytes that are left")
        return int(count)

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise UnreadableError(f"it ends at byte {len(self._data)}, within a value")
        self._at += count
        return self._data[self._at - count : self._at]
