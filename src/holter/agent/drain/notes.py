"""Events that concern the whole job, and our own faults, each said once and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.agent.drain.journal import MAX_FAULTS, Event
from holter.schema.masking import masked_in, masked_text

if TYPE_CHECKING:
    from holter.agent.drain.clock import Clock


class Notes:
    """Takes events from any thread until the one that writes takes them."""

    def __init__(self, clock: Clock) -> None:
        self.faults: list[dict[str, Any]] = []
        """Where, error, count."""
        self._clock = clock
        self._events: list[Event] = []

    def add(self, *events: Event) -> None:
        """Put down events that are made already."""
        self._events += events

    def note(self, kind: str, name: str, detail: dict[str, Any], *, rank: int = -1) -> None:
        """Put down an event that happens now."""
        self._events.append(Event(self._clock.time_ns(), rank, kind, name, masked_in(detail)))

    def fault(self, where: str, error: object) -> None:
        """Put down a fault of ours; the same one again is only counted."""
        said = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        text = masked_text(said)
        for known in self.faults:
            if known["where"] == where and known["error"] == text:
                known["count"] += 1
                return
        if len(self.faults) < MAX_FAULTS:
            self.faults.append({"where": where, "error": text, "count": 1})
            self.note("fault", where, {"where": f"agent: {where}", "error": text, "count": 1})

    def take(self) -> list[Event]:
        """Return the events that are new."""
        events, self._events = self._events, []
        return events
