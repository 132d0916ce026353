"""What holds a profile as SageMaker's profiler tells it: readings of the machine, events of the training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterator, Sequence


class ProfilerSource(ABC):
    """Readings and events by time, microseconds since the epoch."""

    ended: bool
    """Whether nothing more will come."""

    @property
    @abstractmethod
    def skipped(self) -> Counter[str]:
        """What could not be read, counted by why."""

    @abstractmethod
    def refresh(self) -> None:
        """Look for what came meanwhile."""

    def readings(self, start: int = 0, end: int | None = None) -> Table:
        """Return readings with start <= time <= end.

        Returns:
            `time`, `type`, `name`, `dimension`, `value`, `node`, in the order of time.
        """
        return Table.concat([*self.readings_in_pieces(start, end)]).sorted("time")

    @abstractmethod
    def readings_in_pieces(
        self, start: int = 0, end: int | None = None, names: Collection[str] = ()
    ) -> Iterator[Table]:
        """Yield the same in pieces that fit into memory, one at least; only of `names`, if there are any."""

    def events(self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None) -> Table:
        """Return events that overlap [start, end], if asked for only of files whose names end so.

        Returns:
            `start`, `end`, `name`, `phase`, `node`, `pid`, `tid`, `lane` (the pid of the trace), `args` (a
            mapping), `suffix` of the file, `kind` (as the trace says: X), in the order of their start.
        """
        return Table.concat([*self.events_in_pieces(start, end, suffixes)]).sorted("start")

    @abstractmethod
    def events_in_pieces(
        self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None
    ) -> Iterator[Table]:
        """Yield each of them once, in pieces that fit into memory, one at least."""

    @abstractmethod
    def available(self, events: bool) -> tuple[int, int]:
        """Return the first and the last time of events, or of readings; 0 without any."""

    def forget(self) -> None:  # noqa: B027 (a source may keep nothing)
        """Let go of what is kept in memory; it is read again when it is asked for."""
