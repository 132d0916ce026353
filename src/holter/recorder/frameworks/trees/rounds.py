"""Counts boosting rounds as steps, and wraps functions of a library into spans."""

from __future__ import annotations

import atexit
import os
import weakref
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.spans import timed
from holter.recorder.frameworks.written import size_written
from holter.recorder.patches import Patches, hide
from holter.recorder.sampling.other_threads import exists
from holter.schema.phases import SCRIPT, Phase
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.trees.contributions import Contributions
    from holter.recorder.sampling.loop_samples import LoopSampler
    from holter.recorder.session import Session

PARTS = ("data_loading", "compute", "eval")
"""The parts of a step that the hooks of these libraries observe."""


class Rounds:
    """Ends a step after each boosting round, unless the script or another framework counts the steps.

    A library reports the end of a round with `end_round`. Where none is reported, as in a loop that calls
    `update` itself, a round ends with the last recorded work before a model that has grown in it grows again.
    Of several threads that train at once, only the thread that began last counts.
    """

    def __init__(self, session: Session, framework: str, library: Any, parts: Sequence[str] = PARTS) -> None:
        self.session = session
        self.breaker = session.breaker(framework)
        self.patches = Patches()
        self.reported = False
        """Whether the library reports the ends of rounds now."""
        self.unseen = False
        """Whether work runs whose span is written when it has ended."""
        self._between = False
        """Whether a reported training has ended and no other work has counted since."""
        version = library.__version__
        self._about = {"name": framework, "version": version, "device": "cpu", "parts": list(parts)}
        self._framework = framework
        self._folder = library.__path__[0]
        self._sampler: LoopSampler | None = None
        self._thread = 0
        """The thread whose rounds count."""
        self._inside: set[int] = set()
        """Threads that grow trees now."""
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        """Models that have grown."""
        self._grown: set[int] = set()
        """Ids of the models that grew in the unreported round; cross-validation has several."""
        self._continues: Callable[[Any], bool] = lambda model: False
        self._last_end = 0
        """When the last work of an unreported round ended, monotonic ns; 0 = no such round is open."""
        atexit.register(self.end_unreported)
        self.patches.later(lambda: atexit.unregister(self.end_unreported))

    @property
    def counts(self) -> bool:
        """Whether the rounds of the calling thread count."""
        return self._thread == get_ident()

    def contributions(self) -> Contributions | None:
        """Return what saves SHAP values, if `--save` asks for some."""
        if "shap" not in os.environ.get(ENV_SAVE, ""):
            return None
        from holter.recorder.frameworks.trees.contributions import Contributions

        return Contributions(self.session)

    def time(self, owner: Any, function: str, name: str, phase: Phase) -> None:
        """Record each call of `owner.function` as a span."""
        self.patches.wrap(owner, function, lambda original: self._timed(original, name, phase))

    def save(self, owner: Any, function: str) -> None:
        """Record each call of a function that writes a model as a checkpoint with its size."""
        name = f"{owner.__name__}.{function}"
        self.patches.wrap(
            owner,
            function,
            lambda original: self._timed(original, name, Phase.CHECKPOINT, size_written),
        )

    def grow(
        self, model: type, *functions: str, continues: Callable[[Any], bool] = lambda model: False
    ) -> None:
        """Record each outermost call of these methods as the growing of a round's trees.

        `continues` says whether a model that grows for the first time continues another one; see `begin`.
        """
        self._continues = continues
        for function in functions:
            self.patches.wrap(model, function, self._growing)
        self.patches.before(model, "__init__", self._before_model, self.breaker)

    def begin(self, *, continues: bool = False) -> None:
        """Begin a training whose rounds the library reports.

        Where it continues a model, and a training came before, its first round begins where that ended: a
        loop that trains a model on one portion of the data after the other also loads these portions.
        """
        self.end_unreported()
        self.reported = True
        self.claim(apart=not continues)

    def pause(self) -> None:
        """End a training. The steps stay with this library until another framework trains."""
        if self.counts:
            self.end_unreported()
            self.reported, self._between = False, True
            if self.session.step_owner == self._framework:
                self.session.release = self.finish

    def claim(self, since: int = 0, *, apart: bool = True) -> bool:
        """Count the work of this thread from `since`, or from now on; return whether it counts.

        It counts unless the script or another framework counts the steps.

        Args:
            since: When the work began, monotonic ns.
            apart: Whether the step begins then, also where steps are counted already.
        """
        session = self.session
        if session.release == self.finish:
            session.release = None
        session.end_open_round()
        self._between = False
        if self.counts and session.step_owner == self._framework:
            if apart:
                session.since = since or perf_counter_ns()
            return True
        if self.reported and self._thread not in (0, get_ident()) and exists(self._thread):
            about = {"kind": "training of another thread", "name": str(self._thread), "recorded": get_ident()}
            session.journal("left_out", about)
        self._thread = get_ident()
        if session.step_owner in ("", SCRIPT, self._framework):
            session.journal("framework", self._about)
        # Steps that torch counted go on: this work is part of one.
        if session.step == session.framework_steps and session.claim_steps(self._framework):
            session.since = since or perf_counter_ns()
        self._show_loop()
        return session.step_owner == self._framework

    def end_round(self, now: int | None = None) -> None:
        """End the step of a round, at `now` where that is given."""
        if self.counts:
            self._last_end = 0  # the end of the round is reported
            self._grown.clear()
            self._end_step(now)

    def leave_open(self) -> None:
        """Let the round go on until work of another one begins, or another framework trains."""
        self._last_end = perf_counter_ns()
        self.session.release = self.finish

    def end_unreported(self) -> None:
        """End the round that is open, with its last recorded work."""
        if self._last_end:
            ended, self._last_end = self._last_end, 0
            self._grown.clear()
            self._end_step(ended)

    def finish(self, *_: Any, **__: Any) -> None:
        """End the training, and a round that nobody reported; others may count steps again."""
        if self.counts:
            self.end_unreported()
            self.reported = False
            self.session.release_steps(self._framework)

    def _show_loop(self) -> None:
        """Show the caller of the library to the sampler of the loop."""
        if self._sampler is None:
            from holter.recorder.sampling.loop_samples import LoopSampler

            self._sampler = LoopSampler(self.session, self._sampled, self._folder)
            self.patches.later(self._sampler.stop)
        self._sampler.learn()

    def _sampled(self) -> int:
        """Return the thread whose code outside of the hooks is sampled; 0 while others train, or nothing."""
        return 0 if self.unseen or self.session.step_owner != self._framework else self._thread

    def _timed(
        self, original: Any, name: str, phase: Phase, value: Callable[..., float] | None = None
    ) -> Callable[..., Any]:
        return timed(self.session, self.breaker, original, phase, name, value=value, ended=self._note_end)

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
                        self.leave_open()

        return wrapper

    def _before_model(self, *_: object, **__: object) -> None:
        if self.counts:
            self.end_unreported()

    def _before_growing(self, model: Any) -> None:
        new = model not in self._models
        self._models.add(model)
        if self.reported or not (new or self.counts):
            return
        if id(model) in self._grown or not self.counts:
            self.end_unreported()
        self._grown.add(id(model))
        self.claim(apart=self._between and not self._continues(model))

    def _end_step(self, now: int | None) -> None:
        if self.session.step_owner == self._framework:
            self.session.boundary(now, manual=True)
            self.session.framework_steps = self.session.step

    def _note_end(self, *_: object, **__: object) -> None:
        if self._last_end and self.counts and get_ident() not in self._inside:
            self._last_end = perf_counter_ns()
