"""Annotates code ranges, steps and numbers: the functions that users call in their own loops.

Off (no session), each costs a call and an attribute read. On, an annotation is one span of its thread.
"""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder import session as _session
from holter.recorder.ranges import ANNOTATION, LISTENER, Heard, Interleaved, Range
from holter.schema.modes import MODES
from holter.schema.phases import BREAKDOWN, ITERATOR_START, NEXT_BATCH, SCRIPT, Phase
from holter.schema.record import MAX_STEPS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

_MODES = {mode: number for number, mode in enumerate(MODES)}
_PARTS = {part: int(Phase[part.upper()]) for part in BREAKDOWN if part != "other"}
_nvtx = LISTENER
MAX_KEPT = 4096
"""Range objects kept by name; names beyond it (`f"step {i}"`) get a new object each time."""
_ranges: dict[str, Range] = {}
_phases: dict[str, Range] = {}
_waits: dict[str, Range] = {}
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


def phase(name: str) -> Range | Interleaved:
    """Record a part of the step: `with holter.phase("simulate"):` or as a decorator.

    A name such as `data_loading`, `forward` or `checkpoint` is that part of the breakdown. Other names are
    parts of `compute`, with their own share. In contrast to `annotate`, the time no longer belongs to the
    loop's own code.
    """
    try:
        one = _phases[name]
    except (KeyError, TypeError):
        one = _new_phase(name)
    if _session.current is not None and "_asyncio" in _modules and _modules["_asyncio"]._get_running_loop():
        return Interleaved(one.name, one.code & 255)
    return one


def part(name: str) -> int:
    """Return the number of the phase that a name means: `compute` unless it is a part of the breakdown."""
    return _PARTS.get(re.sub(r"[\s-]+", "_", name.strip().lower()), int(Phase.COMPUTE))


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
    recorded under the same name without it, such as `loss` and `lr`. A `step` may be
    any count up to 2^53, such as the tokens seen so far; a number with a larger one is kept without a step.

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


class steps:  # noqa: N801  read as a word: `for batch in holter.steps(batches):`
    """The batches of a training loop that no adapter knows: each iteration is a step.

    Waiting for a batch is data loading. An iteration that `break` leaves is the last step.

    Args:
        batches: What the loop iterates over; `len` of the result is that of `batches`.
        mode: What the model is used for: `train`, `eval`, `predict` or `global`.

    Raises:
        ValueError: An unknown mode.
    """

    __slots__ = ("_batches", "_mode")

    def __init__(self, batches: Iterable[Any], mode: str = "train") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r} of holter.steps is not known; known are {', '.join(_MODES)}")
        self._batches, self._mode = batches, _MODES[mode]

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        session = _session.current
        return iter(self._batches) if session is None else _stepping(session, self._batches, self._mode)


def _stepping(session: _session.Session, batches: Iterable[Any], mode: int) -> Iterator[Any]:
    """Yield batches; end a step where the loop asks for the next one."""
    session.claim_steps(SCRIPT)
    session.first_activity()
    # The adapter of PyTorch records its loaders itself.
    recorded = any(kind.__module__.startswith("torch.utils.data") for kind in type(batches).__mro__)
    with nullcontext() if recorded else _wait(ITERATOR_START):
        source = iter(batches)
    wait = nullcontext() if recorded else _wait(NEXT_BATCH)
    while True:
        with wait:
            try:
                batch = next(source)
            except StopIteration:
                return
        try:
            yield batch
        except GeneratorExit:
            if _session.current is session and not session.ended:
                session.boundary(None, mode, manual=True)
            raise
        if _session.current is not session:
            yield from source
            return
        session.boundary(None, mode, manual=True)


def _wait(name: str) -> Range:
    return _waits.get(name) or _waits.setdefault(name, Range(name, _PARTS["data_loading"]))


def _new_range(name: str) -> Range:
    kind = Range if _nvtx is None else Heard
    new = kind(name if isinstance(name, str) else str(name))
    if len(_ranges) < MAX_KEPT:
        _ranges[name] = new
    return new


def _new_phase(name: str) -> Range:
    kind, text = Range if _nvtx is None else Heard, str(name)
    new = kind(text, part(text))
    if len(_phases) < MAX_KEPT:
        _phases[name] = new
    return new


if _session.activate() is not None:
    imports.install()  # where the bootstrap did not run, as under `python -E`
