"""The spans of one thread: what can be written, and what is asked of the session they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holter.recorder.hotpath import NAN, TRAIN, bind
from holter.schema.phases import Phase
from holter.schema.record import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from holter.recorder.spool import ThreadFiles

__all__ = ["NAN", "PHASES", "TRAIN", "Marks", "Recording", "earliest"]

PHASES = {int(phase): phase.name.lower() for phase in Phase}


class Recording(Protocol):
    """What marks ask of the session they belong to."""

    mark_ns: int
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


class Elsewhere(Protocol):
    """A range, where its marks are not those of the calling thread, or an exception passes through it."""

    def enter(self) -> object:
        """Begin it."""
        ...

    def leave(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End it."""
        ...


class Marks:
    """The spans of one thread. Hot: `begin`, `end_of`, `add`, `settle`; all others are rare.

    `begin(code)` and `end(value, mode)` nest like brackets; `code` is `name id << 8 | phase`.
    `end_of(code, value, mode)` ends the innermost span with that code, whatever was begun since.
    `begin` and `end_of` return the moment, ns: a reading of the clock saved where two things meet.
    `add(phase, name_id, begin, duration, value, step, mode)` writes a span that is already over.
    """

    __slots__ = (
        "add",
        "adopt",
        "begin",
        "cost",
        "depth",
        "detach",
        "end",
        "end_of",
        "fail",
        "open_spans",
        "ranges",
        "recent",
        "release",
        "serve",
        "settle",
        "spent",
        "unwind",
    )

    begin: Callable[[int], int]
    end: Callable[..., None]
    end_of: Callable[..., int]
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
    settle: Callable[[int], None]
    """Publish the step."""
    cost: Callable[[], int]
    """Publish and return the nanoseconds the recorder spent in this thread so far."""
    ranges: Callable[[int, Elsewhere], tuple[Callable[[], object], Callable[..., None]]]
    """Return `__enter__` and `__exit__` of a range with a code. On another thread they ask the range."""
    serve: Callable[[], int]
    """Which thread these marks serve, as `threading.get_ident` says; 0 when none."""
    adopt: Callable[[], None]
    """Serve the calling thread from now on; the one before has ended."""
    release: Callable[[], None]
    """Serve no thread until adopted."""
    detach: Callable[[], None]
    """Forget the files without touching them: this is a forked child and they are its parent's."""

    def __init__(self, session: Recording) -> None:
        bind(self, session)


def earliest(marks: Marks, phases: Container[int], before: int) -> int:
    """Return when the first of some phases began in step 0; `before` when the current segment has none."""
    begins: list[int] = [
        begin
        for begin, _, _, step, _, _, phase in RECORD.iter_unpack(marks.recent())
        if phase in phases and step == 0
    ]
    begins += [begin for begin, code in marks.open_spans() if code & 255 in phases]
    return min([before, *begins])
