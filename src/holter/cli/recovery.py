"""Store the records that a killed agent left in its spool, and close its job."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli.output import warn

if TYPE_CHECKING:
    from holter.agent.supervision.outcome import Outcome
    from holter.agent.supervision.ownership import Owner
    from holter.store.documents import Document
    from holter.store.job import JobFolder


def recover_if_killed(folder: JobFolder) -> None:
    """Recover a job whose agent was killed on this machine; a problem is one warning.

    Reads two small files of a running job, and no file of a finished job.
    """
    from holter.views.jobs import RUNNING

    if folder.manifest().get("status") not in RUNNING:
        return
    for spool, owner in spools_of(folder):
        result = recover_spool(spool, owner, quiet=True)
        if result["result"] != "busy" or result["agent"] == "gone":
            warn(sentence(result))


def store_rest(folder: JobFolder, outcome: Outcome) -> Outcome:
    """Store the records that the agent could not store; if that fails again, say where they are."""
    from holter.agent.supervision.ownership import SpoolBusy, owner_of

    if outcome.spool is None or (owner := owner_of(Path(outcome.spool))) is None:
        return outcome
    from holter.agent.drain.recovery import recover

    try:
        recover(Path(outcome.spool), owner, folder)
    except (OSError, ValueError, SpoolBusy):
        missing = counted(outcome.unstored, "record") if outcome.unstored else "some records"
        warn(
            f"the store lacks {missing} of job {folder.name}; they are kept in {outcome.spool}; "
            f"once the store can be written, run: holter recover {folder.url}"
        )
        return outcome
    return replace(outcome, spool=None, unstored=0)


def spools_of(folder: JobFolder) -> list[tuple[Path, Owner]]:
    """Return the spools that a job names and that name the job."""
    from holter.agent.supervision.ownership import named, owner_of

    found = [(spool, owner) for spool in named(folder.nodes()) if (owner := owner_of(spool)) is not None]
    return [(spool, owner) for spool, owner in found if belongs_to(owner, folder)]


def belongs_to(owner: Owner, folder: JobFolder) -> bool:
    """Tell whether a spool's owner records this job."""
    if "://" in owner.job or "://" in folder.url:
        return owner.job == folder.url
    return os.path.realpath(owner.job) == os.path.realpath(folder.url)


def recover_spool(spool: Path, owner: Owner, *, quiet: bool) -> Document:
    """Recover one spool; return the result as a JSON document. `quiet`: the card is not printed."""
    from holter.agent.supervision.ownership import SpoolBusy, held

    about: Document = {"job": owner.job, "spool": str(spool), "agent": "gone"}
    about["killed"] = owner.ended is None
    try:
        with held(spool, owner):  # usually the agent runs: then the imports below are not needed
            pass
        from holter.agent.drain.recovery import recover
        from holter.store.job import JobFolder
        from holter.store.urls import place

        folder = JobFolder(place(owner.job), owner.name)
        stream = io.StringIO() if quiet else sys.stdout

        def judge(outcome: Outcome) -> None:
            from holter.cli.run.finish import finish

            finish(folder, outcome, owner.node, stream)

        done = recover(spool, owner, folder, judge)
    except SpoolBusy as busy:
        agent = "runs" if busy.agent_runs else "gone"
        return {**about, "result": "busy", "agent": agent, "why": str(busy)}
    except (OSError, ValueError) as error:
        from holter.agent.drain.recovery import waiting

        return {**about, "result": "unwritten", "why": str(error), "waiting": waiting(spool)}
    return {**about, "result": "recovered", "rows": done.rows, "status": done.outcome.status}


def sentence(result: Document) -> str:
    """Say what became of one spool."""
    name, spool = result["job"].rpartition("/")[2], result["spool"]
    if result["result"] == "recovered":
        why = "was killed" if result["killed"] else "could not store all records"
        rows = counted(sum(result["rows"].values()), "row")
        return f"the agent of job {name} {why}; {rows} that the store lacked came from its spool"
    if result["result"] == "discarded":
        return f"deleted {spool} of job {name} with {counted(result['waiting'], 'record')}"
    again = f"holter recover {result['job']}"
    if result["result"] == "busy":
        return f"spool {spool} of job {name} waits: {result['why']}; later run: {again}"
    records = counted(result["waiting"], "record")
    return f"spool {spool} of job {name} with {records} is kept: {result['why']}; then run: {again}"
