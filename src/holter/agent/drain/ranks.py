"""Finds the rank of a process's rows, also when the process does not know its rank."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from holter.agent.drain.journal import Process, RecordedEvent

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.clock import Clock

PATIENCE_S = 2.0
"""Records of a process wait in the spool this long for its rank."""


def rank_name(key: str) -> str:
    """Name of the file in a spool that keeps the rank which the agent gave to a process."""
    return f"{key}.rank"


class Ranks:
    """Ranks of the processes in `processes`, which its owner keeps up to date."""

    def __init__(self, processes: dict[str, Process], clock: Clock, spool: Path) -> None:
        self._processes = processes
        self._clock = clock
        self._spool = spool

    def given(self, key: str) -> int | None:
        """Return the rank that an earlier agent gave to a process; None without one."""
        try:
            return int((self._spool / rank_name(key)).read_text())
        except (OSError, ValueError):
            return None

    def of(self, process: Process) -> int:
        """Return the rank for rows of a process; a worker has its trainer's; -1 for an unknown rank."""
        return self._owner(process).known_rank

    def settle(
        self, process: Process, now: int, *, final: bool, events: list[RecordedEvent] | None = None
    ) -> bool:
        """Give a process a rank when it does not learn its own; return False while it may still learn it.

        It gets the lowest rank that no living trainer has: a single trainer is rank 0, and so is the next
        trainer of a script that trains twice.
        """
        owner = self._owner(process)
        if owner.known_rank >= 0 or not owner.is_trainer:
            return True
        if not final and now - owner.first_seen < PATIENCE_S * 1e9:
            return False
        others = [one for one in self._processes.values() if one.is_trainer and one is not owner]
        taken = {self.of(one) for one in others if one.died is None}
        owner.assigned = next(rank for rank in range(len(taken) + 1) if rank not in taken)
        with contextlib.suppress(OSError):  # a recovery of the spool must use the same rank
            (self._spool / rank_name(owner.key)).write_text(str(owner.assigned))
        if events is not None and any(self.of(one) >= 0 for one in others):
            detail = {"process": owner.key, "pid": owner.pid, "assigned": owner.assigned}
            text = "its rank is unknown; given by order"
            events.append(RecordedEvent(self._clock.to_wall(now), owner.assigned, "rank", text, detail))
        return True

    def _owner(self, process: Process) -> Process:
        """Return the trainer a worker works for, as far as it can be found."""
        seen = {process.key}
        while process.is_worker and process.parent in self._processes and process.parent not in seen:
            seen.add(process.parent)
            process = self._processes[process.parent]
        return process
