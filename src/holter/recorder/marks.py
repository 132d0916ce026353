"""Write one thread's spans into mapped memory: the hot path, as fast as Python allows.

Closures, because a closure's cells are read faster than attributes. Everything rare (no file yet, a full
segment, a first use of a name, a fork) shows as an exception of the fast path and is dealt with there, so
that the fast path itself has no tests.
"""

from __future__ import annotations

import struct
import threading
import time
from typing import TYPE_CHECKING, Protocol

from holter.recorder.spool import RETRY_NS
from holter.schema.phases import Mode, Phase
from holter.schema.record import (
    HEAD_COST,
    HEAD_DROPPED,
    HEAD_OPEN,
    HEAD_SIZE,
    HEAD_STEP,
    HEAD_THREAD,
    RECORD,
    RECORD_SIZE,
)

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    from holter.recorder.spool import ThreadFiles

NAN = float("nan")
TRAIN = int(Mode.TRAIN)
PHASES = {int(phase): phase.name.lower() for phase in Phase}
_LOW = 0xFFFF_FFFF
_WORDS = HEAD_SIZE // 8
_ANNOTATION = int(Phase.ANNOTATION)

_PACKED = struct.Struct("<qqdq")
"""`RECORD` with its last four fields as one word: one argument is packed faster than four."""

assert _PACKED.size == RECORD_SIZE == RECORD.size  # noqa: S101


class Recording(Protocol):
    """What marks ask of the session they belong to."""

    low_step: int
    """The current step as an unsigned 32-bit number."""
    mark_ns: int

    @property
    def step(self) -> int:
        """The current step."""
        ...

    def open(self, *, recording: bool) -> None:
        """Make ready for the first record; may raise `OSError`."""
        ...

    def flush(self) -> None:
        """Try again what could not be written; may raise `OSError`."""
        ...

    def thread_files(self, marks: Marks) -> ThreadFiles:
        """Return where the calling thread's records go."""
        ...

    def fault(self, where: str, error: BaseException) -> None:
        """Count a fault of ours."""
        ...

    def note_failing(self, error: BaseException, code: int) -> None:
        """Remember the innermost span that an exception passed."""
        ...


class Marks:
    """The spans of one thread. Hot: `begin`, `end`, `add`; all others are rare.

    `begin(code)` and `end(value, mode)` nest like brackets; `code` is `name id << 8 | phase`.
    `end_of(code, value, mode)` ends the innermost span with that code, whatever was begun since.
    `add(phase, name_id, begin, duration, value, step, mode)` writes a span that is already over.
    """

    __slots__ = (
        "add",
        "adopt",
        "begin",
        "depth",
        "detach",
        "end",
        "end_of",
        "fail",
        "open_spans",
        "recent",
        "settle",
        "spent",
        "unwind",
    )

    begin: Callable[[int], None]
    end: Callable[..., None]
    end_of: Callable[..., None]
    add: Callable[..., None]
    fail: Callable[[BaseException], None]
    """Note that an exception passes through the innermost open span; the first such note counts."""
    depth: Callable[[], int]
    """How many spans are open."""
    unwind: Callable[[int], None]
    """Forget open spans beyond a depth, as after an exception that no hook saw."""
    open_spans: Callable[[], list[tuple[int, int]]]
    """(begin, code) of the open spans, outermost first."""
    recent: Callable[[], bytes]
    """Records of the segment being written."""
    spent: Callable[[int], None]
    """Add nanoseconds that a hook around this thread's marks measured for itself."""
    settle: Callable[[int], int]
    """Publish the step; return the nanoseconds the recorder spent in this thread so far."""
    adopt: Callable[[], None]
    """Serve the calling thread from now on; the one before has ended."""
    detach: Callable[[], None]
    """Forget the files without touching them: this is a forked child and they are its parent's."""

    def __init__(self, session: Recording) -> None:
        _bind(self, session)


def _bind(marks: Marks, session: Recording) -> None:
    clock = time.perf_counter_ns
    pack = _PACKED.pack_into
    top = HEAD_OPEN
    stack = [0] * _WORDS
    tails: dict[int, int] = {}
    head: memoryview | None = None
    segment: mmap.mmap | None = None
    offset = 0
    files: ThreadFiles | None = None
    retry_at = 0
    dropped = 0
    slow_ns = 0
    owed = 0  # spans that were open when this process was forked off; their ends may still come

    def begin(code: int) -> None:
        nonlocal top
        try:
            stack[top] = head[top] = clock()  # type: ignore[index]
            stack[top + 1] = head[top + 1] = code  # type: ignore[index]
            top += 2
        except Exception as error:
            begin_slow(code, error)

    def end(value: float = NAN, mode: int = TRAIN) -> None:
        nonlocal top, offset
        now = clock()
        try:
            top -= 2
            began = stack[top]
            tail = tails[stack[top + 1]] + session.low_step
            if mode != 1:
                tail += (mode - 1) << 48
            # First the place, then the record: what interrupts us between the two writes behind us.
            place = offset
            offset = place + 32
            pack(segment, place, began, now - began, value, tail)  # type: ignore[arg-type]
            head[top + 1] = 0  # type: ignore[index]
        except Exception as error:
            end_slow(now, value, mode, error)

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
        tail = (session.low_step if step is None else step & _LOW) | name_id << 32 | mode << 48 | phase << 56
        place = offset
        offset = place + 32
        try:
            pack(segment, place, begin, duration, value, tail)  # type: ignore[arg-type]
        except Exception as error:
            write_slow(place, begin, duration, value, tail, error)

    def begin_slow(code: int, error: Exception) -> None:
        nonlocal top
        try:
            if head is None:
                start()
            if top + 2 <= _WORDS:
                now = clock()
                stack[top] = now
                stack[top + 1] = code
                if head is not None:
                    head[top] = now
                    head[top + 1] = code
            top += 2
        except Exception as fault:
            session.fault("marks", fault)

    def end_slow(now: int, value: float, mode: int, error: Exception) -> None:
        nonlocal top, offset, owed
        try:
            if top < HEAD_OPEN:  # nothing was open
                top = HEAD_OPEN
                if owed:
                    owed -= 1
                else:
                    session.fault("marks", ValueError("a span was ended that was not begun"))
                return
            if top + 2 > _WORDS:  # too deep to have been kept
                drop()
                return
            if isinstance(error, struct.error):  # the record's place was taken, but not filled
                offset -= RECORD_SIZE
            began, code = stack[top], stack[top + 1]
            if code & 255:
                tails[code] = code >> 8 << 32 | 1 << 48 | (code & 255) << 56
                add(code & 255, code >> 8, began, now - began, value, None, mode)
            else:
                session.fault("marks", ValueError(f"code {code} names no phase"))
            if head is not None:
                head[top + 1] = 0
        except Exception as fault:
            session.fault("marks", fault)

    def end_of(code: int, value: float = NAN, mode: int = TRAIN) -> None:
        nonlocal top
        if stack[top - 1] == code:
            end(value, mode)
            return
        try:
            # Begun out of order, by a generator or after an exception that passed an adapter's hook.
            at = top - 2
            while at >= HEAD_OPEN and stack[at + 1] != code:
                at -= 2
            if at < HEAD_OPEN:
                session.fault("marks", ValueError("a span was ended that was not begun"))
                return
            kept = [
                (stack[i], stack[i + 1]) for i in range(at + 2, top, 2) if stack[i + 1] & 255 == _ANNOTATION
            ]
            add(code & 255, code >> 8, stack[at], clock() - stack[at], value, None, mode)
            reopen((at - HEAD_OPEN) // 2, kept)
        except Exception as fault:
            session.fault("marks", fault)

    def write_slow(place: int, began: int, duration: int, value: float, tail: int, error: Exception) -> None:
        nonlocal offset, segment, retry_at
        entered = clock()
        try:
            if head is None:
                start()
                place = offset
            elif segment is not None and place + RECORD_SIZE <= len(segment):
                pack(segment, place, began, duration, as_float(value), tail)
                session.fault("marks", error)
                return
            if (segment is None or place + RECORD_SIZE > len(segment)) and not rotate(entered):
                drop()
                return
            place = offset
            offset = place + RECORD_SIZE
            pack(segment, place, began, duration, as_float(value), tail)  # type: ignore[arg-type]
        except Exception as fault:
            drop()
            session.fault("marks", fault)
        finally:
            spent(clock() - entered)

    def start() -> None:
        """Open this thread's files; called for its first record, and again when that failed."""
        nonlocal head, files, retry_at
        now = clock()
        if now < retry_at:
            return
        try:
            session.open(recording=True)
            if files is None:
                files = session.thread_files(marks)
            head = memoryview(files.open_head(session.step, threading.get_native_id(), dropped)).cast("q")
            rotate(now)
        except OSError as error:
            retry_at = now + RETRY_NS
            session.fault("spool", error)

    def rotate(now: int) -> bool:
        nonlocal segment, offset, retry_at
        segment = None
        offset = 0
        if now < retry_at or files is None:
            return False
        try:
            segment = files.next_segment()
            session.flush()
        except OSError as error:
            session.fault("spool", error)
        if segment is None:
            retry_at = now + RETRY_NS
        return segment is not None

    def drop() -> None:
        nonlocal dropped
        dropped += 1
        if head is not None:
            head[HEAD_DROPPED] = dropped

    def fail(error: BaseException) -> None:
        if top > HEAD_OPEN and top <= _WORDS:
            session.note_failing(error, stack[top - 1])

    def depth() -> int:
        return (top - HEAD_OPEN) // 2

    def open_spans() -> list[tuple[int, int]]:
        return [(stack[i], stack[i + 1]) for i in range(HEAD_OPEN, min(top, _WORDS), 2)]

    def unwind(to: int) -> None:
        reopen(to, [])

    def reopen(to: int, kept: list[tuple[int, int]]) -> None:
        nonlocal top
        bottom = HEAD_OPEN + 2 * max(to, 0)
        for i in range(min(top, _WORDS) - 2, bottom - 2, -2):
            stack[i + 1] = 0
            if head is not None:
                head[i + 1] = 0
        top = min(top, bottom)
        for began, code in kept:
            stack[top], stack[top + 1] = began, code
            if head is not None:
                head[top], head[top + 1] = began, code
            top += 2

    def recent() -> bytes:
        return b"" if segment is None else segment[: min(offset, len(segment))]

    def spent(nanoseconds: int) -> None:
        nonlocal slow_ns
        slow_ns += nanoseconds

    def settle(step: int) -> int:
        written = 0 if files is None else max(files.started - 1, 0) * files.spool.segment_records
        cost = slow_ns + (written + offset // RECORD_SIZE) * session.mark_ns
        if head is not None:
            head[HEAD_STEP] = step
            head[HEAD_COST] = cost
        return cost

    def adopt() -> None:
        reopen(0, [])
        if head is not None:
            head[HEAD_THREAD] = threading.get_native_id()

    def detach() -> None:
        nonlocal head, segment, files, offset, top, dropped, slow_ns, retry_at, owed
        owed = depth()
        stack[HEAD_OPEN:] = [0] * (_WORDS - HEAD_OPEN)
        head = segment = files = None
        offset = dropped = slow_ns = retry_at = 0
        top = HEAD_OPEN

    marks.begin, marks.end, marks.end_of, marks.add = begin, end, end_of, add
    marks.fail, marks.depth, marks.unwind, marks.open_spans = fail, depth, unwind, open_spans
    marks.recent, marks.spent = recent, spent
    marks.settle, marks.adopt, marks.detach = settle, adopt, detach


def as_float(value: object) -> float:
    """Return `value` as a float, NaN when it is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return NAN
