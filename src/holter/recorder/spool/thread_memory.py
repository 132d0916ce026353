"""Opens the head page and the segments of one thread when the first record comes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from holter.recorder.native.mapped import tell_lost
from holter.recorder.spool.files import RETRY_NS
from holter.schema import record

if TYPE_CHECKING:
    from holter.recorder.spool.files import ThreadFiles


def coldness(gap: float) -> float:
    """Return the cost of a hook relative to hooks in a row, if the last one ran `gap` ns ago.

    The work between them empties the caches: `benchmarks/hooks_in_place.py` at steps of 1, 4, 10 and 100 ms.
    """
    return min(1.0 + gap / 1e6, 6.0)


class SpoolSession(Protocol):
    """The session that a thread's spool belongs to."""

    mark_ns: int
    range_ns: int
    step: int

    def open(self, *, recording: bool) -> None:
        """Make ready for the first record; may raise `OSError`."""

    def flush(self) -> None:
        """Try again what could not be written; may raise `OSError`."""

    def thread_files(self) -> ThreadFiles:
        """Return where the calling thread's records go."""

    def fault(self, where: str, error: BaseException) -> None:
        """Count a fault of the recorder."""

    def note_failing(self, error: BaseException, code: int) -> None:
        """Remember the innermost span that an exception passed."""


class ThreadMemory:
    """The mapped files of one thread, and its cost. Reports a failure to create them, and retries later."""

    def __init__(self, session: SpoolSession) -> None:
        self._session = session
        self.forget()

    def forget(self) -> None:
        """Forget the files without touching them: they are the parent's of this forked process."""
        self.head: memoryview | None = None
        self._files: ThreadFiles | None = None
        self._retry_at = self._dropped = self._slow_ns = 0
        self._hooked = self._hooks_ns = 0
        self._counted = 0

    def open(self) -> memoryview | None:
        """Open the head page, as words; for the first record, and again when that failed."""
        now = time.perf_counter_ns()
        if now < self._retry_at:
            return None
        session = self._session
        try:
            session.open(recording=True)
            if self._files is None:
                self._files = session.thread_files()
            page = self._files.open_head(session.step, self._dropped)
            self.head = memoryview(page).cast("q")
            self._counted = now
        except OSError as error:
            self._retry_at = now + RETRY_NS
            session.fault("spool", error)
        return self.head

    def segment(self, now: int) -> memoryview | None:
        """Return memory for the next records; None while none can be created."""
        if now < self._retry_at or self._files is None:
            return None
        found = None
        try:
            found = self._files.next_segment()
            self._session.flush()
            tell_lost(self._session.fault)
        except OSError as error:
            self._session.fault("spool", error)
        if found is None:
            self._retry_at = now + RETRY_NS
            return None
        return memoryview(found)  # written into faster than the map itself

    def serve(self) -> None:
        """Write the calling thread into the head page."""
        if self.head is not None:
            self.head[record.HEAD_THREAD] = threading.get_native_id()
            self.head[record.HEAD_IDENT] = threading.get_ident()

    def drop(self) -> None:
        """Count a dropped record."""
        self._dropped += 1
        if self.head is not None:
            self.head[record.HEAD_DROPPED] = self._dropped

    def spent(self, nanoseconds: int) -> None:
        """Add measured time that no record represents."""
        self._slow_ns += nanoseconds

    def cost(self, offset: int, ranged: int) -> int:
        """Publish and return the nanoseconds spent so far.

        Args:
            offset: End of the written part of the segment.
            ranged: Number of records of ranges, which have no hook around them.
        """
        files, session = self._files, self._session
        written = 0 if files is None else max(files.started - 1, 0) * files.spool.segment_records
        hooked = max(written + offset // record.RECORD_SIZE - ranged, 0)
        now, new = time.perf_counter_ns(), hooked - self._hooked
        if new > 0:
            self._hooks_ns += int(new * session.mark_ns * coldness((now - self._counted) / new))
            self._hooked, self._counted = hooked, now
        spent = self._slow_ns + self._hooks_ns + ranged * session.range_ns
        if self.head is not None:
            self.head[record.HEAD_COST] = spent
        return spent
