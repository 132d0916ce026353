"""Write one thread's spans into mapped memory: the hot path, as fast as Python allows.

Closures, because a closure's cells are read faster than attributes. Everything rare (no file yet, a full
segment, a first use of a name, a fork) shows as an exception of the fast path and is dealt with there, so
that the fast path itself checks nothing.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from typing import TYPE_CHECKING

from holter.recorder.room import Room
from holter.schema import record
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.recorder.marks import Elsewhere, Marks, Recording

NAN = float("nan")
TRAIN = int(Mode.TRAIN)
_LOW = 0xFFFF_FFFF
_DEPTH = (record.HEAD_SIZE // 8 - record.HEAD_OPEN) // 2  # open spans that a head page has room for
_ANNOTATION = int(Phase.ANNOTATION)
_COST_EVERY = 15  # mask of the steps at which a thread publishes what it cost: one in 16

_PACKED = struct.Struct("qqdq" if sys.byteorder == "little" else "<qqdq")
"""`RECORD` with its last four fields as one word, in the machine's own order: each is packed faster."""

assert _PACKED.size == record.RECORD_SIZE == record.RECORD.size  # noqa: S101


def bind(marks: Marks, session: Recording) -> None:
    """Give `marks` its methods: closures over the state of one thread."""
    clock = time.perf_counter_ns
    pack = _PACKED.pack_into
    ident = threading.get_ident
    mine = ident()  # the thread that these marks serve; 0 when none
    begins = [0] * _DEPTH
    codes = [0] * (_DEPTH + 1)  # the last place stays 0: an end without a begin finds no code there
    level = 0
    low_step = session.step & _LOW
    tails: dict[int, int] = {}
    head: memoryview | None = None
    head_begins: memoryview | None = None
    head_codes: memoryview | None = None
    segment: memoryview | None = None
    room = Room(marks, session)
    offset = owed = 0  # owed: spans that were open when this process was forked off; their ends may come

    def begin(code: int) -> int:
        nonlocal level
        now = clock()
        try:
            begins[level] = head_begins[level] = now  # type: ignore[index]
            codes[level] = head_codes[level] = code  # type: ignore[index]
            level += 1
        except Exception:
            begin_slow(now, code)
        return now

    def end(value: float = NAN, mode: int | None = None) -> None:
        end_of(codes[min(level, _DEPTH + 1) - 1], value, mode)

    def end_of(code: int, value: float = NAN, mode: int | None = None) -> int:
        nonlocal level, offset
        now = clock()
        if level <= _DEPTH and codes[level - 1] != code:
            end_below(code, value, mode)
            return now
        try:
            level -= 1
            began = begins[level]
            tail = tails[code] + low_step
            if mode is not None:
                tail += (mode - 1) << 48
            # First the place, then the record: what interrupts us between the two writes behind us.
            place = offset
            offset = place + 32
            pack(segment, place, began, now - began, value, tail)  # type: ignore[arg-type]
            head_codes[level] = 0  # type: ignore[index]
        except Exception as error:
            end_slow(now, value, mode, error)
        return now

    def add(
        phase: int,
        name_id: int,
        begin: int,
        duration: int,
        value: float = NAN,
        step: int | None = None,
        mode: int = TRAIN,
    ) -> None:
        nonlocal offset
        tail = (low_step if step is None else step & _LOW) | name_id << 32 | mode << 48 | phase << 56
        place = offset
        offset = place + 32
        try:
            pack(segment, place, begin, duration, value, tail)  # type: ignore[arg-type]
        except Exception:
            write_slow(place, begin, duration, value, tail)

    def ranges(code: int, it: Elsewhere) -> tuple[Callable[[], object], Callable[..., None]]:
        # `begin` and `end_of` once more, for one code: a call within a call is what an annotation can save.
        base = code >> 8 << 32 | TRAIN << 48 | (code & 255) << 56

        def enter() -> object:
            nonlocal level
            now = clock()
            if ident() != mine:
                return it.enter()
            try:
                begins[level] = head_begins[level] = now  # type: ignore[index]
                codes[level] = head_codes[level] = code  # type: ignore[index]
                level += 1
            except Exception:
                begin_slow(now, code)
            return it

        def leave(kind: object, error: BaseException | None, trace: object) -> None:
            nonlocal level, offset
            now = clock()
            at = level - 1
            try:
                if codes[at] == code and ident() == mine and error is None:
                    began = begins[at]
                    level = at
                    place = offset
                    offset = place + 32
                    pack(segment, place, began, now - began, NAN, base + low_step)  # type: ignore[arg-type]
                    head_codes[at] = 0  # type: ignore[index]
                else:
                    it.leave(kind, error, trace)
            except Exception as fault:
                if level == at:
                    end_slow(now, NAN, None, fault)
                else:
                    it.leave(kind, error, trace)

        return enter, leave

    def begin_slow(now: int, code: int) -> None:
        nonlocal level
        try:
            if head is None:
                start()
            if level < _DEPTH:
                put(level, now, code)
            level += 1
        except Exception as fault:
            session.fault("marks", fault)

    def put(at: int, began: int, code: int) -> None:
        begins[at] = began
        codes[at] = code
        if head_begins is not None and head_codes is not None:
            head_begins[at] = began
            head_codes[at] = code

    def end_slow(now: int, value: float, mode: int | None, error: Exception) -> None:
        nonlocal level, offset, owed
        try:
            if level < 0:  # nothing was open
                level = 0
                if owed:
                    owed -= 1
                else:
                    session.fault("marks", ValueError("a span was ended that was not begun"))
                return
            if level >= _DEPTH:  # too deep to have been kept
                room.drop()
                return
            if isinstance(error, struct.error):  # the record's place was taken, but not filled
                offset -= record.RECORD_SIZE
            began, code = begins[level], codes[level]
            if code & 255:
                tails[code] = code >> 8 << 32 | 1 << 48 | (code & 255) << 56
                add(code & 255, code >> 8, began, now - began, value, None, TRAIN if mode is None else mode)
            else:
                session.fault("marks", ValueError(f"code {code} names no phase"))
            put(level, began, 0)
        except Exception as fault:
            session.fault("marks", fault)

    def end_below(code: int, value: float, mode: int | None) -> None:
        """End a span out of order: after a generator, or an exception that passed an adapter's hook."""
        nonlocal owed
        try:
            spans = open_spans()
            at = next((i for i in reversed(range(len(spans))) if spans[i][1] == code), None)
            if at is None:
                if level > _DEPTH:
                    end()
                elif owed:
                    owed -= 1
                else:
                    session.fault("marks", ValueError("a span was ended that was not begun"))
                return
            began = spans[at][0]
            add(code & 255, code >> 8, began, clock() - began, value, None, TRAIN if mode is None else mode)
            reopen(at, [span for span in spans[at + 1 :] if span[1] & 255 == _ANNOTATION])
        except Exception as fault:
            session.fault("marks", fault)

    def write_slow(place: int, began: int, duration: int, value: float, tail: int) -> None:
        nonlocal offset
        entered = clock()
        try:
            if head is None:
                start()
                place = offset
            if segment is None or place + record.RECORD_SIZE > len(segment):
                if not rotate(entered):
                    room.drop()
                    return
                place = offset
            offset = max(offset, place + record.RECORD_SIZE)
            try:
                pack(segment, place, began, duration, value, tail)  # type: ignore[arg-type]
            except struct.error as error:
                pack(segment, place, began, duration, NAN, tail)  # type: ignore[arg-type]
                session.fault("marks", error)
        except Exception as fault:
            session.fault("marks", fault)
        finally:
            room.spent(clock() - entered)

    def start() -> None:
        """Open this thread's files; called for its first record, and again when that failed."""
        nonlocal head, head_begins, head_codes, low_step
        head = room.open()
        if head is not None:
            head_begins, head_codes = head[record.HEAD_OPEN :: 2], head[record.HEAD_OPEN + 1 :: 2]
            low_step = session.step & _LOW
            rotate(clock())

    def rotate(now: int) -> bool:
        nonlocal segment, offset
        segment, offset = room.segment(now), 0
        return segment is not None

    def fail(error: BaseException) -> None:
        if 0 < level <= _DEPTH:
            session.note_failing(error, codes[level - 1])

    def open_spans() -> list[tuple[int, int]]:
        kept = min(level, _DEPTH)
        return list(zip(begins[:kept], codes[:kept], strict=True))

    def reopen(to: int, kept: Iterable[tuple[int, int]] = ()) -> None:
        nonlocal level
        to = max(to, 0)
        for at in range(min(level, _DEPTH) - 1, to - 1, -1):
            put(at, 0, 0)
        level = min(level, to)
        for began, code in kept:
            put(level, began, code)
            level += 1

    def settle(step: int) -> None:
        nonlocal low_step
        low_step = step & _LOW
        if head is not None:
            head[record.HEAD_STEP] = step
            if step & _COST_EVERY == 1:
                room.cost(offset)

    def adopt() -> None:
        nonlocal mine
        mine = ident()
        reopen(0)
        if head is not None:
            head[record.HEAD_THREAD] = threading.get_native_id()

    def release() -> None:
        nonlocal mine
        mine = 0

    def detach() -> None:
        nonlocal head, head_begins, head_codes, segment, offset, level, owed, mine
        owed, mine = level, 0
        room.forget()
        head = head_begins = head_codes = segment = None
        begins[:], codes[:] = [0] * _DEPTH, [0] * (_DEPTH + 1)
        offset = level = 0

    marks.begin, marks.end, marks.end_of, marks.add = begin, end, end_of, add
    marks.fail, marks.depth, marks.unwind, marks.open_spans = fail, lambda: level, reopen, open_spans
    marks.recent = lambda: b"" if segment is None else bytes(segment[:offset])
    marks.spent, marks.cost = room.spent, lambda: room.cost(offset)
    marks.settle, marks.adopt, marks.detach = settle, adopt, detach
    marks.ranges, marks.release, marks.serve = ranges, release, lambda: mine
