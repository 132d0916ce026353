"""Records ranges that a script marks for another tool: names of NVTX and of SageMaker's profiler.

Beside an adapter they are annotations. Where no framework is recorded they are the parts of the step, and a
range such as `step_12` is a step.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from holter.recorder import annotate as _annotate
from holter.recorder import session as _session
from holter.recorder.ranges import Interleaved, Range
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = re.compile(r"((train|training)[ _-]?)?(step|iteration|iter|batch)[ _#:-]*\d+", re.IGNORECASE)
_open = threading.local()


def named(name: str, *, heard: bool = False) -> Any:
    """Return the `with` block of a range; `heard` says that an NVTX tool has it already."""
    session = _session.current
    alone = session is not None and not session.attached
    if alone and _STEP.fullmatch(name):
        return _annotate.step()
    if heard:
        return Range(name, _annotate.part(name) if alone else int(Phase.ANNOTATION))
    return _annotate.phase(name) if alone else _annotate.annotate(name)


def begin(name: str, *, heard: bool = False) -> None:
    """Begin a range on this thread."""
    one = named(name, heard=heard)
    one.__enter__()
    _stack().append((name, one))


def end(name: str | None = None) -> None:
    """End the innermost range that was begun on this thread, or the innermost one called `name`."""
    stack = _stack()
    for at in reversed(range(len(stack))):
        if name is None or stack[at][0] == name:
            stack.pop(at)[1].__exit__(None, None, None)
            return


def interleaved(name: str) -> Interleaved:
    """Return a range that has begun and need not nest."""
    session = _session.current
    alone = session is not None and not session.attached
    return Interleaved(name, _annotate.part(name) if alone else int(Phase.ANNOTATION), heard=True).__enter__()


def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with a range around each call."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with named(name, heard=True):
            return function(*args, **kwargs)

    wrapper.__dict__.update(vars(function))
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(function, attribute, None))
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    return wrapper


def _stack() -> list[tuple[str, Any]]:
    stack: list[tuple[str, Any]] = _open.__dict__.setdefault("stack", [])
    return stack
