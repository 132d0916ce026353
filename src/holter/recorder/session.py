"""The recording of this process: names, threads, journal and adapters; `steps` ends its steps."""

from __future__ import annotations

import atexit
import os
import threading
import time
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holter import recorder
from holter.recorder import cost, failure
from holter.recorder.background import BackgroundThreads
from holter.recorder.guard import MAX_TEXT, CircuitBreaker, tell
from holter.recorder.identity import Identity
from holter.recorder.journal import Journal
from holter.recorder.native.mapped import tell_lost
from holter.recorder.spool.files import Spool, ThreadFiles
from holter.recorder.spool.names import MAX_LENGTH, NAMES, OTHER
from holter.recorder.spool.thread_spool import TRAIN, ThreadSpool
from holter.recorder.spool.threads import LocalSpool, NullSpool, ThreadSpools
from holter.recorder.steps import Steps
from holter.recorder.window import Windows
from holter.schema import record
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SCALAR = int(Phase.SCALAR)
_NO_STEP = -1
_LASTING = ("framework", "rank", "owner")
"""Kinds of facts that hold until the next one; a forked child repeats them."""

current: Session | None = None
"""The session that records this process, if any."""

local_spool: LocalSpool | NullSpool = NullSpool()
"""The calling thread's place to write annotations: `here.begin(code)`, `here.end_of(code)`."""


def activate() -> Session | None:
    """Return the session of this process, started now when the environment asks for one."""
    directory = os.environ.get(record.ENV_SPOOL)
    if current is None and directory and os.environ.get(record.ENV_DISABLE) != "1":
        started = recorder.STARTED_NS if os.getpid() == recorder.PID else None  # forked since?
        Session(directory, started=started).install()
    return current


class Session(Steps):
    """Records one process. Nothing is written before the first span, so idle processes leave no trace."""

    def __init__(
        self,
        directory: str,
        *,
        started: int | None = None,
        segment_records: int = record.SEGMENT_RECORDS,
        max_segments: int = record.MAX_SEGMENTS,
    ) -> None:
        super().__init__()
        self.identity = Identity(started)
        self.spool = Spool(
            directory, self.process, segment_records=segment_records, max_segments=max_segments
        )
        self.logged_names: set[str] = set()
        """Names of numbers that the user logs; adapters leave these to the user."""
        self.watch: Callable[..., None] | None = None  # what an adapter offers to save tensors with
        self.explicit: Any = None  # what it offers to scripts: `mode()`, and `save` of one tensor
        self.watch_phases: Callable[..., Any] | None = None  # and to profilers
        self.wait_for_device: Callable[[], None] = lambda: None  # until the last step is computed
        self.torch_parts: Any = None  # its state, step clock, roots and passes, for trainers
        self.pipelines: Any = None  # what TensorFlow's adapter knows of tf.data, for them
        self.mark_ns = self.range_ns = 0  # what a record costs: by a hook, by a range; see `cost.of_marks`
        self.sampler: Any = None  # what samples the loop of the framework that trains
        self.stacks: failure.Stacks | None = None
        self.journal_file = Journal(self.spool.path(record.journal_name(self.process)), self._first)
        self.fault_counts: dict[str, int] = {}
        self.failing: tuple[int, int, int] | None = None
        """Id of an exception, phase and step of the innermost span it passed."""
        self.noted: int | None = None  # id of the exception that was journaled last
        self.sticky: dict[str, Any] = {}
        """The newest facts of the kinds in `_LASTING`."""
        self._lock = threading.RLock()
        self.breakers: dict[str, CircuitBreaker] = {}
        self._detachers: dict[str, Callable[[], None]] = {}
        self._undo: list[Callable[[], None]] = []
        self.ended = False
        """Whether it recorded its end."""
        self.threads = ThreadSpools(self, self.writers)
        self.local = self.threads.local
        self.windows = Windows(self)
        self.background = BackgroundThreads()

    @property
    def attached(self) -> bool:
        """Whether an adapter of a framework records this process."""
        return bool(self._detachers)

    @property
    def process(self) -> str:
        """Key of this process: `pid-start`; another one after a fork."""
        return self.identity.key

    def go_to(self, step: int) -> None:
        """Be at another step from now on, in every thread; -1 where steps mean nothing, as in a worker."""
        self.step = step
        for each in self.threads.all:
            each.set_step(step)

    def thread_spool(self) -> ThreadSpool:
        """Return the calling thread's spool; use it on this thread only."""
        return self.local.thread_spool

    def name(self, text: str) -> int:
        """Return the id of a name, 1 to 65535; the same text has the same id for the process's life."""
        known = NAMES.ids.get(text)
        if known is not None:
            return known
        number, new = NAMES.id(text)
        if new:
            if self.journal_file.opened:  # else it is among the first facts of the journal
                self.journal("name", [number, "(other)" if number == OTHER else text[:MAX_LENGTH]])
            if number == OTHER:
                self.fault("names", ValueError("too many different names; new ones read (other)"))
        return number

    def scalar(self, name: str, value: float, step: int | None = None, mode: int = TRAIN) -> None:
        """Record one number, anything `float()` takes; NaN and infinities are kept as they are."""
        try:
            now = time.perf_counter_ns()
            most = record.MAX_SCALAR_STEP
            if step is not None and not _NO_STEP <= step <= most:
                text = f"step {step} of {name!r} is not from 0 to {most:,}; its number has no step"
                self.fault("step", OverflowError(text))
                step = _NO_STEP
            # A call of a function would cost time, and be a part of the script's own profile.
            above = 0 if step is None or step <= record.MAX_STEP else record.scalar_duration(step)
            self.local.thread_spool.add(_SCALAR, self.name(name), now, above, float(value), step, mode)
        except Exception as error:
            self.fault("scalar", error)

    def journal(self, kind: str, fact: object) -> None:
        """Note a rare fact; it is held back until this process records its first span."""
        if kind in _LASTING:
            if self.sticky.get(kind) == fact:
                return
            self.sticky[kind] = fact
        try:
            self.journal_file.write(kind, fact)
        except OSError as error:
            self.fault("journal", error)

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the switch and the fault counter of one thing that is recorded."""
        return self.breakers.setdefault(name, CircuitBreaker(name, self.fault))

    def fault(self, where: str, error: BaseException) -> None:
        """Count a fault by place. The first goes to stderr; the 1st, 10th, 100th … go to the journal."""
        try:
            count = self.fault_counts[where] = self.fault_counts.get(where, 0) + 1
            text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
            if count == 1:
                tell(f"fault in {where}: {text}")
            if str(count).strip("0") == "1":
                fact = {"time": time.perf_counter_ns(), "where": where, "error": text, "count": count}
                self.journal_file.write("fault", fact)
        except Exception:  # noqa: S110  the journal may be what fails
            pass

    def become_worker(self, index: int, parent: str | None = None) -> None:
        """Say that this process is data-loader worker `index` of the process with key `parent`.

        `parent` may be left out in a forked worker. Call it before the first span of the process.
        """
        self.identity.worker = index
        self.identity.parent = parent or self.identity.parent
        self.go_to(-1)
        if self.journal_file.opened:
            self.journal("process", self._identity())

    def note_failing(self, error: BaseException, code: int) -> None:
        """Remember the innermost span an exception passed; by id: a reference would keep frames alive."""
        if self.failing is None or self.failing[0] != id(error):
            self.failing = (id(error), code & 255, self.step)

    def install(self) -> None:
        """Become what records this process; watch for exceptions, exit and forks."""
        global current, local_spool
        current, local_spool = self, self.local
        self._undo.append(failure.install(self))
        atexit.register(self.end)

    def attach(self, adapter: str) -> None:
        """Attach one file of `frameworks/`; a second call does nothing. Raises what the adapter raises."""
        if adapter not in self._detachers:
            module = import_module(f"holter.recorder.frameworks.{adapter}")
            if self.release is not None:
                self.end_open_round()
                self.since = time.perf_counter_ns()  # importing the framework belongs to no step
            self._detachers[adapter] = module.attach(self)

    def note_unattached(self, adapter: str, error: BaseException) -> None:
        """Note that an adapter could not attach, also in a process that records nothing else."""
        self.open()
        text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        where = f"{record.ADAPTER}{adapter}"
        self.journal("fault", {"time": time.perf_counter_ns(), "where": where, "error": text, "count": 1})

    def open(self, *, recording: bool = False) -> None:
        """Open the journal and what goes with it, for a record or for a fact; raises `OSError`."""
        with self._lock:
            began, self.identity.recording = self.identity.recording, self.identity.recording or recording
            if not self.journal_file.opened:
                if self.stacks is None:
                    self.stacks = failure.Stacks(self.spool.path(record.stacks_name(self.process)))
                self.journal_file.open()
                self.mark_ns, self.range_ns = cost.of_marks()
            elif recording and not began:
                self.journal("process", self._identity())
            if recording:
                self.windows.open()

    def flush(self) -> None:
        """Write journal lines that could not be written before. Raises `OSError`."""
        self.journal_file.flush()

    def end(self) -> None:
        """Note the end of the process and what recording cost it. Idempotent."""
        if self.ended or self.identity.pid != os.getpid():
            return
        self.ended = True
        try:
            self.background.end()
            self.windows.end()
            failure.note_last(self)
            tell_lost(self.fault)
            if self.journal_file.opened:
                if NAMES.refused:
                    self.journal("fault", NAMES.fault())
                spent = sum(each.cost() for each in self.threads.all)
                self.journal("end", {"time": time.perf_counter_ns(), "cost_ns": spent})
        except Exception as error:
            self.fault("end", error)

    def close(self) -> None:
        """Take every hook out and stop recording this process, which lives on."""
        global current, local_spool
        for name, detach in list(self._detachers.items()):
            try:
                detach()
            except Exception as error:
                self.fault(f"detach {name}", error)
        self._detachers.clear()
        self.end()
        atexit.unregister(self.end)
        while self._undo:
            self._undo.pop()()
        self.threads.close()
        self._close_stacks()
        self.journal_file.forget()
        if current is self:
            current, local_spool = None, NullSpool()

    def _close_stacks(self) -> None:
        if self.stacks is not None:
            self.stacks.close()
            self.stacks = None

    def thread_files(self) -> ThreadFiles:
        """Return new files for the calling thread."""
        return ThreadFiles(self.spool, self.threads.index())

    def forked(self) -> None:
        """Become another process: new key, new files at the first record, nothing of the parent's."""
        self.windows.forked()
        self.background.forked()
        self.threads.forked()  # first: no fault below may lead to writes into the parent's files
        parent, self.identity = self.identity, Identity()
        self.identity.parent = parent.key
        self.spool = replace(self.spool, process=self.process)
        self._lock = threading.RLock()
        NAMES.forked()
        self._close_stacks()
        self.journal_file.forget()
        self.journal_file = Journal(self.spool.path(record.journal_name(self.process)), self._first)
        for kind, fact in self.sticky.items():
            self.journal_file.write(kind, fact)
        self.fault_counts.clear()
        self.failing = self.noted = None
        failure.watch_multiprocessing()
        self.ended = False
        self.since = 0
        self.go_to(0)

    def _first(self) -> Iterator[tuple[str, object]]:
        yield "process", self._identity()
        yield from (("name", [number, text]) for number, text in NAMES.listed())

    def _identity(self) -> dict[str, object]:
        return self.identity.fact(None if self.stacks is None else self.stacks.signal)


def _after_fork_in_child() -> None:
    if current is not None:
        try:
            current.forked()
        except Exception as error:
            tell(f"a forked process is not recorded: {type(error).__name__}: {error}")


os.register_at_fork(after_in_child=_after_fork_in_child)
