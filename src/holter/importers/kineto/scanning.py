"""Take lists of trace events apart in C, where a compiler is at hand: columns of usual ones, text of others.

What msgspec decodes costs an object an event and a dozen loops over these; `scanning.c` makes
neither. It knows categories and fields by `RULES`; of any other event, and of one with a field of another
type than usual, it tells where it lies, and of a text that is no JSON nothing at all.
"""

from __future__ import annotations

import ctypes
import functools
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from holter.schema.compiled import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NUMBERS = 6
"""Numbers that an event may carry."""
NONE = -(2**63)
"""What stands for a number that an event does not carry."""
MOST_ROWS = 1 << 15
"""Events of one text that are taken apart."""
STRETCH, ARROW, MARK = range(3)
"""Sorts of categories: stretches of time; arrows, which are only counted; marks of the allocator."""
OTHERS = 127
"""What becomes of an event that carries a field: it is left to others."""
_NUMBER, _DETAIL = 1, 32
_NAMES, _CARRIED = range(2)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


class ScanRule(NamedTuple):
    """What is taken of the events of a category."""

    category: str
    sort: int = STRETCH
    numbers: Sequence[str] = ()
    """Fields that become numbers, in this order."""
    details: Sequence[str] = ()
    """Fields that are kept as they are written, in this order, as one text."""
    others: Sequence[str] = ()
    """Fields that only others understand. What is not named here is dropped."""


class Scanned(NamedTuple):
    """The usual events of a text, a row each, in its order. Void with the next text."""

    category: NDArray[np.int8]
    """Which of the rules."""
    name: NDArray[np.int32]
    detail: NDArray[np.int32]
    """Which text; -1 for none."""
    process: NDArray[np.int64]
    thread: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Row by row, `NUMBERS` of each; `NONE` for what is not there."""
    time: NDArray[np.float64]
    duration: NDArray[np.float64]
    """Microseconds, as written."""
    omitted: int
    """Arrows, which have no rows."""
    events: int
    """All events that others need not look at."""


class _Rules(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64 if name in ("keys", "categories") else ctypes.c_void_p)
        for name in (
            *("key_bytes", "key_ends", "keys", "category_bytes", "category_ends", "categories"),
            *("sorts", "actions"),
        )
    ]


_ARRAYS = {
    "category": np.int8,
    "name": np.int32,
    "detail": np.int32,
    "process": np.int64,
    "thread": np.int64,
    "numbers": np.int64,
    "time": np.float64,
    "duration": np.float64,
    "begins": np.int64,
    "ends": np.int64,
}


class _Columns(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("room", "rows", "others", "omitted")),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    ]


def compiled() -> bool:
    """Return whether the build has compiled what takes events apart."""
    return _library() is not None


@functools.cache
def _library() -> Any:
    library = load(Path(__file__).with_name("scanning.c"))
    if library is None:
        return None
    address = ctypes.c_void_p
    library.holter_scanner.argtypes, library.holter_scanner.restype = [ctypes.c_uint64], address
    library.holter_scan.argtypes = [address, address, address, address, ctypes.c_int64]
    library.holter_scan.restype = ctypes.c_int64
    library.holter_texts.argtypes = [address, ctypes.c_int32, address, address]
    library.holter_texts.restype = ctypes.c_int64
    library.holter_forget.argtypes, library.holter_forget.restype = [address], None
    library.holter_end.argtypes, library.holter_end.restype = [address], None
    return library


class Scanner:
    """Takes the texts of one file apart.

    Raises:
        LookupError: Nothing is compiled here, or not for this user.
    """

    def __init__(self, rules: Sequence[ScanRule]) -> None:
        self._library = _library()
        if self._library is None:
            raise LookupError("nothing is compiled that takes events apart")
        self._kept: list[Any] = []
        self._rules = self._spelled(rules)
        self._arrays = {
            name: np.empty(MOST_ROWS * (NUMBERS if name == "numbers" else 1), kind)
            for name, kind in _ARRAYS.items()
        }
        places = {name: array.ctypes.data for name, array in self._arrays.items()}
        self._columns = _Columns(room=MOST_ROWS, **places)
        self._scanner = self._library.holter_scanner(int.from_bytes(os.urandom(8), "little"))
        if not self._scanner:
            raise MemoryError("no room for what takes events apart")
        self._seen = [0, 0]

    def close(self) -> None:
        """Give back its memory; it cannot be used any more."""
        if self._scanner:
            self._library.holter_end(self._scanner)
            self._scanner = None

    def scan(self, text: memoryview) -> tuple[Scanned, bytes] | None:
        """Take a list of events apart: the usual ones, and the others as a list; None if it is no JSON."""
        whole = np.frombuffer(text, np.uint8)
        found = ctypes.byref(self._columns)
        count = self._library.holter_scan(
            self._scanner, ctypes.byref(self._rules), found, whole.ctypes.data, len(whole)
        )
        if count < 0:
            return None
        rows, others = self._columns.rows, self._columns.others
        taken = {name: self._arrays[name][:rows] for name in Scanned._fields if name in self._arrays}
        taken["numbers"] = self._arrays["numbers"][: rows * NUMBERS].reshape(rows, NUMBERS)
        places = zip(
            self._arrays["begins"][:others].tolist(), self._arrays["ends"][:others].tolist(), strict=True
        )
        rest = b"[" + b",".join([text[begin:end] for begin, end in places]) + b"]"
        return Scanned(**taken, omitted=self._columns.omitted, events=count - others), rest

    def new_names(self) -> list[str]:
        """Return the names that were met since this was asked last, in the order of their numbers.

        Raises:
            ValueError: One is no text.
        """
        escaped = msgspec.json.decode
        return [
            escaped(b'"' + raw + b'"', type=str) if b"\\" in raw else raw.decode()
            for raw in self._new(_NAMES)
        ]

    def new_details(self) -> list[bytes]:
        """Return the details that were met since this was asked last, in the order of their numbers.

        Raises:
            ValueError: One is no JSON.
        """
        texts = self._new(_CARRIED)
        _RAWS.decode(b"[" + b",".join(texts) + b"]")
        b"".join(texts).decode()
        return texts

    def forget(self) -> None:
        """Number texts anew from here on."""
        self._library.holter_forget(self._scanner)
        self._seen = [0, 0]

    def _new(self, table: int) -> list[bytes]:
        at, ends = ctypes.c_void_p(), ctypes.c_void_p()
        count = self._library.holter_texts(self._scanner, table, ctypes.byref(at), ctypes.byref(ends))
        known, self._seen[table] = self._seen[table], count
        if count == known:
            return []
        told = (ctypes.c_int64 * count).from_address(ends.value or 0)
        first = told[known - 1] if known else 0
        whole = ctypes.string_at((at.value or 0) + first, told[count - 1] - first)
        places = [first, *told[known:count]]
        return [whole[a - first : b - first] for a, b in pairwise(places)]

    def _spelled(self, rules: Sequence[ScanRule]) -> _Rules:
        keys = list(
            dict.fromkeys(key for rule in rules for key in (*rule.numbers, *rule.details, *rule.others))
        )
        actions = np.zeros((len(rules), len(keys)), np.int8)
        for row, rule in enumerate(rules):
            for first, named in ((_NUMBER, rule.numbers), (_DETAIL, rule.details)):
                for place, key in enumerate(named):
                    actions[row, keys.index(key)] = first + place
            for key in rule.others:
                actions[row, keys.index(key)] = OTHERS
        sorts = np.array([rule.sort for rule in rules], np.int8)
        told = {"keys": len(keys), "categories": len(rules)}
        for word, texts in (("key", keys), ("category", [rule.category for rule in rules])):
            spelled = [text.encode() for text in texts]
            joined = np.frombuffer(b"".join(spelled), np.uint8)
            ends = np.cumsum([len(text) for text in spelled], dtype=np.int64)
            self._kept += [joined, ends]
            told |= {f"{word}_bytes": joined.ctypes.data, f"{word}_ends": ends.ctypes.data}
        self._kept += [actions, sorts]
        return _Rules(**told, sorts=sorts.ctypes.data, actions=actions.ctypes.data)
