"""Counts boosting rounds as steps, and wraps functions of a library of trees into spans."""

from __future__ import annotations

import atexit
import weakref
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.spans import timed
from holter.recorder.patches import Patches, hide
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

PARTS = ("data_loading", "compute", "eval")
"""The parts of a step that the hooks of these libraries observe."""
_MODES = {Phase.EVAL: Mode.EVAL}


class Rounds:
    """Ends a step after each boosting round, unless somebody else counts the steps of this process.

    A library reports the end of a round with `end_round`. Where none is reported, as in a loop that calls
    `update` itself, a round ends with the last recorded work before a model that has grown in it grows again.
    Of several threads that train at once, only the thread that began last counts.
    """

    def __init__(self, session: Session, framework: str, version: str) -> None:
        self.session = session
        self.breaker = session.breaker(framework)
        self.patches = Patches()
        self.reported = False
        """Whether the library reports the ends of rounds now."""
        self._framework, self._version = framework, version
        self._steps = 0
        self._thread = 0
        """The thread whose rounds count."""
        self._inside: set[int] = set()
        """Threads that grow trees now."""
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        """Models that have grown."""
        self._grown: set[int] = set()
        """Ids of the models that grew in the unreported round; cross-validation has several."""
        self._last_end = 0
        """When the last work of an unreported round ended, monotonic ns; 0 = no such round is open."""
        atexit.register(self._end_unreported)
        self.patches.later(lambda: atexit.unregister(self._end_unreported))

    @property
    def counts(self) -> bool:
        """Whether the rounds of the calling thread count."""
        return self._thread == get_ident()

    def time(self, owner: Any, function: str, name: str, phase: Phase) -> None:
        """Record each call of `owner.function` as a span."""
        self.patches.wrap(owner, function, lambda original: self._timed(original, name, phase))

    def grow(self, model: type, *functions: str) -> None:
        """Record each outermost call of these methods as the growing of a round's trees."""
        for function in functions:
            self.patches.wrap(model, function, self._growing)
        self.patches.before(model, "__init__", self._before_model, self.breaker)

    def begin(self) -> None:
        """Begin a training whose rounds the library reports."""
        self._end_unreported()
        self._thread, self.reported = get_ident(), True
        self._claim()

    def end_round(self) -> None:
        """End the step of a round."""
        if self.counts:
            self._last_end = 0  # the end of the round is reported
            self._grown.clear()
            self._end_step(None)

    def finish(self, *_: Any, **__: Any) -> None:
        """End the training, and a round that nobody reported; others may count steps again."""
        if self.counts:
            self._end_unreported()
            self.reported = False
            self.session.release_steps(self._framework)

    def _timed(self, original: Any, name: str, phase: Phase) -> Callable[..., Any]:
        mode = _MODES.get(phase)
        return timed(self.session, self.breaker, original, phase, name, mode=mode, ended=self._note_end)

    def _growing(self, original: Any) -> Callable[..., Any]:
        timed = self._timed(original, "grow trees", Phase.COMPUTE)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            thread = get_ident()
            outermost = thread not in self._inside and self.breaker.on
            if outermost:
                try:
                    self._before_growing(args[0])
                except Exception as error:
                    self.breaker.fault(error)
                self._inside.add(thread)
            try:
                return timed(*args, **kwargs) if outermost else original(*args, **kwargs)
            except BaseException as error:
                self.finish()  # the library does not report the end of a training that fails
                hide(error)
                raise
            finally:
                if outermost:
                    self._inside.discard(thread)
                    if self.counts and not self.reported:
                        self._last_end = perf_counter_ns()

        return wrapper

    def _before_model(self, *_: object, **__: object) -> None:
        if self.counts:
            self._end_unreported()

    def _before_growing(self, model: Any) -> None:
        new = model not in self._models
        self._models.add(model)
        if self.reported or not (new or self.counts):
            return
        if id(model) in self._grown or not self.counts:
            self._end_unreported()
        self._grown.add(id(model))
        if not self.counts or self.session.step_owner != self._framework:
            self._thread = get_ident()
            self._claim()

    def _claim(self) -> None:
        """Count the steps from now on, unless the script does so or another framework has begun."""
        session = self.session
        about = {"name": self._framework, "version": self._version, "device": "cpu", "parts": list(PARTS)}
        session.journal("framework", about)
        # Steps that torch counted go on: these trees are part of one.
        if session.step == self._steps and session.claim_steps(self._framework):
            session.since = perf_counter_ns()

    def _end_unreported(self) -> None:
        if self._last_end:
            ended, self._last_end = self._last_end, 0
            self._grown.clear()
            self._end_step(ended)

    def _end_step(self, now: int | None) -> None:
        if self.session.step_owner == self._framework:
            self.session.boundary(now, manual=True)
            self._steps = self.session.step

    def _note_end(self) -> None:
        if self._last_end and self.counts and get_ident() not in self._inside:
            self._last_end = perf_counter_ns()
