"""`holter recover [JOB]`: store what the spool of a killed agent holds, close its job, say the verdict."""

from __future__ import annotations

import io
import os
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.cli import options
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from holter.agent.supervision.outcome import Outcome
    from holter.agent.supervision.ownership import Owner
    from holter.store.job import JobFolder

ABOUT = """Store what a killed agent left behind on this machine, close its job, and say the verdict.
Without JOB, look for all spools of yours in the temporary folders."""
EXAMPLES = """  holter recover
  holter recover train-20260131-120000 --store /data/jobs
  holter recover train-20260131-120000 --discard"""

_FAILED = {"busy": Refusal.NOT_RUNNING, "unwritten": Refusal.UNREADABLE}
"""Exit codes by what became of a spool."""


def main(words: list[str]) -> int:
    """Run `holter recover`; 0: all is stored, 5: a training still writes, 65: a store refuses."""
    parser = options.Parser("recover", ABOUT, EXAMPLES)
    parser.add_argument("job", metavar="JOB", nargs="?", help="a job's name or folder, or a spool")
    options.add_store(parser)
    parser.add_argument("--discard", action="store_true", help="delete the spools; their records are lost")
    options.add_json(parser)
    given = parser.read(words)
    found = _found(given.job, given.store)
    if not found and given.job:
        where = f"on this machine ({socket.gethostname()})"
        raise Refusal(f"no spool of job {given.job!r} is waiting {where}", Refusal.NOT_FOUND)
    told = [
        (_discarded if given.discard else _recovered)(spool, owner, quiet=given.json)
        for spool, owner in found
    ]
    if given.json:
        from holter.cli import output

        output.write_json({"schema": 1, "spools": told})
    else:
        for one in told:
            options.say(_sentence(one))
        if not told:
            options.say("No spool is waiting on this machine.")
    return max((_FAILED.get(one["result"], 0) for one in told), default=0)


def look_for_spool(folder: JobFolder) -> None:
    """Recover a job whose agent was killed on this machine; what hinders it is said in one line.

    Costs a look at two small files of a job that runs, nothing for another.
    """
    from holter.views.jobs import RUNNING

    if folder.manifest().get("status") not in RUNNING:
        return
    for spool, owner in _of(folder):
        told = _recovered(spool, owner, quiet=True)
        if told["result"] != "busy" or told["agent"] == "gone":
            options.warn(_sentence(told))


def kept(folder: JobFolder, outcome: Outcome) -> Outcome:
    """Store what the agent could not, where that goes by now; else say where it is and what to do."""
    from holter.agent.supervision.ownership import SpoolBusy, owner_of

    if outcome.spool is None or (owner := owner_of(Path(outcome.spool))) is None:
        return outcome
    from holter.agent.drain.recovery import recover

    try:
        recover(Path(outcome.spool), owner, folder)
    except (OSError, ValueError, SpoolBusy):
        _tell_kept(folder, outcome)
        return outcome
    return replace(outcome, spool=None, unstored=0)


def _tell_kept(folder: JobFolder, outcome: Outcome) -> None:
    missing = f"{counted(outcome.unstored, 'record')} of it" if outcome.unstored else "some records of it"
    options.warn(
        f"the store does not hold all of job {folder.name}: {missing} are kept in {outcome.spool}; "
        f"once the store can be written, run: {_command(folder.url)}"
    )


def _found(text: str | None, store: str | None) -> list[tuple[Path, Owner]]:
    from holter.agent.supervision.ownership import owner_of, spools

    all_ = [(spool, owner) for spool in spools() if (owner := owner_of(spool)) is not None]
    if text is None:
        return all_
    if (owner := owner_of(Path(text))) is not None:
        return [(Path(text), owner)]
    try:
        folder = options.named_job(text, store)
    except Refusal:  # the job may be gone; its spool says what it was called
        place = os.path.abspath(text)
        return [(spool, owner) for spool, owner in all_ if text == owner.name or place == owner.job]
    mine = {spool: owner for spool, owner in all_ if _same(owner, folder)}
    return list((mine | dict(_of(folder))).items())


def _of(folder: JobFolder) -> list[tuple[Path, Owner]]:
    """Return the spools that a job names and that name the job."""
    from holter.agent.supervision.ownership import named, owner_of

    found = [(spool, owner) for spool in named(folder.nodes()) if (owner := owner_of(spool)) is not None]
    return [(spool, owner) for spool, owner in found if _same(owner, folder)]


def _same(owner: Owner, folder: JobFolder) -> bool:
    if "://" in owner.job or "://" in folder.url:
        return owner.job == folder.url
    return os.path.realpath(owner.job) == os.path.realpath(folder.url)


def _recovered(spool: Path, owner: Owner, *, quiet: bool) -> dict[str, Any]:
    """Recover one spool; return what became of it. `quiet`: the card is not printed."""
    from holter.agent.supervision.ownership import SpoolBusy, held

    told: dict[str, Any] = {"job": owner.job, "spool": str(spool), "agent": "gone"}
    told["killed"] = owner.ended is None
    try:
        with held(spool, owner):  # most often the agent just runs: no need to load what follows
            pass
        from holter.agent.drain.recovery import recover
        from holter.store.job import JobFolder
        from holter.store.urls import place

        folder = JobFolder(place(owner.job), owner.name)
        stream = io.StringIO() if quiet else sys.stdout

        def judge(outcome: Outcome) -> None:
            from holter.cli.finish import finish

            finish(folder, outcome, owner.node, options.look(folder), stream)

        done = recover(spool, owner, folder, judge)
    except SpoolBusy as busy:
        agent = "runs" if busy.agent_runs else "gone"
        return {**told, "result": "busy", "agent": agent, "why": str(busy)}
    except (OSError, ValueError) as error:
        from holter.agent.drain.recovery import waiting

        return {**told, "result": "unwritten", "why": str(error), "waiting": waiting(spool)}
    return {**told, "result": "recovered", "rows": done.rows, "status": done.outcome.status}


def _discarded(spool: Path, owner: Owner, *, quiet: bool) -> dict[str, Any]:
    del quiet
    from holter.agent.drain.recovery import waiting
    from holter.agent.supervision.ownership import SpoolBusy, held

    told: dict[str, Any] = {"job": owner.job, "spool": str(spool)}
    try:
        with held(spool, owner):
            told["waiting"] = waiting(spool)
            shutil.rmtree(spool)
    except SpoolBusy as busy:
        return {**told, "result": "busy", "why": str(busy)}
    return {**told, "result": "discarded"}


def _sentence(told: dict[str, Any]) -> str:
    name = told["job"].rpartition("/")[2]
    result, spool = told["result"], told["spool"]
    if result == "recovered":
        why = "was killed" if told["killed"] else "could not store all of it"
        return (
            f"the agent of job {name} {why}; {counted(sum(told['rows'].values()), 'row')} "
            f"that the store lacked came from its spool"
        )
    if result == "discarded":
        return f"deleted {spool} of job {name} with {counted(told['waiting'], 'record')}"
    again = _command(told["job"])
    if result == "busy":
        return f"spool {spool} of job {name} waits: {told['why']}; later run: {again}"
    records = counted(told["waiting"], "record")
    return f"spool {spool} of job {name} with {records} is kept: {told['why']}; then run: {again}"


def _command(url: str) -> str:
    return f"holter recover {url}"
