"""Annotates code ranges, steps and numbers: the functions that users call in their own loops.

Off (no session), each costs a call and an attribute read. On, an annotation is one span of its thread.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.recorder import imports
from holter.recorder import session as _session
from holter.recorder.ranges import ANNOTATION, LISTENER, Heard, Interleaved, Range
from holter.schema.phases import SCRIPT, Mode
from holter.schema.record import MAX_STEPS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_MODES = {mode.name.lower(): int(mode) for mode in Mode}
_nvtx = LISTENER
MAX_KEPT = 4096
"""Range objects kept by name; names beyond it (`f"step {i}"`) get a new object each time."""
_ranges: dict[str, Range] = {}
_running_loop: Callable[[], object] | None = None
_modules = sys.modules


def annotate(name: str) -> Range | Interleaved:
    """Record a stretch of code under `name`: `with holter.annotate("augment"):` or as a decorator.

    Nests, also across threads, each of which has its own stack. Ranges of
    asyncio tasks may overlap.
    """
    global _running_loop
    if _session.current is None and _nvtx is None:
        pass  # neither recorded nor heard by a tool, so its kind makes no difference
    elif _running_loop is not None:
        if _running_loop() is not None:
            return Interleaved(name)
    elif "_asyncio" in _modules:  # not imported for this: it would bring all of asyncio
        _running_loop = _modules["_asyncio"]._get_running_loop
        return annotate(name)
    try:
        return _ranges[name]
    except (KeyError, TypeError):
        return _new_range(name)


def annotation_begin(name: str) -> None:
    """Begin a stretch of code under `name`; `annotation_end` on the same thread ends the innermost one."""
    if _nvtx is not None:
        _nvtx.begin_named(name)
        Range.enter(_ranges.get(name) or _new_range(name))
    elif _session.current is not None:
        (_ranges.get(name) or _new_range(name)).__enter__()


def annotation_end(name: str | None = None) -> None:
    """End the innermost stretch begun on this thread, or the innermost one called `name`."""
    session = _session.current
    if _nvtx is not None:
        _nvtx.end_named(name)
    if session is None:
        return
    if name is not None:
        one = _ranges.get(name) or _new_range(name)
        Range.leave(one, None, None, None) if _nvtx else one.__exit__(None, None, None)
        return
    for _, code in reversed(session.local.thread_spool.open_spans()):
        if code & 255 == ANNOTATION:
            session.local.end_of(code)
            return
    session.fault("annotation_end", ValueError("no annotation was begun on this thread"))


def log(*, step: int | None = None, mode: str | None = None, **values: float) -> None:
    """Record numbers by name: `holter.log(loss=0.3, lr=1e-3)`; at the current step unless `step` is given.

    They belong to the mode the loop is in (evaluation, when the model called last is in evaluation mode)
    unless `mode` is given: `train`, `eval`, `predict` or `global`. From any thread. A value is anything
    `float()` takes; a tensor on a device is waited for. What is logged here takes the place of what would be
    recorded under the same name without it, such as `loss` and `lr`.

    Raises:
        ValueError: An unknown mode.
    """
    if mode is not None and mode not in _MODES:
        raise ValueError(f"mode {mode!r} of holter.log is not known; known are {', '.join(_MODES)}")
    session = _session.current
    if session is not None:
        # Two series under one name, such as a loss and its mean over batches, would be neither.
        session.logged_names.update(values)
        offered = session.explicit
        number = _MODES[mode or "train"] if mode or offered is None else offered.mode()
        for name, value in values.items():
            session.scalar(name, value, step, number)


class step:  # noqa: N801  read as a word: `with holter.step():`
    """One training step of a loop that no adapter knows: it ends with the block.

    It begins where the step before ended, so that loading the batch outside the block belongs to it. From
    the first such block on, an adapter's own step boundaries do not count.

    Args:
        mode: What the model is used for: `train`, `eval`, `predict` or `global`.
        steps: The optimizer steps that the block runs in one call, such as the length of a `lax.scan`.

    Raises:
        ValueError: An unknown mode, or fewer than 1 or more than 65,536 steps.
    """

    __slots__ = ("_mode", "_steps")

    def __init__(self, mode: str = "train", steps: int = 1) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r} of holter.step is not known; known are {', '.join(_MODES)}")
        if not 1 <= steps <= MAX_STEPS_AT_ONCE:
            raise ValueError(f"steps {steps} of holter.step is not possible; 1 to {MAX_STEPS_AT_ONCE:,} are")
        self._mode, self._steps = _MODES[mode], steps

    def __enter__(self) -> step:
        session = _session.current
        if session is not None:
            session.claim_steps(SCRIPT)
            session.step_by(self._steps)
            session.first_activity()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = _session.current
        if session is not None and error is None:
            session.boundary(None, self._mode, manual=True, steps=self._steps)


def _new_range(name: str) -> Range:
    kind = Range if _nvtx is None else Heard
    new = kind(name if isinstance(name, str) else str(name))
    if len(_ranges) < MAX_KEPT:
        _ranges[name] = new
    return new


if _session.activate() is not None:
    imports.install()  # where the bootstrap did not run, as under `python -E`
