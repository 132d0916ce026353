"""Tells several listeners when parts of a step begin and end on one thread; they come and go in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.guard import CircuitBreaker

    Listener = Callable[[str, bool, int | None], None]

_NAN = float("nan")
_PARTS = {
    int(phase): phase.name.lower()
    for phase in (Phase.DATA_LOADING, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.CHECKPOINT)
}


class PhaseListeners:
    """The listeners of all threads. A thread without listeners keeps the functions of its spool."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker
        self._of: dict[int, tuple[ThreadState, list[Listener]]] = {}

    def add(self, state: ThreadState, call: Listener) -> Callable[[], None]:
        """Call `call(part, begins, mode)` for a thread; return a function that ends this."""
        _, calls = self._of.get(id(state)) or self._wrapped(state)
        calls.append(call)

        def undo() -> None:
            if call in calls:
                calls.remove(call)
                if not calls:
                    del self._of[id(state)]
                    spool = state.thread_spool
                    state.begin, state.end_of, state.heard = spool.begin, spool.end_of, False

        return undo

    def _wrapped(self, state: ThreadState) -> tuple[ThreadState, list[Listener]]:
        calls: list[Listener] = []
        plain_begin, plain_end_of = state.begin, state.end_of

        def report(code: int, begins: bool, mode: int | None) -> None:
            part = _PARTS.get(code & 255)
            if part is None or not self._breaker.on:
                return
            for call in tuple(calls):
                try:
                    call(part, begins, mode)
                except Exception as error:
                    self._breaker.fault(error)

        def begin(code: int) -> int:
            now = plain_begin(code)
            report(code, True, None)
            return now

        def end_of(code: int, value: float = _NAN, mode: int | None = None) -> int:
            report(code, False, mode)
            return plain_end_of(code, value, mode)

        state.begin, state.end_of, state.heard = begin, end_of, True
        found = self._of[id(state)] = (state, calls)
        return found
