"""Measure what one mark costs in this process, so that the job can say what recording cost it."""

from __future__ import annotations

import mmap
import time

from holter.recorder.marks import Marks
from holter.recorder.spool import Spool, ThreadFiles
from holter.schema.record import HEAD_SIZE, RECORD_SIZE

_ROUNDS = 4
_MARKS = 16
_IN_TRAINING = 10
"""What a record costs a training, as a multiple of marks in a row: the hooks around them, and caches that
the training's own work has emptied. `benchmarks/step_cost.py` compares what is told with what is measured.
"""


class _Memory(ThreadFiles):
    """Files of a thread that are no files: the same code runs, nothing is left behind."""

    def open_head(self, step: int, native_thread: int, dropped: int) -> mmap.mmap:
        return mmap.mmap(-1, HEAD_SIZE)

    def next_segment(self) -> mmap.mmap | None:
        self.started += 1
        return mmap.mmap(-1, self.spool.segment_records * RECORD_SIZE)


class _Rehearsal:
    """A recording that leads nowhere."""

    step = 0
    mark_ns = 0

    def open(self, *, recording: bool) -> None:
        pass

    def flush(self) -> None:
        pass

    def thread_files(self, marks: Marks) -> ThreadFiles:
        return _Memory(Spool("", "rehearsal", segment_records=_MARKS * (_ROUNDS + 1)), 0)

    def fault(self, where: str, error: BaseException) -> None:
        raise error

    def note_failing(self, error: BaseException, code: int) -> None:
        pass


def of_a_mark() -> int:
    """Return what a record costs here and now, ns: by the least of a few short rounds of marks."""
    marks = Marks(_Rehearsal())
    begin, end_of = marks.begin, marks.end_of
    least = 1 << 62
    begin(1)
    end_of(1)
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(_MARKS):
            begin(1)
            end_of(1)
        least = min(least, time.perf_counter_ns() - start)
    return least * _IN_TRAINING // _MARKS
