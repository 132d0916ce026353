"""The agent's result for a job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.drain import Drain
    from holter.agent.drain.journal import FaultCount
    from holter.agent.drain.writer_thread import WriterThread
    from holter.agent.supervision.deaths import Ended
    from holter.store.document_types import CostEntry, FailureEntry
    from holter.store.documents import Document

SPOOLED = ("spans", "scalars", "events", "tensors", "tensor_values")
"""Tables with rows from the spool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Status, failure, counts and cost of a job on this node."""

    exit_code: int
    """The command's own; 128 + number for a signal."""
    signal: int | None
    failure: FailureEntry | None
    status: str
    """Completed, Failed or Stopped."""
    started: int
    """Wall ns."""
    ended: int
    """Wall ns."""
    faults: list[FaultCount] = field(default_factory=list)
    """Faults of the agent and of the recorder."""
    dropped: int = 0
    """Records the recorder had to drop, and rows and readings the agent had to."""
    records: int = 0
    trainers: int = 0
    """Number of training processes."""
    trained: bool = False
    """Whether a training process has taken a step."""
    agent_cpu_s: float = 0.0
    """Of the agent and its companions."""
    recorder_cost_ns: int = 0
    """Measured cost of recording in all processes of the job."""
    spool: str | None = None
    """The spool, where it holds records that the store does not."""
    unstored: int = 0
    """Rows from the spool that the store does not hold; they are not lost while `spool` exists."""

    @property
    def duration_s(self) -> float:
        """How long the command ran."""
        return (self.ended - self.started) / 1e9

    @property
    def ending(self) -> Document:
        """The entries of the manifest, or of a node's facts, about the end."""
        return {
            "status": self.status,
            "start": self.started,
            "end": self.ended,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "failure": self.failure,
        }

    @property
    def cost(self) -> CostEntry:
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
    """Return the result of an ended writer thread for a command that ran from `started` to `at`, wall ns.

    `spool` is given when it is kept because the store lacks some of its records.
    """
    status = "Completed"
    if thread.stopped:
        status = "Stopped"
    elif thread.failure is not None or ended.exit_code not in (0, None):
        status = "Failed"
    made = Outcome(
        exit_code=1 if ended.exit_code is None else ended.exit_code,
        signal=ended.signal,
        failure=thread.failure,
        status=status,
        started=started,
        ended=at,
        faults=list(thread.event_log.faults),
        agent_cpu_s=thread.cpu_s,
        spool=None if spool is None else str(spool),
    )
    pipeline = thread.pipeline
    if pipeline is None:
        return made
    dropped = pipeline.writer.dropped
    unstored = sum(dropped.get(table, 0) for table in SPOOLED) if spool is not None else 0
    lost = sum(dropped.values()) - unstored + pipeline.sampler.dropped
    made = replace(made, dropped=lost, unstored=unstored)
    return made if pipeline.drain is None else with_records(made, pipeline.drain)


def with_records(outcome: Outcome, drain: Drain) -> Outcome:
    """Add the counts and faults of a spool to an outcome."""
    trainers = drain.trainers()
    return replace(
        outcome,
        faults=outcome.faults + drain.facts.faults,
        dropped=outcome.dropped + drain.dropped,
        records=drain.records,
        trainers=len(trainers),
        trained=any(one.steps for one in trainers),
        recorder_cost_ns=drain.cost_ns,
    )
