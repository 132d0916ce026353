"""The open spans and the records of one thread."""

from __future__ import annotations

import struct
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holter.recorder.spool import hotpath
from holter.recorder.spool.hotpath import LOW, MODE, NAME, NAN, NOTHING, PHASE, TRAIN
from holter.recorder.spool.thread_memory import SpoolSession, ThreadMemory
from holter.schema import record
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

__all__ = ["NAN", "PHASES", "TRAIN", "SpoolSession", "ThreadSpool", "earliest"]

PHASES = {int(phase): phase.name.lower() for phase in Phase}
SpanWriter: type[hotpath.SpanWriter] = getattr(hotpath.compiled(), "SpanWriter", hotpath.SpanWriter)
_FIRST, _END = record.HEAD_OPEN, record.HEAD_SIZE // 8  # words of a head page for open spans
_ANNOTATION = int(Phase.ANNOTATION)


class ThreadSpool:
    """The spans of one thread. Hot: `begin`, `end_of`, `add`, `set_step` of its writer; the others are rare.

    `begin(code)` and `end(value, mode)` nest like brackets; `code` is `name id << 8 | phase`.
    `end_of(code, value, mode)` ends the innermost span with that code, even if others began since.
    `begin` and `end_of` return the time, ns, so that the caller need not read the clock again.
    `add(phase, name_id, begin, duration, value, step, mode)` writes a span that has ended.
    `ranges(code, range)` returns `__enter__` and `__exit__` of a range.
    """

    __slots__ = ("_memory", "_owed", "_session", "add", "begin", "end_of", "ranges", "set_step", "writer")

    def __init__(self, session: SpoolSession) -> None:
        self._session = session
        self._memory = ThreadMemory(session)
        self._owed = 0
        """Spans that were open when this process was forked off; their ends may come."""
        self.writer = writer = SpanWriter(self)
        self.begin, self.end_of, self.add = writer.begin, writer.end_of, writer.add
        self.set_step, self.ranges = writer.set_step, writer.ranges
        writer.page = writer.space = NOTHING
        writer.thread = threading.get_ident()
        writer.low_step = session.step & LOW

    @property
    def thread(self) -> int:
        """The thread it serves, as `threading.get_ident` returns it; 0 without one."""
        return self.writer.thread

    def end(self, value: Any = NAN, mode: int | None = None) -> None:
        """End the innermost span."""
        writer = self.writer
        self.end_of(writer.page[writer.top - 1] if _FIRST < writer.top <= _END else 0, value, mode)

    # -- queries

    def fail(self, error: BaseException) -> None:
        """Note that an exception passes through the innermost open span; the first such note counts."""
        if _FIRST < self.writer.top <= _END:
            self._session.note_failing(error, self.writer.page[self.writer.top - 1])

    def depth(self) -> int:
        """Return how many spans are open."""
        return (self.writer.top - _FIRST) // 2

    def open_spans(self) -> list[tuple[int, int]]:
        """Return (begin, code) of the open spans, outermost first."""
        writer = self.writer
        kept = writer.page[_FIRST : min(writer.top, _END)].tolist() if writer.top > _FIRST else []
        return list(zip(kept[::2], kept[1::2], strict=True))

    def recent(self) -> bytes:
        """Return the records of the segment being written."""
        return self.writer.space[: self.writer.offset].tobytes()

    def spent(self, nanoseconds: int) -> None:
        """Add time that a hook measured for itself."""
        self._memory.spent(nanoseconds)

    def cost(self) -> int:
        """Publish and return the nanoseconds the recorder spent in this thread so far."""
        return self._memory.cost(self.writer.offset, self.writer.ranged)

    # -- life cycle

    def unwind(self, depth: int, kept: Iterable[tuple[int, int]] = ()) -> None:
        """Forget open spans beyond a depth, as after an exception that no hook saw; then reopen some."""
        writer = self.writer
        to = max(_FIRST + 2 * depth, _FIRST)
        for at in range(min(writer.top, _END) - 2, to - 2, -2):
            self._put(at, 0, 0)
        writer.top = min(writer.top, to)
        for began, code in kept:
            self._put(writer.top, began, code)
            writer.top += 2

    def adopt(self) -> None:
        """Serve the calling thread from now on; the one before has ended."""
        self.writer.thread = threading.get_ident()
        self.unwind(0)
        self._memory.serve()

    def release(self) -> None:
        """Serve no thread until adopted."""
        self.writer.thread = 0

    def detach(self) -> None:
        """Forget the files without touching them: this is a forked child and they are its parent's."""
        writer = self.writer
        self._owed = self.depth()
        writer.thread, writer.offset, writer.ranged, writer.top = 0, 0, 0, _FIRST
        writer.page = writer.space = NOTHING
        self._memory.forget()

    # -- the slow path of the writer

    def begin_slow(self, now: int, code: int) -> None:
        """Begin a span where the page has no place for it."""
        writer = self.writer
        try:
            if self._memory.head is None:
                self._start()
            if writer.top < _END:
                self._put(writer.top, now, code)
            writer.top += 2
        except Exception as fault:
            self._session.fault("spans", fault)

    def end_slow(self, now: int, code: int, value: Any = NAN, mode: int | None = None) -> None:
        """End a span that is not the innermost, or whose record does not fit.

        Out of order come the ends of generators, and of spans that an exception passed unseen.
        """
        try:
            if self.writer.top > _END:  # too deep to have been kept
                self.writer.top -= 2
                self._memory.drop()
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
                self._session.fault("spans", ValueError(f"code {code} names no phase"))
            self.unwind(at, [span for span in spans[at + 1 :] if span[1] & 255 == _ANNOTATION])
        except Exception as fault:
            self._session.fault("spans", fault)

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
        """Write a record that does not fit, or whose value is not a number."""
        writer = self.writer
        entered = time.perf_counter_ns()
        try:
            if self._memory.head is None:
                self._start()
            if writer.offset + record.RECORD_SIZE > len(writer.space) and not self._turn(entered):
                self._memory.drop()
                return
            tail = (
                (writer.low_step if step is None else step & LOW)
                | name_id << NAME
                | mode << MODE
                | phase << PHASE
            )
            place = writer.offset
            writer.offset = place + record.RECORD_SIZE
            try:
                record.PACKED.pack_into(writer.space, place, begin, duration, value, tail)
            except (struct.error, TypeError) as error:
                record.PACKED.pack_into(writer.space, place, begin, duration, NAN, tail)
                self._session.fault("spans", error)
        except Exception as fault:
            self._session.fault("spans", fault)
        finally:
            self._memory.spent(time.perf_counter_ns() - entered)

    def _end_nothing(self) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._session.fault("spans", ValueError("a span was ended that was not begun"))

    def _put(self, at: int, began: int, code: int) -> None:
        self.writer.page[at] = began
        self.writer.page[at + 1] = code

    def _start(self) -> None:
        """Open this thread's files; called for its first record, and again when that failed."""
        writer = self.writer
        head = self._memory.open()
        if head is None:
            if not len(writer.page):  # private memory until there is a page
                writer.page = memoryview(bytearray(record.HEAD_SIZE)).cast("q")
            return
        upto = min(writer.top, _END)
        if len(writer.page):
            head[_FIRST:upto] = writer.page[_FIRST:upto]
        writer.page, writer.low_step = head, self._session.step & LOW
        self._turn(time.perf_counter_ns())

    def _turn(self, now: int) -> bool:
        """Turn to a new segment; return whether there is one."""
        writer = self.writer
        writer.space, writer.offset = self._memory.segment(now) or NOTHING, 0
        return len(writer.space) > 0


def earliest(thread_spool: ThreadSpool, phases: Container[int], before: int, *, apart: int, gap: int) -> int:
    """Return when the first of some phases began in step 0; `before` when the current segment has none.

    A first span with the name `apart` does not count if nothing of these phases follows it within `gap`, ns.
    """
    spans: list[tuple[int, int, int]] = [
        (begin, begin + took, name)
        for begin, took, _, step, name, _, phase in record.RECORD.iter_unpack(thread_spool.recent())
        if phase in phases and step == 0
    ]
    spans += [(begin, begin, code >> 8) for begin, code in thread_spool.open_spans() if code & 255 in phases]
    spans.sort()
    for (begin, end, name), (after, _, _) in pairwise(spans):
        if name != apart or after - end < gap:
            return begin
    return spans[-1][0] if spans else before
