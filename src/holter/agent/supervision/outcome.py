"""The agent's result for a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.writer_thread import WriterThread
    from holter.agent.supervision.deaths import Ended

SPOOLED = ("spans", "scalars", "events", "tensors", "tensor_values")
"""Tables with rows from the spool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Status, failure, counts and cost of a job on this node."""

    exit_code: int
    """The command's own; 128 + number for a signal."""
    signal: int | None
    failure: dict[str, Any] | None
    """kind, step, phase, exception, rank, signal, certainty, evidence."""
    status: str
    """Completed, Failed or Stopped."""
    started: int
    """Wall ns."""
    ended: int
    """Wall ns."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Faults of the agent and of the recorder: where, error, count."""
    dropped: int = 0
    """Records the recorder had to drop, and rows and readings the agent had to."""
    records: int = 0
    processes: list[dict[str, Any]] = field(default_factory=list)
    """Every trainer: process, pid, rank, records, dropped, steps, whether its end was clean."""
    workers_seen: int = 0
    agent_cpu_s: float = 0.0
    """Of the agent and its companions."""
    recorder_cost_ns: int = 0
    """Measured cost of recording in all processes of the job."""
    bytes_written: int = 0
    spool: str | None = None
    """The spool, where it holds records that the store does not."""
    unstored: int = 0
    """Rows from the spool that the store does not hold; they are not lost while `spool` exists."""

    @property
    def duration_s(self) -> float:
        """How long the command ran."""
        return (self.ended - self.started) / 1e9

    @property
    def cost(self) -> dict[str, Any]:
        """The cost of recording on this node, for the node's facts."""
        return {
            "recorder_ns": self.recorder_cost_ns,
            "agent_cpu_s": self.agent_cpu_s,
            "duration_s": self.duration_s,
            "records": self.records,
            "dropped": self.dropped,
        }


def all_stored(thread: WriterThread) -> bool:
    """Return whether the store holds all records of the spool, so that it may be removed."""
    if thread.is_alive():
        return False
    if thread.pipeline is None or thread.pipeline.drain is None:
        spool = thread.plan.spool
        return spool is None or not any(spool.glob("*.journal"))
    return thread.pipeline.stored


def outcome_of(
    thread: WriterThread, ended: Ended, started: int, at: int, *, spool: Path | None = None
) -> Outcome:
    """Return the result of an ended writer thread; times are wall ns.

    Args:
        thread: The thread, which has ended.
        ended: How the command ended.
        started: When it was started.
        at: When it ended.
        spool: The spool, if it is kept because the store lacks some of its records.
    """
    status = "Completed"
    if thread.stopped:
        status = "Stopped"
    elif thread.failure is not None or ended.exit_code not in (0, None):
        status = "Failed"
    facts: dict[str, Any] = {}
    faults = list(thread.event_log.faults)
    if (pipeline := thread.pipeline) is not None:
        dropped = pipeline.writer.dropped
        unstored = sum(dropped.get(table, 0) for table in SPOOLED) if spool is not None else 0
        lost = sum(dropped.values()) - unstored + pipeline.sampler.dropped
        facts = {"dropped": lost, "bytes_written": pipeline.writer.bytes_written, "unstored": unstored}
        if (drain := pipeline.drain) is not None:
            faults += drain.facts.faults
            facts |= {
                "dropped": lost + drain.dropped,
                "records": drain.records,
                "processes": [one.summary() for one in drain.trainers()],
                "workers_seen": drain.workers_seen,
                "recorder_cost_ns": drain.cost_ns,
            }
    return Outcome(
        exit_code=1 if ended.exit_code is None else ended.exit_code,
        signal=ended.signal,
        failure=thread.failure,
        status=status,
        started=started,
        ended=at,
        faults=faults,
        agent_cpu_s=thread.cpu_s,
        spool=None if spool is None else str(spool),
        **facts,
    )
