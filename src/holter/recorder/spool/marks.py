"""The spans of one thread: what can be written, and what is asked of the session they belong to."""

from __future__ import annotations

import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from holter.recorder.spool import hotpath
from holter.recorder.spool.hotpath import LOW, MODE, NAME, NAN, NOTHING, PHASE, TRAIN
from holter.recorder.spool.thread_files import Room
from holter.schema import record
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from holter.recorder.spool.files import ThreadFiles

__all__ = ["NAN", "PHASES", "TRAIN", "Marks", "Recording", "earliest"]

PHASES = {int(phase): phase.name.lower() for phase in Phase}
Pen: type[hotpath.Pen] = getattr(hotpath.compiled(), "Pen", hotpath.Pen)
_FIRST, _END = record.HEAD_OPEN, record.HEAD_SIZE // 8  # words of a head page for open spans
_ANNOTATION = int(Phase.ANNOTATION)


class Recording(Protocol):
    """What marks ask of the session they belong to."""

    mark_ns: int
    range_ns: int
    step: int

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
    """The spans of one thread. Hot: `begin`, `end_of`, `add`, `settle`, which are its pen's; others are rare.

    `begin(code)` and `end(value, mode)` nest like brackets; `code` is `name id << 8 | phase`.
    `end_of(code, value, mode)` ends the innermost span with that code, whatever was begun since.
    `begin` and `end_of` return the moment, ns: a reading of the clock saved where two things meet.
    `add(phase, name_id, begin, duration, value, step, mode)` writes a span that is already over.
    `ranges(code, range)` returns `__enter__` and `__exit__` of a range.
    """

    __slots__ = ("_owed", "_room", "_session", "add", "begin", "end_of", "pen", "ranges", "settle")

    def __init__(self, session: Recording) -> None:
        self._session = session
        self._room = Room(self, session)
        self._owed = 0
        """Spans that were open when this process was forked off; their ends may come."""
        self.pen = pen = Pen(self)
        self.begin, self.end_of, self.add = pen.begin, pen.end_of, pen.add
        self.settle, self.ranges = pen.settle, pen.ranges
        pen.page = pen.space = NOTHING
        pen.thread = threading.get_ident()
        pen.low_step = session.step & LOW

    @property
    def thread(self) -> int:
        """Which thread these marks serve, as `threading.get_ident` says; 0 when none."""
        return self.pen.thread

    def end(self, value: Any = NAN, mode: int | None = None) -> None:
        """End the innermost span."""
        pen = self.pen
        self.end_of(pen.page[pen.top - 1] if _FIRST < pen.top <= _END else 0, value, mode)

    # -- what is asked about them

    def fail(self, error: BaseException) -> None:
        """Note that an exception passes through the innermost open span; the first such note counts."""
        if _FIRST < self.pen.top <= _END:
            self._session.note_failing(error, self.pen.page[self.pen.top - 1])

    def depth(self) -> int:
        """Return how many spans are open."""
        return (self.pen.top - _FIRST) // 2

    def open_spans(self) -> list[tuple[int, int]]:
        """Return (begin, code) of the open spans, outermost first."""
        pen = self.pen
        kept = pen.page[_FIRST : min(pen.top, _END)].tolist() if pen.top > _FIRST else []
        return list(zip(kept[::2], kept[1::2], strict=True))

    def recent(self) -> bytes:
        """Return the records of the segment being written."""
        return self.pen.space[: self.pen.offset].tobytes()

    def spent(self, nanoseconds: int) -> None:
        """Add what a hook around these marks measured for itself."""
        self._room.spent(nanoseconds)

    def cost(self) -> int:
        """Publish and return the nanoseconds the recorder spent in this thread so far."""
        return self._room.cost(self.pen.offset, self.pen.ranged)

    # -- what happens to them

    def unwind(self, depth: int, kept: Iterable[tuple[int, int]] = ()) -> None:
        """Forget open spans beyond a depth, as after an exception that no hook saw; then reopen some."""
        pen = self.pen
        to = max(_FIRST + 2 * depth, _FIRST)
        for at in range(min(pen.top, _END) - 2, to - 2, -2):
            self._put(at, 0, 0)
        pen.top = min(pen.top, to)
        for began, code in kept:
            self._put(pen.top, began, code)
            pen.top += 2

    def adopt(self) -> None:
        """Serve the calling thread from now on; the one before has ended."""
        self.pen.thread = threading.get_ident()
        self.unwind(0)
        self._room.serve()

    def release(self) -> None:
        """Serve no thread until adopted."""
        self.pen.thread = 0

    def detach(self) -> None:
        """Forget the files without touching them: this is a forked child and they are its parent's."""
        pen = self.pen
        self._owed = self.depth()
        pen.thread, pen.offset, pen.ranged, pen.top = 0, 0, 0, _FIRST
        pen.page = pen.space = NOTHING
        self._room.forget()

    # -- what a pen asks for

    def begin_slow(self, now: int, code: int) -> None:
        """Begin a span where the page has no place for it."""
        pen = self.pen
        try:
            if self._room.head is None:
                self._start()
            if pen.top < _END:
                self._put(pen.top, now, code)
            pen.top += 2
        except Exception as fault:
            self._session.fault("marks", fault)

    def end_slow(self, now: int, code: int, value: Any = NAN, mode: int | None = None) -> None:
        """End a span that is not the innermost, or that there is no room for.

        Out of order come the ends of generators, and of spans that an exception passed unseen.
        """
        try:
            if self.pen.top > _END:  # too deep to have been kept
                self.pen.top -= 2
                self._room.drop()
                return
            spans = self.open_spans()
            at = next((i for i in reversed(range(len(spans))) if spans[i][1] == code), None)
            if at is None:
                self._end_nothing()
                return
            began = spans[at][0]
            if code & 255:
                self.add(
                    code & 255, code >> 8, began, now - began, value, None, TRAIN if mode is None else mode
                )
            else:
                self._session.fault("marks", ValueError(f"code {code} names no phase"))
            self.unwind(at, [span for span in spans[at + 1 :] if span[1] & 255 == _ANNOTATION])
        except Exception as fault:
            self._session.fault("marks", fault)

    def add_slow(
        self,
        phase: int,
        name_id: int,
        begin: int,
        duration: int,
        value: Any = NAN,
        step: int | None = None,
        mode: int = TRAIN,
    ) -> None:
        """Write a record that there is no room for, or whose value is no number."""
        pen = self.pen
        entered = time.perf_counter_ns()
        try:
            if self._room.head is None:
                self._start()
            if pen.offset + record.RECORD_SIZE > len(pen.space) and not self._turn(entered):
                self._room.drop()
                return
            tail = (
                (pen.low_step if step is None else step & LOW)
                | name_id << NAME
                | mode << MODE
                | phase << PHASE
            )
            place = pen.offset
            pen.offset = place + record.RECORD_SIZE
            try:
                record.PACKED.pack_into(pen.space, place, begin, duration, value, tail)
            except (struct.error, TypeError) as error:
                record.PACKED.pack_into(pen.space, place, begin, duration, NAN, tail)
                self._session.fault("marks", error)
        except Exception as fault:
            self._session.fault("marks", fault)
        finally:
            self._room.spent(time.perf_counter_ns() - entered)

    def _end_nothing(self) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._session.fault("marks", ValueError("a span was ended that was not begun"))

    def _put(self, at: int, began: int, code: int) -> None:
        self.pen.page[at] = began
        self.pen.page[at + 1] = code

    def _start(self) -> None:
        """Open this thread's files; called for its first record, and again when that failed."""
        pen = self.pen
        head = self._room.open()
        if head is None:
            if not len(pen.page):  # memory of ours while there is no page
                pen.page = memoryview(bytearray(record.HEAD_SIZE)).cast("q")
            return
        upto = min(pen.top, _END)
        if len(pen.page):
            head[_FIRST:upto] = pen.page[_FIRST:upto]
        pen.page, pen.low_step = head, self._session.step & LOW
        self._turn(time.perf_counter_ns())

    def _turn(self, now: int) -> bool:
        """Turn to a new segment; return whether there is one."""
        pen = self.pen
        pen.space, pen.offset = self._room.segment(now) or NOTHING, 0
        return len(pen.space) > 0


def earliest(marks: Marks, phases: Container[int], before: int) -> int:
    """Return when the first of some phases began in step 0; `before` when the current segment has none."""
    begins: list[int] = [
        begin
        for begin, _, _, step, _, _, phase in record.RECORD.iter_unpack(marks.recent())
        if phase in phases and step == 0
    ]
    begins += [begin for begin, code in marks.open_spans() if code & 255 in phases]
    return min([before, *begins])
