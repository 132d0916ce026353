"""One evaluation of one window by a rule, with the result as plain data."""

from __future__ import annotations

import math
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules.rule import Issue

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules.engine.coverage import Coverage
    from holter.rules.engine.table_json import State
    from holter.rules.engine.window import Window
    from holter.rules.rule import Rule

_FRAMES = 8
"""The frames of a traceback that are kept."""


@dataclass(slots=True)
class Judgement:
    """The result of one evaluation. Its details must be computed before it is sent to another process."""

    found: list[Issue] = field(default_factory=list)
    idle: bool = False
    points: int = 0
    lack: Coverage | None = None
    details: dict[str, object] | Callable[[], dict[str, object]] = field(default_factory=dict)
    """Statistics as JSON can hold them, or the function that computes them."""
    error: str = ""
    """The traceback, when the rule raised."""
    fatal: bool = False
    """Whether the rule must not be evaluated again, as after its process had to be ended."""
    seconds: float = 0.0
    state: State | None = None
    """The rule's state after the evaluation, if another process holds it."""
    tensors: int = 0
    """The number of tensors that the rule read."""
    steps: tuple[int, int] | None = None
    """The first and the last step of the rows that it read."""


def judge(name: str, rule: Rule, window: Window, *, apart: bool = False) -> Judgement:
    """Let a rule judge a window. An exception of the rule, also `SystemExit`, becomes the result's `error`.

    With `apart` the result goes to another process, so the details are computed now.
    """
    began = time.perf_counter()
    try:
        found = list(rule.evaluate(window))
        if wrong := [f for f in found if not isinstance(f, Issue)]:
            raise TypeError(f"{name} yielded {wrong[0]!r}, which is not an Issue")
        details = finite(window.details) if apart else window.handed_over
    except (Exception, SystemExit):
        return Judgement(error=traceback.format_exc(limit=-_FRAMES), seconds=time.perf_counter() - began)
    return Judgement(
        found=found,
        idle=window.idle,
        points=window.points,
        lack=window.lack,
        details=details,
        seconds=time.perf_counter() - began,
        tensors=0 if window.idle else window.tensors_read,
        steps=None if window.idle else window.steps_read,
    )


def finite(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(name): finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
