"""What the training is doing right now: shared by the parts of the adapter, one set of flags a thread."""

from __future__ import annotations

import gc
import os
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.guard import Collector
    from holter.recorder.marks import Marks
    from holter.recorder.session import Session

NAN = float("nan")
# Plain integers: an enumeration's members cost a lookup and slower arithmetic in every mark.
TRAIN, EVAL, PREDICT = int(Mode.TRAIN), int(Mode.EVAL), int(Mode.PREDICT)
GC = int(Phase.GC)
PAUSE_NS = 1_000_000
"""A garbage collection shorter than this is not worth a record."""
_MAX_PAUSES = 1000


class At:
    """What one thread is inside of, and its marks. Of spans of one kind only the outermost is recorded."""

    __slots__ = (
        "add",
        "backward",
        "began",
        "begin",
        "depth",
        "end_of",
        "fail",
        "fetching",
        "forward",
        "forward_end",
        "loading",
        "marks",
        "moving",
        "optimizer",
        "optimizers",
        "saving",
        "scaling",
        "seen",
        "waiting",
    )

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.begin = marks.begin
        self.end_of = marks.end_of
        self.add = marks.add
        self.fail = marks.fail
        self.forward = False
        """A forward pass, or something in which a module's call is not one: a backward pass, a fetch."""
        self.depth = 0
        """Module calls open as the discovery hooks see them."""
        self.backward = False
        self.loading = False
        self.fetching = 0
        """Fetches open: a dataset may load from another one."""
        self.moving = False
        self.saving = False
        self.waiting = False
        self.optimizers = 0
        self.began = 0
        """When the outermost optimizer that steps began to, ns."""
        self.scaling = False
        """A gradient scaler steps an optimizer: that is the span, the optimizer's own hooks only count."""
        self.optimizer = 0
        """Id of the outermost optimizer that steps; it stays when the step raises."""
        self.seen = True
        """A forward, backward or optimizer was seen since the last batch was asked for."""
        self.forward_end = 0
        """When the last outermost forward pass ended, ns; 0 when something else came after it."""


class Here(threading.local):
    """Leads each thread to its own state: one slow look, then plain attributes."""

    def __init__(self, session: Session) -> None:
        self.at = At(session.marks())


class Flow:
    """The session, the framework, and the little that the adapter's parts must tell one another."""

    def __init__(self, session: Session, torch: ModuleType) -> None:
        self.session = session
        self.torch = torch
        self.here = Here(session)
        self.is_compiling: Callable[[], bool] = getattr(
            getattr(torch, "compiler", None), "is_compiling", lambda: False
        )
        self.compiles = False
        """A compiler or an export was at work: hot paths ask `is_compiling`, which is dear, from then on."""
        self.backward_open = False
        """A backward pass runs: a step that ends inside it ends with it."""
        self.deferred: Callable[[], None] | None = None
        self.evaluated: list[tuple[int, int, str, Any]] = []
        """Time, step, function and value of losses since the last call of a model that evaluates."""
        self.on_eval_loss: Callable[[Any], None] | None = None
        """Called with each of them."""
        self._device = ""
        self._pauses: list[tuple[int, int, int]] = []
        self._pause_begin = 0
        self._gc_code = self.code(Phase.GC, "gc")
        self.wake_at = 1 << 62
        """Step at whose end `wake` is called, before the step number changes."""
        self.wake: Callable[[], None] = lambda: None
        self.boundary_calls: set[Callable[[], None]] = set()
        """Called at every step boundary, before the step number changes; empty most of the time."""

    def code(self, phase: Phase, name: str) -> int:
        """Return what `Marks.begin` takes for spans of `phase` called `name`."""
        return self.session.name(name) << 8 | int(phase)

    def timed(
        self,
        original: Callable[..., Any],
        code: int,
        collector: Collector,
        flag: str,
        value: Callable[[tuple[Any, ...], dict[str, Any]], float] | None = None,
        unless: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None,
        choose: Callable[[tuple[Any, ...], dict[str, Any]], int] | None = None,
    ) -> Callable[..., Any]:
        """Return `original` within a span. For what is rare; hot paths are written out where they are.

        Args:
            original: The framework's function.
            code: What `Marks.begin` takes.
            collector: Counts faults of ours.
            flag: Attribute of `At` that is set meanwhile: of nested calls the outermost is timed.
            value: Gives the span's value, from the arguments, once the call has returned.
            unless: Whether a call with these arguments is none to time.
            choose: Gives another code for a call, from the arguments.
        """
        here, is_compiling = self.here, self.is_compiling

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not collector.on or (unless is not None and unless(args, kwargs)):
                return original(*args, **kwargs)
            at = here.at
            if getattr(at, flag):
                return original(*args, **kwargs)
            setattr(at, flag, True)
            begun = done = False
            mine = code
            try:
                mine = code if choose is None else choose(args, kwargs)
                at.begin(mine)
                begun = True
            except Exception as error:
                collector.fault(error)
            try:
                result = original(*args, **kwargs)
                done = True
                return result
            except BaseException as error:
                at.fail(error)
                raise
            finally:
                setattr(at, flag, False)
                try:
                    if begun:
                        at.end_of(mine, value(args, kwargs) if done and value is not None else NAN)
                except Exception as error:
                    collector.fault(error)

        return wrapper

    def collector(self, what: str) -> Collector:
        """Return the switch and fault counter of one thing that is recorded."""
        return self.session.collector(f"pytorch.{what}")

    def note_device(self, kind: str) -> None:
        """Note the kind of device that trains, as far as it shows: asking torch for one would start it."""
        if kind != self._device:
            self._device = kind
            version = str(self.torch.__version__)
            self.session.journal("framework", {"name": "pytorch", "version": version, "device": kind})

    def plain_boundary(self) -> bool:
        """Whether nothing but the next step comes with the boundary of this one."""
        session = self.session
        return not (
            self.backward_open
            or self.boundary_calls
            or self._pauses
            or session.manual_steps
            or not session.since
            or session.step >= self.wake_at
        )

    def boundary(self, mode: int = TRAIN, now: int | None = None) -> None:
        """End the step; inside a backward pass, at that pass's end."""
        if self.backward_open:
            self.deferred = lambda: self.boundary(mode)
            return
        if now is None:
            now = perf_counter_ns()
        if self.boundary_calls:
            for call in tuple(self.boundary_calls):
                call()
        if self._pauses:
            self.write_pauses()
        session = self.session
        if session.step >= self.wake_at:
            self.wake()
        session.boundary(now, mode)

    def watch_pauses(self) -> Callable[[], None]:
        """Record pauses of the garbage collector from now on; return what ends that."""
        gc.callbacks.append(self._on_gc)
        # A forked worker would write its parent's pauses once more.
        os.register_at_fork(after_in_child=lambda: self._pauses.clear())

        def stop() -> None:
            if self._on_gc in gc.callbacks:
                gc.callbacks.remove(self._on_gc)

        return stop

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._pause_begin = perf_counter_ns()
            return
        duration = perf_counter_ns() - self._pause_begin
        # A collection can start in the middle of writing a record, so this one is written later.
        if duration >= PAUSE_NS and self._pause_begin and len(self._pauses) < _MAX_PAUSES:
            self._pauses.append((self._pause_begin, duration, info.get("generation", -1)))

    def has_pauses(self) -> bool:
        """Whether pauses wait to be written."""
        return bool(self._pauses)

    def write_pauses(self) -> None:
        """Write the pauses seen since the last call."""
        pauses, self._pauses = self._pauses, []
        add = self.here.at.add
        for begin, duration, generation in pauses:
            add(GC, self._gc_code >> 8, begin, duration, float(generation))
