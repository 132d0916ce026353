"""Collects events about the job, and faults of the agent, each recorded once and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.agent.drain.journal import FaultCount, RecordedEvent, count_fault
from holter.schema.masking import masked_in, masked_text

if TYPE_CHECKING:
    from holter.agent.drain.clock import Clock
    from holter.store.documents import Document


class EventLog:
    """Collects events of all threads for the writer thread."""

    def __init__(self, clock: Clock) -> None:
        self.faults: list[FaultCount] = []
        self._clock = clock
        self._events: list[RecordedEvent] = []

    def add(self, *events: RecordedEvent) -> None:
        """Add events."""
        self._events += events

    def note(self, kind: str, name: str, detail: Document, *, rank: int = -1) -> None:
        """Add an event that happens now."""
        self._events.append(RecordedEvent(self._clock.time_ns(), rank, kind, name, masked_in(detail)))

    def fault(self, where: str, error: object) -> None:
        """Record a fault of the agent; repeated faults are only counted."""
        said = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        text = masked_text(said)
        if count_fault(self.faults, where, text):
            self.note("fault", where, {"where": f"agent: {where}", "error": text, "count": 1})

    def take(self) -> list[RecordedEvent]:
        """Return the new events and forget them."""
        events, self._events = self._events, []
        return events
