"""Follows the orders in `control.json`: stop, sampling interval, stacks, profiling windows, viewers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holter.schema.windows import orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.agent.drain.event_log import EventLog
    from holter.agent.drain.pipeline import Pipeline
    from holter.agent.supervision.process_monitor import ProcessMonitor
    from holter.store.documents import Document
    from holter.store.job import JobFolder

VIEWER_S = 15.0
"""A sign of a viewer counts for this time."""


class Control:
    """The orders of one job."""

    def __init__(
        self, folder: JobFolder, event_log: EventLog, *, leads: bool, on_stop: Callable[[], None]
    ) -> None:
        """Follow a job's orders: `leads` says whether this node writes the manifest."""
        self.stop: Document | None = None
        """The order to stop; None until it is given."""
        self._folder = folder
        self._event_log = event_log
        self._leads = leads
        self._on_stop = on_stop
        self._stacks: Document | None = None
        self._sign: object = None
        self._signed = -VIEWER_S

    def obey(self, pipeline: Pipeline | None, monitor: ProcessMonitor | None) -> None:
        """Read the orders and follow those that are new."""
        control = self._folder.control()
        if pipeline is not None:
            self._sample(control, pipeline)
            if pipeline.profiling is not None:
                pipeline.profiling.obey(orders(control), self._event_log)
            pipeline.hurry(self.is_watched(control.get("watched")))
        stacks = control.get("stacks")
        if isinstance(stacks, dict) and stacks != self._stacks and monitor is not None:
            self._stacks = stacks
            self._event_log.note("control", "stacks", stacks)
            monitor.ask(time.monotonic_ns())
        stop = control.get("stop")
        if stop not in (None, False) and self.stop is None:
            self.stop = dict(stop) if isinstance(stop, dict) else {}
            self._event_log.note("control", "stop", self.stop)
            self._on_stop()
            by = self.stop.get("by")
            if self._leads:
                self._folder.update(status="Stopping", **({"stopped_by": by} if by else {}))

    def is_watched(self, sign: object) -> bool:
        """Return whether a viewer has changed its sign lately, by the clock of this machine."""
        now = time.monotonic()
        if sign is not None and sign != self._sign:
            self._sign, self._signed = sign, now
        return now - self._signed < VIEWER_S

    def _sample(self, control: Document, pipeline: Pipeline) -> None:
        changed = pipeline.sampler.obey(control)
        for order, value in changed.items():
            self._event_log.note("control", order.removesuffix("_ms"), {order: value})
        if changed and self._leads:
            self._folder.update(**changed)
