"""Write one thread's spans into mapped memory: the hot path, as fast as Python allows.

Closures, because a closure's cells are read faster than attributes. Everything rare (no file yet, a full
segment, a first use of a name, a fork) shows as an exception of the fast path and is dealt with there, so
that the fast path itself checks nothing. docs/decisions/0033 says what else was measured.
"""

from __future__ import annotations

import struct
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
_SIZE = record.HEAD_SIZE // 8 - record.HEAD_OPEN  # words of a head page for open spans
_ANNOTATION = int(Phase.ANNOTATION)
_COST_EVERY = 15  # mask of the steps at which a thread publishes what it cost: one in 16

_NOWHERE, _NO_SPACE = memoryview(b"").cast("q"), memoryview(b"")
_PACKED = struct.Struct("<qqdq")
"""`record.RECORD` with its last four fields as one word: one argument is packed faster than four."""
_BYTES = _PACKED.size


def bind(marks: Marks, session: Recording) -> None:
    """Give `marks` its methods: closures over the state of one thread."""
    clock = time.perf_counter_ns
    ident = threading.get_ident
    mine = ident()  # the thread that these marks serve; 0 when none
    low_step = session.step & _LOW
    tails: dict[int, int] = {}
    head: memoryview | None = None
    # The open spans, two numbers each: begin and code. The last stays 0: an end without a begin finds no code
    # there. They stand in the head page too, or in memory of ours while there is none; a list is read faster.
    stack, top = [0] * (_SIZE + 1), 0
    page = _NOWHERE
    space, pack = _NO_SPACE, _PACKED.pack_into  # the segment
    room = Room(marks, session)
    offset = owed = 0  # owed: spans that were open when this process was forked off; their ends may come

    def begin(code: int) -> int:
        nonlocal top
        now = clock()
        try:
            page[top] = stack[top] = now
            page[top + 1] = stack[top + 1] = code
            top += 2
        except Exception:
            begin_slow(now, code)
        return now

    def end(value: float = NAN, mode: int | None = None) -> None:
        end_of(stack[top - 1] if 0 < top <= _SIZE else 0, value, mode)

    def end_of(code: int, value: float = NAN, mode: int | None = None) -> int:
        nonlocal top, offset
        now = clock()
        place = -1
        try:
            last = top - 1
            if stack[last] != code:
                end_below(code, value, mode)
                return now
            began = stack[last - 1]
            tail = tails[code] + low_step
            if mode is not None:
                tail += (mode - 1) << 48
            # First the place, then the record: what interrupts us between the two writes behind us.
            place = offset
            offset = place + 32
            pack(space, place, began, now - began, value, tail)
            page[last] = 0
            top = last - 1
        except Exception:
            if place >= 0:
                offset = place
            end_slow(now, value, mode)
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
            pack(space, place, begin, duration, value, tail)
        except Exception:
            write_slow(place, begin, duration, value, tail)

    def ranges(code: int, it: Elsewhere) -> tuple[Callable[[], object], Callable[..., None]]:
        # `begin` and `end_of` once more, for one code: a call within a call is what an annotation can save.
        base = code >> 8 << 32 | TRAIN << 48 | (code & 255) << 56

        def enter() -> object:
            nonlocal top
            now = clock()
            if ident() != mine:
                return it.enter()
            try:
                page[top] = stack[top] = now
                page[top + 1] = stack[top + 1] = code
                top += 2
            except Exception:
                begin_slow(now, code)
            return it

        def leave(kind: object, error: BaseException | None, trace: object) -> None:
            nonlocal top, offset
            now = clock()
            place = -1
            try:
                last = top - 1
                if stack[last] == code and ident() == mine and error is None:
                    began = stack[last - 1]
                    place = offset
                    offset = place + 32
                    pack(space, place, began, now - began, NAN, base + low_step)
                    page[last] = 0
                    top = last - 1
                else:
                    it.leave(kind, error, trace)
            except Exception:
                if place >= 0:
                    offset = place
                    end_slow(now, NAN, None)
                else:
                    it.leave(kind, error, trace)

        return enter, leave

    def begin_slow(now: int, code: int) -> None:
        nonlocal top
        try:
            if head is None:
                start()
            if top < _SIZE:
                put(top, now, code)
            top += 2
        except Exception as fault:
            session.fault("marks", fault)

    def put(at: int, began: int, code: int) -> None:
        page[at] = stack[at] = began
        page[at + 1] = stack[at + 1] = code

    def end_slow(now: int, value: float, mode: int | None) -> None:
        nonlocal top
        try:
            if top <= 0:
                end_nothing()
                return
            top -= 2
            if top >= _SIZE:  # too deep to have been kept
                room.drop()
                return
            began, code = stack[top], stack[top + 1]
            if code & 255:
                tails[code] = code >> 8 << 32 | 1 << 48 | (code & 255) << 56
                add(code & 255, code >> 8, began, now - began, value, None, TRAIN if mode is None else mode)
            else:
                session.fault("marks", ValueError(f"code {code} names no phase"))
            put(top, began, 0)
        except Exception as fault:
            session.fault("marks", fault)

    def end_nothing() -> None:
        nonlocal owed
        if owed:
            owed -= 1
        else:
            session.fault("marks", ValueError("a span was ended that was not begun"))

    def end_below(code: int, value: float, mode: int | None) -> None:
        """End a span out of order: after a generator, or an exception that passed an adapter's hook."""
        try:
            spans = open_spans()
            at = next((i for i in reversed(range(len(spans))) if spans[i][1] == code), None)
            if at is None:
                (end if top > _SIZE else end_nothing)()
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
            if place + _BYTES > len(space):
                if not rotate(entered):
                    room.drop()
                    return
                place = offset
            offset = max(offset, place + _BYTES)
            try:
                pack(space, place, began, duration, value, tail)
            except (struct.error, TypeError) as error:
                pack(space, place, began, duration, NAN, tail)
                session.fault("marks", error)
        except Exception as fault:
            session.fault("marks", fault)
        finally:
            room.spent(clock() - entered)

    def start() -> None:
        """Open this thread's files; called for its first record, and again when that failed."""
        nonlocal head, page, low_step
        head = room.open()
        page = memoryview(bytearray(8 * _SIZE)).cast("q") if head is None else head[record.HEAD_OPEN :]
        for at in range(min(top, _SIZE)):
            page[at] = stack[at]
        if head is not None:
            low_step = session.step & _LOW
            rotate(clock())

    def rotate(now: int) -> bool:
        nonlocal space, offset
        space, offset = room.segment(now) or _NO_SPACE, 0
        return len(space) > 0

    def fail(error: BaseException) -> None:
        if 0 < top <= _SIZE:
            session.note_failing(error, stack[top - 1])

    def open_spans() -> list[tuple[int, int]]:
        kept = stack[: min(top, _SIZE)]
        return list(zip(kept[::2], kept[1::2], strict=True))

    def reopen(to: int, kept: Iterable[tuple[int, int]] = ()) -> None:
        nonlocal top
        to = max(2 * to, 0)
        for at in range(min(top, _SIZE) - 2, to - 2, -2):
            put(at, 0, 0)
        top = min(top, to)
        for began, code in kept:
            put(top, began, code)
            top += 2

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
        nonlocal head, page, space, offset, top, owed, mine
        owed, mine, offset, top = top // 2, 0, 0, 0
        room.forget()
        head, page, space = None, _NOWHERE, _NO_SPACE

    marks.begin, marks.end, marks.end_of, marks.add = begin, end, end_of, add
    marks.fail, marks.depth, marks.unwind, marks.open_spans = fail, lambda: top // 2, reopen, open_spans
    marks.recent = lambda: space[:offset].tobytes()
    marks.spent, marks.cost = room.spent, lambda: room.cost(offset)
    marks.settle, marks.adopt, marks.detach = settle, adopt, detach
    marks.ranges, marks.release, marks.serve = ranges, release, lambda: mine
