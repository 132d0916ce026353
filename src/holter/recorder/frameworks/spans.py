"""Wraps functions of a framework into spans; for rare calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide, passed_over
from holter.recorder.spool.thread_spool import NAN
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session


def timed(
    session: Session,
    breaker: CircuitBreaker,
    original: Callable[..., Any],
    phase: Phase,
    name: str | Callable[..., str],
    *,
    mode: Mode | None = None,
    value: Callable[[tuple[Any, ...], Mapping[str, object]], float] | None = None,
    ended: Callable[..., None] = lambda *_, **__: None,
    ends_early: bool = False,
) -> Callable[..., Any]:
    """Wrap `original` so that each call is a span.

    Args:
        session: Records this process.
        breaker: Counts faults of the recorder.
        original: The framework's function.
        phase: What its spans are.
        name: Their name, or what computes it from the arguments; a call with an empty name has no span.
        mode: What the model is used for during the call; evaluation in evaluations, else training, if absent.
        value: Computes the span's value from the arguments, after the call has returned.
        ended: Called with the arguments when the span has ended.
        ends_early: Whether `end_open` may end the span during the call.
    """
    if mode is None and phase is Phase.EVAL:
        mode = Mode.EVAL
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
                    if ends_early:
                        end_open(session, code, number_of_mode)
                    else:
                        session.local.end_of(code, amount, number_of_mode)
                    ended(*args, **kwargs)
                except Exception as error:
                    breaker.fault(error)

    return passed_over(wrapper)


def end_open(session: Session, code: int, mode: int | None) -> None:
    """End the innermost span with this code, unless it has ended."""
    if any(code == open_code for _, open_code in session.local.thread_spool.open_spans()):
        session.local.end_of(code, NAN, mode)
