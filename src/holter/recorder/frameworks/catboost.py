"""Records CatBoost: one boosting round is one step. The rounds run in C++, which also evaluates in them.

CatBoost calls `after_iteration` of one object after each round on a CPU. The object that is passed here calls
the user's callbacks, whose list stays as it is. On a GPU, CatBoost takes no callbacks, so that a training is
one step there; so is a cross-validation.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.trees.rounds import Rounds
from holter.recorder.patches import hide, passed_over
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_PARTS = ("data_loading", "compute")
_COMPUTE = int(Phase.COMPUTE)


def attach(session: Session) -> Callable[[], None]:
    """Record CatBoost for `session`; return a function that removes every hook."""
    core = sys.modules["catboost.core"]
    rounds = Rounds(session, "catboost", sys.modules["catboost"].__version__, _PARTS)
    rounds.time(core.Pool, "__init__", "build Pool", Phase.DATA_LOADING)
    grow = session.name("grow trees") << 8 | _COMPUTE

    def training(original: Any) -> Callable[..., Any]:
        def _train(model: Any, train: Any, test: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                passed = params
                if params.get("task_type") != "GPU" and rounds.breaker.on:
                    ours = _Rounds(session, rounds, grow, params.get("callbacks"))
                    passed = {**params, "callbacks": ours}
                return run(passed is params, original, model, train, test, passed, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _train

    def folds(original: Any) -> Callable[..., Any]:
        def _cv(*args: Any, **kwargs: Any) -> Any:
            try:
                return run(True, original, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _cv

    @passed_over
    def run(whole: bool, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Train; a training that shows no rounds, as a whole, is one step."""
        begun = False
        try:
            if rounds.breaker.on:
                rounds.begin()
                session.local.begin(grow)
                begun = True
        except Exception as error:
            rounds.breaker.fault(error)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            whole = False
            hide(error)
            raise
        finally:
            if begun:
                end(whole)

    def end(whole: bool) -> None:
        try:
            session.local.end_of(grow)
            if whole:
                rounds.end_round()
            rounds.finish()
        except Exception as error:
            rounds.breaker.fault(error)

    rounds.patches.wrap(core._CatBoostBase, "_train", training)
    rounds.patches.wrap(core, "_cv", folds)
    return rounds.patches.undo


class _Rounds:
    """What CatBoost calls after each round."""

    def __init__(self, session: Session, rounds: Rounds, code: int, callbacks: Any) -> None:
        self._session, self._rounds, self._code = session, rounds, code
        self._callbacks = callbacks
        """What the user's list of callbacks became; None without one."""
        self._logged: dict[tuple[str, str], int] = {}
        """How many values of each metric were recorded; some are computed every few rounds only."""

    @passed_over
    def after_iteration(self, info: Any) -> Any:
        """End the step of a round; return what the user's callbacks return, or that the training goes on."""
        on = False
        try:
            on = self._rounds.breaker.on
            if on:
                self._session.local.end_of(self._code)
                self._log(info)
        except Exception as error:
            self._rounds.breaker.fault(error)
        try:
            return True if self._callbacks is None else self._callbacks.after_iteration(info)
        except BaseException as error:
            hide(error)
            raise
        finally:
            try:
                if on:
                    self._rounds.end_round()
                    self._session.local.begin(self._code)
            except Exception as error:
                self._rounds.breaker.fault(error)

    def _log(self, info: Any) -> None:
        if not self._rounds.counts:
            return
        began = perf_counter_ns()
        for data, metrics in (info.metrics or {}).items():
            for metric, values in metrics.items():
                if len(values) != self._logged.get((data, metric), 0):
                    self._logged[data, metric] = len(values)
                    self._session.scalar(f"{data}-{metric}", values[-1])
        self._session.local.thread_spool.spent(perf_counter_ns() - began)
