"""The functions for a script's own loop while nothing records it: they do nothing, and load nothing.

`holter.start` may begin a recording later. From then on they pass calls to the recorder.
"""

from __future__ import annotations

import os
import sys

from holter.schema.modes import MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_RECORDER = "holter.recorder.session"
_ASKED_FOR = ("HOLTER_SPOOL", "NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH")
"""Variables with which `holter run`, or a tool that listens to NVTX, starts a process."""
_CANNOT_WRAP = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines, which live longer than the call."""
_modules = sys.modules


def applies() -> bool:
    """Return whether nothing records this process so far."""
    return _RECORDER not in _modules and not any(os.environ.get(name) for name in _ASKED_FOR)


class _Nothing:
    """A `with` block or a decorator that does nothing."""

    __slots__ = ("_of", "name")

    def __init__(self, name: str, of: str) -> None:
        self.name, self._of = name, of

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with every call recorded, should a recording begin."""
        if getattr(getattr(function, "__code__", None), "co_flags", _CANNOT_WRAP) & _CANNOT_WRAP:
            wrapped: Callable[..., Any] = getattr(_recorder(), self._of)(self.name)(function)
            return wrapped
        import functools

        name, made = self.name, annotate if self._of == "annotate" else phase

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with made(name):
                return function(*args, **kwargs)

        return wrapper


_NOTHING = _Nothing("", "annotate")
MAX_KEPT = 4096
"""Names whose object is kept; the others get a new one each time."""
_annotations: dict[str, _Nothing] = {}
_phases: dict[str, _Nothing] = {}


def annotate(name: str) -> Any:
    """Record a stretch of code under `name`: `with holter.annotate("augment"):` or as a decorator."""
    if _RECORDER in _modules:
        return _recorder().annotate(name)
    try:
        return _annotations[name]
    except (KeyError, TypeError):
        return _kept(_annotations, str(name), "annotate")


def phase(name: str) -> Any:
    """Record a part of the step: `with holter.phase("simulate"):` or as a decorator."""
    if _RECORDER in _modules:
        return _recorder().phase(name)
    try:
        return _phases[name]
    except (KeyError, TypeError):
        return _kept(_phases, str(name), "phase")


def annotation_begin(name: str) -> None:
    """Begin a stretch of code under `name`, which `annotation_end` ends."""
    if _RECORDER in _modules:
        _recorder().annotation_begin(name)


def annotation_end(name: str | None = None) -> None:
    """End the innermost stretch begun on this thread, or the innermost one called `name`."""
    if _RECORDER in _modules:
        _recorder().annotation_end(name)


def log(*, step: int | None = None, mode: str | None = None, **values: float) -> None:
    """Record numbers by name: `holter.log(loss=0.3, lr=1e-3)`."""
    if _RECORDER in _modules or (mode is not None and mode not in MODES):
        _recorder().log(step=step, mode=mode, **values)


def step(mode: str = "train", steps: int = 1) -> Any:
    """Mark one training step of a loop that no adapter knows: it ends with the `with` block."""
    if _RECORDER in _modules or steps != 1 or mode not in MODES:
        return _recorder().step(mode, steps)
    return _NOTHING


def steps(batches: Iterable[Any], mode: str = "train") -> Any:
    """Make each iteration a step: `for batch in holter.steps(batches):`."""
    return _recorder().steps(batches, mode) if _RECORDER in _modules or mode not in MODES else batches


def _kept(known: dict[str, _Nothing], name: str, of: str) -> _Nothing:
    made = _Nothing(name, of)
    if len(known) < MAX_KEPT:
        known[name] = made
    return made


def _recorder() -> Any:
    """Return the recorder's functions; they also report wrong arguments."""
    from holter.recorder import annotate as functions

    return functions
