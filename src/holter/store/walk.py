"""Few rows as symbols: each column by what its rows before say, and other columns of its row.

Columns of few different values come first, then quantities. Begins and durations are told as what happens, in
order of time: a row begins, or one of those that are open ends.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holter.store.coder import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.coder import Coder

MOST_VALUES = 1 << 16
"""So many are written into one file, or read from it: each takes some 10 us."""
_CONSTANT, _LISTED, _PLAIN, _DIFFERENCES, _EVENTS, _ONE_TEXT, _TEXTS = range(7)


class Walk:
    """Walks through tables of whole numbers, to write or to read them."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._ways = Model(7)
        self._tables = 0
        self._values = 0
        self._recent: tuple[list[int], list[int]] = [], []
        """Numbers, and texts, that were told as values; the last first."""
        self._moments: list[int] = []
        """When rows of the tables before began and ended, in order."""
        self._lanes: list[int] = []
        """Of each row of this table, what it is in the first column that has few different values …"""
        self._keys: list[int] = []
        """… and in all others that have."""
        self.texts = 0
        """So many texts were told: the first is 0, each new one the next."""

    def table(
        self,
        rows: int,
        width: int,
        given: Sequence[Sequence[int]] = (),
        texts: Sequence[bool] = (),
        *,
        timed: bool = True,
        lasting: bool = False,
    ) -> tuple[list[Sequence[int]], list[bool]]:
        """Write columns, or read them; returns them, and which are numbers of texts.

        Args:
            rows: How many there are.
            width: How many columns there are.
            given: The columns, to write them.
            texts: Which of them are numbers of texts, to write them.
            timed: Whether the first says when rows begin.
            lasting: Whether the second says how long they last; asked when written.

        Raises:
            ValueError: There are more than such a file holds.
        """
        self._tables += 1
        self._values += rows * width
        if rows < 1 or self._values > MOST_VALUES:
            raise ValueError("more values than such a file holds")
        columns: list[Sequence[int]] = list(given) or [()] * width
        wanted = [_way(*one) for one in zip(given, texts, strict=True)] or [0] * width
        if lasting and _are_events(*columns[:2]):
            wanted[:2] = _EVENTS, _EVENTS
        ways: list[int] = []
        for way in wanted:
            column = timed, len(ways)
            ways.append(self._coder.symbol(self._ways, [(), column, (column, *ways[-1:])], way))
        self._lanes, self._keys = [0] * rows, [0] * rows
        listed = 0
        for place, way in enumerate(ways):
            if way in (_CONSTANT, _ONE_TEXT):
                first = self._moments[0] if self._moments and timed and not place else 0
                columns[place] = [self.value(way == _ONE_TEXT, place, columns[place], first)] * rows
            elif way in (_LISTED, _TEXTS):
                columns[place] = self._listed(rows, way == _TEXTS, place, columns[place])
                if listed:
                    self._keys = numbered(zip(self._keys, columns[place], strict=True))
                else:
                    self._lanes = numbered(columns[place])
                listed += 1
        for place, way in enumerate(ways):
            if way in (_PLAIN, _DIFFERENCES):
                columns[place] = self._quantities(rows, way, place, columns[place])
        if _EVENTS in ways:
            columns[:2] = self._events(rows, *columns[:2])
        return columns, [way in (_ONE_TEXT, _TEXTS) for way in ways]

    def value(self, text: bool, place: int, given: Sequence[int] = (), last: int = 0) -> int:
        """Write a value, or read it: an old one by how many came since, a new number by one that is near."""
        coder, recent = self._coder, self._recent[text]
        since = recent.index(given[0]) + 1 if given and given[0] in recent else 0
        since = coder.number([(), ("since", text), ("since", text, place)], since)
        if since:
            value = recent.pop(since - 1)
        elif text:
            value = self.texts
            self.texts += 1
        else:
            value = last + coder.signed([(), "value"], given[0] - last if given else 0)
        recent.insert(0, value)
        return value

    def _listed(self, rows: int, text: bool, place: int, given: Sequence[int]) -> list[int]:
        """Write the different values in the order in which they come, and of each row which it is."""
        coder = self._coder
        listed = list(dict.fromkeys(given))
        codes = {value: code for code, value in enumerate(listed)}
        count = coder.number([(), "count"], len(listed))
        if count > rows:
            raise ValueError("more values than rows")
        values: list[int] = []
        for code in range(count):
            values.append(self.value(text, place, listed[code : code + 1], values[-1] if values else 0))
        model = Model(count + 1)
        known = 0
        of_lane: dict[int, tuple[int, int]] = {}
        out = []
        for row, lane in enumerate(self._lanes):
            last = of_lane.get(lane, (0, 0))
            contexts = [(), (lane, last[0]), (lane, last)]
            code = codes[given[row]] if given else 0
            # 0 is the next of the list.
            symbol = coder.symbol(model, contexts, 0 if code == known else code + 1)
            code = symbol - 1 if symbol else known
            known += not symbol
            out.append(values[code])
            of_lane[lane] = code, last[0]
        return out

    def _quantities(self, rows: int, way: int, place: int, given: Sequence[int]) -> list[int]:
        """Write numbers as how many units they are above the least, or above the one before."""
        coder, tag = self._coder, (self._tables, place)
        base, unit, steps = _steps(given, way) if given else (0, 0, [0] * rows)
        base = coder.signed([(), "base"], base)
        unit = coder.number([(), "unit"], unit)
        out = []
        for row, step in enumerate(steps):
            contexts = [(), tag, (tag, self._keys[row])]
            if way == _PLAIN:
                step = coder.number(contexts, step)
                out.append(base + step * unit)
            else:
                step = coder.signed(contexts, step)
                base += step * unit
                out.append(base)
        return out

    def _events(self, rows: int, *given: Sequence[int]) -> list[list[int]]:
        """Write when rows begin and how long they last: what happens, one after the other."""
        coder, tag, known = self._coder, self._tables, self._moments
        first = known[0] if known else 0
        base = unit = most = 0
        events: list[tuple[int, int]] = [(0, 0)] * (2 * rows)
        if not coder.reads:
            base, unit, events = _happenings(*given)
            most = max(ended for ended, _ in events)
        now = first + coder.signed([(), "first"], base - first)
        unit = coder.number([(), "unit"], unit)
        most = coder.number([(), "open"], most)
        if most > rows:
            raise ValueError("more rows are open than there are")
        model = Model(most + 1)
        lanes, keys = [*self._lanes, -1], [*self._keys, -1]
        begins, ends = [0] * rows, [0] * rows
        open_: list[int] = []
        ended = before = row = begun = there = 0
        for given_ended, step in events:
            same = tuple(lanes[one] == lanes[begun] for one in open_[:-5:-1])
            top = keys[open_[-1]] if open_ else -1
            contexts = [(), (ended, same), (top, keys[begun], same)]
            before, ended = ended, coder.symbol(model, contexts, given_ended)
            last = row
            if ended:
                row = open_.pop(-ended)
            else:
                row = begun
                begun += 1
                open_.append(row)
            kind = tag, not ended, not before, lanes[row] == lanes[last]
            at = bisect_left(known, now)
            if known:
                # Another table knows the moment: it is the n-th of those from now on.
                was_there = there > 0
                there = 0 if coder.reads else _nth(known, at, now + step * unit, step)
                there = coder.number([(), "there", (kind, "there"), (kind, keys[row], was_there)], there)
            if there:
                now = known[at + there - 1]
            else:
                step = coder.number([(), kind, (kind, keys[row], lanes[row])], step)
                now += step * unit
            (ends if ended else begins)[row] = now
        self._moments = sorted({*known, *begins, *ends})
        return [begins, [end - begin for begin, end in zip(begins, ends, strict=True)]]


def _way(column: Sequence[int], text: bool) -> int:
    """Choose how a column is written."""
    distinct = len(set(column))
    if distinct == 1:
        return _ONE_TEXT if text else _CONSTANT
    if text:
        return _TEXTS
    if 2 * distinct <= len(column):
        return _LISTED
    bits = [sum(one.bit_length() for one in _steps(column, way)[2]) for way in (_PLAIN, _DIFFERENCES)]
    return _PLAIN if bits[0] <= bits[1] else _DIFFERENCES


def _are_events(times: Sequence[int], durations: Sequence[int]) -> bool:
    return len(times) > 1 and min(durations) >= 0 and all(one <= other for one, other in pairwise(times))


def numbered(values: Any) -> list[int]:
    """Return values as numbers, in the order in which they come."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _steps(column: Sequence[int], way: int) -> tuple[int, int, list[int]]:
    """Return a base, the unit of all, and the units of each above the least, or above the one before."""
    base = min(column) if way == _PLAIN else column[0]
    above = [value - base for value in column]
    if way == _DIFFERENCES:
        above = [0, *(after - before for before, after in pairwise(column))]
    unit = math.gcd(*above) or 1
    return base, unit, [one // unit for one in above]


def _happenings(times: Sequence[int], durations: Sequence[int]) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the first time, the unit of all, and of each begin and end what it is, and units since the last.

    What it is: 0 for a begin, n where the n-th from the newest of those ends that are open.
    """
    base = times[0]
    unit = math.gcd(*(time - base for time in times), *durations) or 1
    # Of one moment, ends come before begins, the newest first; but none before its own begin.
    moments = [(time, 1, row) for row, time in enumerate(times)]
    for row, (time, duration) in enumerate(zip(times, durations, strict=True)):
        moments.append((time + duration, 0 if duration else 2, -row))
    told, now = [], base
    open_: list[int] = []
    for moment, kind, row in sorted(moments):
        ended = 0
        if kind == 1:
            open_.append(row)
        else:
            ended = len(open_) - open_.index(-row)
            open_.pop(-ended)
        told.append((ended, (moment - now) // unit))
        now = moment
    return base, unit, told


def _nth(known: Sequence[int], at: int, moment: int, step: int) -> int:
    """Return which of the known moments from one on this is; 0 for none, or where its units take less."""
    there = bisect_left(known, moment)
    nth = there - at + 1
    return nth if known[there : there + 1] == [moment] and nth.bit_length() <= step.bit_length() + 1 else 0
