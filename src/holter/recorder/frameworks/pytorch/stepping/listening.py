"""Reports the begin and end of each part of a step to a profiler while its window is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.recorder.frameworks.pytorch.stepping.adapter_state import NAN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

PARTS = {
    int(phase): phase.name.lower()
    for phase in (Phase.DATA_LOADING, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.CHECKPOINT)
}


def watch_phases(adapter: AdapterState, call: Callable[[str, bool, int | None], None]) -> Callable[[], None]:
    """Call `call(part, begins, mode)` at each begin and end of a part of a step on the calling thread.

    `mode` is known only at the end of a forward pass. An exception in `call` is a fault of the recorder.

    Returns:
        A function that ends this and restores everything.
    """
    state, breaker = adapter.states.current, adapter.breaker("phases")
    plain_begin, plain_end_of = state.begin, state.end_of

    def report(code: int, begins: bool, mode: int | None) -> None:
        part = PARTS.get(code & 255)
        if part is not None and breaker.on:
            try:
                call(part, begins, mode)
            except Exception as error:
                breaker.fault(error)

    def begin(code: int) -> int:
        now = plain_begin(code)
        report(code, True, None)
        return now

    def end_of(code: int, value: float = NAN, mode: int | None = None) -> int:
        report(code, False, mode)
        return plain_end_of(code, value, mode)

    state.begin, state.end_of, state.heard = begin, end_of, True

    def undo() -> None:
        state.begin, state.end_of, state.heard = plain_begin, plain_end_of, False

    return undo
