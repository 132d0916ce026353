"""Counts the clippings of gradients that come in time, and those that come after the optimizer's step."""

from __future__ import annotations

import math
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState


class ClipOrder:
    """Compares when gradients are clipped with the last backward pass and the last step of an optimizer."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.begin()

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._late = self._in_time = self._stepped = 0
        self._passed = False
        self._limit: float | None = None

    def clip(self, limit: float | None) -> None:
        """Note a limit of gradients: None if only a device knows it; infinity only measures them."""
        if limit is not None and not math.isfinite(limit):
            return
        began = self._pass_began()
        if began > max(self.adapter.session.since, self._stepped):
            self._in_time += 1
        elif began:
            self._late += 1
        self._limit = limit

    def before(self) -> None:
        """Note that an optimizer is about to step, and whether a backward pass came before it."""
        self._passed = self._passed or self._pass_began() > self.adapter.session.since
        self._stepped = perf_counter_ns()

    def _pass_began(self) -> int:
        """Return the begin of the last backward pass of this thread, ns; 0 without one."""
        return self.adapter.states.current.pass_began

    def facts(self) -> dict[str, Any]:
        """Return the clippings of the step; nothing for a step whose gradients no backward pass computed."""
        if not self._passed or not (self._late or self._in_time):
            return {}
        return {"clips": {"late": self._late, "in_time": self._in_time, "limit": self._limit}}


def share_left(norm: Any, limit: Any) -> float:
    """Return which share of gradients with this norm is left; 1 for a norm that is not finite."""
    found = float(norm[0])
    if not math.isfinite(found) or found <= 0 or getattr(limit, "is_cuda", False):
        return 1.0
    return min(float(limit) / found, 1.0)
