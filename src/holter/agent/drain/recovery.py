"""Stores the records that a dead agent left in its spool: each record once, however often it is tried."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.agent.collectors import Watched
from holter.agent.drain.drain import Drain
from holter.agent.drain.event_log import EventLog
from holter.agent.drain.missing_rows import MissingRowsWriter
from holter.agent.drain.pipeline import Pipeline
from holter.agent.drain.segments import RECORD
from holter.agent.sampling import Sampler
from holter.agent.supervision.deaths import Ended, failure
from holter.agent.supervision.members import Member
from holter.agent.supervision.outcome import Outcome, with_records
from holter.agent.supervision.ownership import held
from holter.store.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.agent.supervision.ownership import Owner
    from holter.store.document_types import FailureEntry
    from holter.store.job import JobFolder

_JUDGES_S = 20.0
"""Time for the rules' process of the dead agent to end by itself."""
_NO_PROC = Path("/nonexistent")
"""All processes of the spool are dead; another one may have got the pid of one of them."""


class Recovered(NamedTuple):
    """The result of a recovery."""

    rows: dict[str, int]
    """New rows in the store, by table."""
    outcome: Outcome


def recover(
    spool: Path, owner: Owner, folder: JobFolder, judge: Callable[[Outcome], object] | None = None
) -> Recovered:
    """Store the records of a spool, close its job, `judge` a job that is over, and remove the spool.

    The spool exists until all is done, so the next attempt continues after any failure.

    Raises:
        SpoolBusy: Its agent or its training still runs, or another command recovers it now.
        OSError: The store cannot be read or written, or the job is gone; the spool is kept.
    """
    with held(spool, owner):
        if "created" not in folder.manifest():
            raise FileNotFoundError(f"job {folder.url} is not there; was it deleted, or its store unmounted?")
        end = _last_sign(spool, owner, folder)
        writer = MissingRowsWriter(folder, owner.node)
        event_log = EventLog(owner.clock)
        drain = Drain(spool, owner.clock, proc=_NO_PROC, now=lambda: end - owner.clock.offset)
        sampler = Sampler((), owner.clock, 1000, on_fault=event_log.fault)
        pipeline = Pipeline(writer, drain, sampler, event_log, Watched())
        pipeline.finish(attached=False, limit_s=float("inf"))
        closes = folder.manifest().get("end") is None
        if closes and owner.ended is None:
            event_log.fault("killed", _loss(folder, owner))
        pipeline.events()
        if failed := next((f["error"] for f in event_log.faults if f["where"] == "tensors"), None):
            raise OSError(failed)
        outcome = _outcome(drain, owner, end)
        if (not closes or _close(folder, owner, outcome)) and judge is not None:
            _wait_for_rules(folder)
            kept = folder.evaluations()
            if (kept.get("progress") or {}).get("finished"):  # the rules judge again with the last records
                folder.write_evaluations({**kept, "progress": None})
            judge(outcome)
        shutil.rmtree(spool, ignore_errors=True)
    return Recovered(writer.new, outcome)


def waiting(spool: Path) -> int:
    """Return how many records lie in a spool, stored ones among them."""
    return sum(int((records["phase"] != 0).sum()) for records in _segments(spool))


def _segments(spool: Path) -> list[Any]:
    found = []
    for path in spool.glob("*.seg"):
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            found.append(np.frombuffer(data[: len(data) - len(data) % RECORD.itemsize], RECORD))
    return found


def _last_sign(spool: Path, owner: Owner, folder: JobFolder) -> int:
    """Return when the job was alive last, wall ns: the newest record, journal or heartbeat."""
    signs = [owner.start]
    for records in _segments(spool):
        whole = records[records["phase"] != 0]
        if len(whole):
            signs.append(owner.clock.to_wall(int((whole["begin"] + whole["duration"]).max())))
    for path in spool.glob("*.journal"):
        with contextlib.suppress(OSError):
            signs.append(path.stat().st_mtime_ns)
    beat = folder.node(owner.node).get("heartbeat")
    return min(max([*signs, *([beat] if isinstance(beat, int) else [])]), time.time_ns())


def _loss(folder: JobFolder, owner: Owner) -> str:
    """Say what no recovery brings back."""
    newest = Trial(folder).newest("samples")
    after = "" if newest is None else f" after {(newest - owner.start) / 1e9:.0f} s"
    return (
        f"the agent (process {owner.pid} on {owner.host}) was killed; the records were recovered from its "
        f"spool, the machine's samples{after} are lost"
    )


def _outcome(drain: Drain, owner: Owner, end: int) -> Outcome:
    found = failure(
        Ended(None),
        [one for one in drain.processes.values() if not one.is_worker],
        oom=None,
        hanging=False,
        clock_offset=owner.clock.offset,
        rank_of=drain.ranks.of,
    )
    if (found is None and not drain.trainers()) or (found is not None and found["kind"] == "lost"):
        text = f"the agent (process {owner.pid}) was killed, and the end of the training was not recorded"
        unknown: FailureEntry = {"step": None, "phase": None, "exception": None, "rank": None, "signal": None}
        found = unknown | (found or {}) | {"kind": "agent killed", "certainty": "certain", "evidence": text}
    made = Outcome(
        exit_code=0 if found is None else 1,
        signal=None,
        failure=found,
        status="Completed" if found is None else "Failed",
        started=owner.start,
        ended=end,
    )
    if (known := owner.ended) is not None:
        made = replace(
            made,
            status=known["status"],
            exit_code=known["exit_code"],
            signal=known["signal"],
            failure=known["failure"],
        )
    return with_records(made, drain)


def _close(folder: JobFolder, owner: Owner, outcome: Outcome) -> bool:
    """Write how the job ended, as far as it is known; return whether it is over."""
    ended = owner.ended
    if ended is None:
        killed = {"node": owner.node, "host": owner.host, "pid": owner.pid}
        # Only the agent could have learned the exit code.
        ended = {**outcome.ending, "exit_code": None, "agent_killed": killed}
    if not owner.several:
        folder.update(**ended)
        return True
    folder.update_node(owner.node, **ended, trained=outcome.trained, cost=outcome.cost)
    return not Member(folder, owner.node, creator=False).close()


def _wait_for_rules(folder: JobFolder) -> None:
    """Wait for the dead agent's rules to end, because two processes would write every step twice."""
    deadline = time.monotonic() + _JUDGES_S
    while time.monotonic() < deadline and _rules_run(folder.url):
        time.sleep(0.2)


def _rules_run(url: str) -> bool:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                if b"holter.evaluation" in words and os.fsencode(url) in words:
                    return True
    return False
