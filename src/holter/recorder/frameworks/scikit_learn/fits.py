"""Records fits as ranges, and the outermost ones as steps."""

from __future__ import annotations

import os
import sys
import threading
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.scikit_learn import fit_calls
from holter.recorder.frameworks.trees.rounds import PARTS, Rounds
from holter.recorder.patches import hide, passed_over
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

_SEARCH = "BaseSearchCV"
"""Class of estimators that fit candidates: each of these fits is a step."""
_TEXTS = {fit_calls.CANDIDATE: "fit and score"}
_COMPUTE, _ANNOTATION = int(Phase.COMPUTE), int(Phase.ANNOTATION)


class _Depth(threading.local):
    fits = 0
    """Fits that are open on this thread."""


class Fits:
    """Writes a range for each fit, and counts steps while an outermost fit of a predictor runs.

    A fit that shows iterations has one step for each, any other fit is one step; it ends with the last
    recorded work, such as the score, before the next fit. The steps of another framework that trains within a
    fit stay its own. Processes that use PyTorch count no fits, because the training there is PyTorch's.
    Children of `multiprocessing` count none either, because joblib runs fits of the parent's search in them.
    """

    def __init__(self, session: Session) -> None:
        self.rounds = Rounds(session, "scikit-learn", sys.modules["sklearn"], PARTS)
        self._session = session
        self._codes: dict[tuple[type, str], int] = {}
        self._depth = _Depth()
        self._pid = os.getpid()
        self._owner = 0
        """The thread whose outermost fit counts steps now; 0 without one."""
        self._searches = False
        """Whether that fit is a search, whose steps are fits."""
        self._alone = False
        """Whether the step of that fit begins with it, and not with work that was recorded before."""
        self._divides = False
        """Whether the steps of that fit are its iterations, if it shows some."""
        self._counted = False
        """Whether this fit has begun to count steps."""
        self._before = (0, "")
        """Step, and the owner of the steps, when that fit began."""
        self._began = self._piece = self._name = 0
        """Begin of that fit, begin of its present step, its name."""
        self._fitted: set[int] = set()
        """Ids of the estimators that were fitted in the open step."""
        fit_calls.recorder = self.run
        self.rounds.patches.later(self._stop)

    @passed_over
    def run(
        self,
        original: Callable[..., Any],
        estimator: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a function that fits an estimator, its first argument, and record the call."""
        depth, code, begun, opened = self._depth, 0, False, False
        try:
            if self.rounds.breaker.on and os.getpid() == self._pid:
                name = original.__name__
                code = self._code(type(estimator), name)
                if depth.fits == 0:
                    opened = self._open(estimator, name, code)
                elif depth.fits == 1 and self._searches and self._owner == get_ident():
                    self._next(perf_counter_ns())
                self._session.local.begin(code)
                depth.fits += 1
                begun = True
        except Exception as error:
            self.rounds.breaker.fault(error)
        failed = True
        try:
            result = original(estimator, *args, **kwargs)
            failed = False
        except BaseException as error:
            if begun:
                self._session.note_failing(error, code)
            hide(error)
            raise
        finally:
            if begun:
                self._end(code, opened=opened, failed=failed)
        return result

    def iterate(self) -> None:
        """Begin an iteration of the fit, which ends the one before it."""
        if self._divides and self._owner == get_ident():
            self._next(perf_counter_ns())

    def log(self, name: str, value: Any) -> None:
        """Record a number of the present iteration."""
        if self._divides and self._counted and self._owner == get_ident():
            self._session.scalar(name, value)

    def _open(self, estimator: Any, name: str, code: int) -> bool:
        """Begin an outermost fit; return whether it may count steps."""
        if self._owner or "torch" in sys.modules or not hasattr(estimator, "predict"):
            return False
        after_fit, self._alone = self._alone, name != "partial_fit"
        if after_fit or self._alone or id(estimator) in self._fitted:
            self.rounds.end_unreported()
            self._fitted.clear()
        self._fitted.add(id(estimator))
        whole = name == fit_calls.CANDIDATE
        self._searches = not whole and any(one.__name__ == _SEARCH for one in type(estimator).__mro__)
        self._divides = not whole and not self._searches
        self._counted, self._name = False, code >> 8
        self._before = self._session.step, self._session.step_owner
        self._began = self._piece = perf_counter_ns()
        self._owner = get_ident()
        self.rounds.unseen = True
        if whole:
            self._next(self._began)
        return True

    def _next(self, now: int) -> None:
        """End the step before, if there is one in this fit, and begin another."""
        if not self._counted:
            self._counted = self._claim()
            return
        self._session.local.thread_spool.add(_COMPUTE, self._name, self._piece, now - self._piece)
        self.rounds.end_round(now)
        self._piece = now

    def _claim(self) -> bool:
        """Return whether this fit counts: no other framework has trained since it began."""
        session = self._session
        unchanged = (session.step, session.step_owner) == self._before
        return unchanged and self.rounds.claim(self._began, apart=self._alone)

    def _end(self, code: int, *, opened: bool, failed: bool) -> None:
        try:
            self._session.local.end_of(code)
            self._depth.fits -= 1
            if not opened:
                return
            self._owner = 0
            self.rounds.unseen = False
            if failed:
                self.rounds.finish()
            elif self._counted or self._claim():
                length = perf_counter_ns() - self._piece
                self._session.local.thread_spool.add(_COMPUTE, self._name, self._piece, length)
                self.rounds.leave_open()
        except Exception as error:
            self.rounds.breaker.fault(error)

    def _code(self, kind: type, name: str) -> int:
        code = self._codes.get((kind, name))
        if code is None:
            text = f"{kind.__name__}.{_TEXTS.get(name, name)}"
            code = self._codes[kind, name] = self._session.name(text) << 8 | _ANNOTATION
        return code

    def _stop(self) -> None:
        self.rounds.breaker.on = False  # a module may have copied a wrapper
        if fit_calls.recorder == self.run:
            fit_calls.recorder = None
