"""Records XGBoost: one boosting round is one step, split into growing trees and evaluating.

The hooks are on `Booster`, on the matrices and on `CallbackContainer`, which `train`, `cv`, the scikit-learn
estimators and the Dask workers use. The user's list of callbacks stays as it is, because its order matters.
"""

from __future__ import annotations

import atexit
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import Patches, hide
from holter.recorder.frameworks.xgboost.tensors import TreeTensors
from holter.recorder.spool.thread_spool import NAN
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_MATRICES = ("DMatrix", "QuantileDMatrix", "ExtMemQuantileDMatrix")
_EVAL = int(Mode.EVAL)
_OWNER = "xgboost"
PARTS = ("data_loading", "compute", "eval")
"""The parts of a step that these hooks observe."""


def attach(session: Session) -> Callable[[], None]:
    """Record XGBoost for `session`; return a function that removes every hook."""
    core, callback = sys.modules["xgboost.core"], sys.modules["xgboost.callback"]
    rounds = Rounds(session)
    patches = Patches()
    patches.wrap(core.Booster, "update", rounds.growing)
    patches.wrap(core.Booster, "boost", rounds.growing)
    patches.wrap(core.Booster, "eval_set", rounds.timed("evaluate", Phase.EVAL, mode=_EVAL))
    for name in _MATRICES:
        owner = getattr(core, name, None)
        if owner is not None and "__init__" in vars(owner):
            patches.wrap(owner, "__init__", rounds.timed(f"build {name}", Phase.DATA_LOADING))
    container = callback.CallbackContainer
    patches.before(container, "before_training", rounds.begin, rounds.breaker)
    patches.wrap(container, "after_iteration", rounds.timed("callbacks", Phase.ANNOTATION))
    patches.after(container, "after_iteration", rounds.after_round, rounds.breaker)
    patches.after(container, "after_training", rounds.finish, rounds.breaker)
    atexit.register(rounds.finish)
    patches.later(lambda: atexit.unregister(rounds.finish))
    return patches.undo


class Rounds:
    """Ends a step after each boosting round, unless somebody else counts the steps of this process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.breaker = session.breaker("xgboost")
        self._tensors = TreeTensors(session)
        self._trains = False
        """Whether a `CallbackContainer` reports the rounds; a loop of `update` calls has none."""
        self._steps = 0
        self._depth = 0
        self._last_end = 0
        """When the last work of an unfinished round of a hand-written loop ended, monotonic ns; 0 = none."""

    def timed(self, name: str, phase: Phase, mode: int | None = None) -> Callable[[Any], Callable[..., Any]]:
        """Return a function that wraps a function of XGBoost into a span."""

        def make(original: Any) -> Callable[..., Any]:
            session, code = self.session, 0

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                nonlocal code
                begun = False
                try:
                    if self.breaker.on:
                        code = code or session.name(name) << 8 | int(phase)
                        session.local.begin(code)
                        begun = True
                except Exception as error:
                    self.breaker.fault(error)
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    if begun:
                        session.note_failing(error, code)
                    hide(error)
                    raise
                finally:
                    if begun:
                        self._end(code, mode)

            return wrapper

        return make

    def growing(self, original: Any) -> Callable[..., Any]:
        """Wrap `update` and `boost`; a custom objective makes one call the other."""
        timed = self.timed("grow trees", Phase.COMPUTE)(original)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._depth or not self.breaker.on:
                return original(*args, **kwargs)
            try:
                self._before_update()
            except Exception as error:
                self.breaker.fault(error)
            self._depth += 1
            try:
                return timed(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._depth -= 1
                if not self._trains:
                    self._last_end = perf_counter_ns()

        return wrapper

    def begin(self, *_: Any, **__: Any) -> None:
        """Begin a training whose rounds a `CallbackContainer` reports."""
        self._end_round_by_hand()
        self._trains = True
        self._claim()

    def after_round(
        self, result: object, container: Any, model: Any, epoch: int, dtrain: Any, evals: Any
    ) -> None:
        """Record the metrics of a round and what is to be saved, and end its step."""
        began, session = perf_counter_ns(), self.session
        for data, metrics in container.history.items():
            for metric, values in metrics.items():
                value = values[-1]
                session.scalar(f"{data}-{metric}", value[0] if container.is_cv else value)
        if not container.is_cv:
            self._tensors.save(model, evals)
        session.local.thread_spool.spent(perf_counter_ns() - began)
        self._end_step(None)

    def finish(self, *_: Any) -> None:
        """End the training, and the last round of a hand-written loop; others may count steps again."""
        self._end_round_by_hand()
        self._trains = False
        self.session.release_steps(_OWNER)

    def _before_update(self) -> None:
        if self._trains:
            return
        self._end_round_by_hand()
        if self.session.step_owner != _OWNER:
            self._claim()

    def _claim(self) -> None:
        """Count the steps from now on, unless the script does so or another framework has begun."""
        session = self.session
        session.journal(
            "framework",
            {
                "name": "xgboost",
                "version": sys.modules["xgboost"].__version__,
                "device": "cpu",
                "parts": list(PARTS),
            },
        )
        # Steps that torch counted go on: these trees are part of one.
        if session.step == self._steps and session.claim_steps(_OWNER):
            session.since = perf_counter_ns()

    def _end_round_by_hand(self) -> None:
        if self._last_end:
            ended, self._last_end = self._last_end, 0
            self._end_step(ended)

    def _end_step(self, now: int | None) -> None:
        if self.session.step_owner == _OWNER:
            self.session.boundary(now, manual=True)
            self._steps = self.session.step

    def _end(self, code: int, mode: int | None) -> None:
        try:
            local = self.session.local
            if mode is None:
                local.end_of(code)
            else:
                local.end_of(code, NAN, mode)
            if self._last_end and not self._depth:
                self._last_end = perf_counter_ns()
        except Exception as error:
            self.breaker.fault(error)
