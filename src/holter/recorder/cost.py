"""Measures the cost of one span in this process, so that the job can report its own overhead."""

from __future__ import annotations

import mmap
import time

from holter.recorder.spool.files import Spool, ThreadFiles
from holter.recorder.spool.thread_spool import ThreadSpool
from holter.schema.record import HEAD_SIZE, RECORD_SIZE

_ROUNDS = 4
_MARKS = 16
_COLD = 3
"""Cost of a span after short work of a training, relative to spans in a row; see `thread_memory.coldness`."""
_HOOK = 24
"""What the hook around a mark costs a training, as a multiple of the calls of a small Python function.

`benchmarks/step_cost.py` compares these reports with measurements.
"""


class _Memory(ThreadFiles):
    """Files of a thread in anonymous memory: the same code runs and leaves nothing on disk."""

    def open_head(self, step: int, dropped: int) -> mmap.mmap:
        return mmap.mmap(-1, HEAD_SIZE)

    def next_segment(self) -> mmap.mmap | None:
        self.started += 1
        return mmap.mmap(-1, self.spool.segment_records * RECORD_SIZE)


class _Rehearsal:
    """A session that records nothing."""

    step = 0
    mark_ns = range_ns = 0

    def open(self, *, recording: bool) -> None:
        pass

    def flush(self) -> None:
        pass

    def thread_files(self) -> ThreadFiles:
        return _Memory(Spool("", "rehearsal", segment_records=_MARKS * (_ROUNDS + 1)), 0)

    def fault(self, where: str, error: BaseException) -> None:
        raise error

    def note_failing(self, error: BaseException, code: int) -> None:
        pass


def of_marks() -> tuple[int, int]:
    """Return the cost of a record in this process, ns: of one that a hook writes, and of a range's."""
    thread_spool = ThreadSpool(_Rehearsal())
    begin, end_of, hook = thread_spool.begin, thread_spool.end_of, _hook
    mark = call = 1 << 62
    begin(1)
    end_of(1)
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(_MARKS):
            begin(1)
            end_of(1)
        between = time.perf_counter_ns()
        for _ in range(_MARKS):
            hook(thread_spool)
        mark, call = min(mark, between - start), min(call, time.perf_counter_ns() - between)
    return (_COLD * mark + _HOOK * call) // _MARKS, _COLD * mark // _MARKS


def _hook(thread_spool: ThreadSpool) -> int:
    """Do the minimum of an adapter's hook: one attribute and one exception handler."""
    try:
        return thread_spool.thread
    except AttributeError:
        return 0
