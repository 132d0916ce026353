"""Wraps functions of a framework into spans; for rare calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide
from holter.recorder.spool.thread_spool import NAN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session
    from holter.schema.phases import Mode, Phase


def timed(
    session: Session,
    breaker: CircuitBreaker,
    original: Callable[..., Any],
    phase: Phase,
    name: str | Callable[..., str],
    *,
    mode: Mode | None = None,
    value: Callable[[tuple[Any, ...], Mapping[str, object]], float] | None = None,
    ended: Callable[[], None] = lambda: None,
) -> Callable[..., Any]:
    """Wrap `original` so that each call is a span.

    Args:
        session: Records this process.
        breaker: Counts faults of the recorder.
        original: The framework's function.
        phase: What its spans are.
        name: Their name, or what computes it from the arguments; a call with an empty name has no span.
        mode: What the model is used for during the call; training, if absent.
        value: Computes the span's value from the arguments, after the call has returned.
        ended: Called when the span has ended.
    """
    number_of_mode = None if mode is None else int(mode)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        code, done = 0, False
        try:
            if breaker.on and (called := name if isinstance(name, str) else name(*args, **kwargs)):
                number = session.name(called) << 8 | int(phase)
                session.local.begin(number)
                code = number
        except Exception as error:
            breaker.fault(error)
        try:
            result = original(*args, **kwargs)
            done = True
            return result
        except BaseException as error:
            if code:
                session.note_failing(error, code)
            hide(error)
            raise
        finally:
            if code:
                try:
                    amount = value(args, kwargs) if done and value is not None else NAN
                    session.local.end_of(code, amount, number_of_mode)
                    ended()
                except Exception as error:
                    breaker.fault(error)

    return wrapper
