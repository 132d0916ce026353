"""`holter recover [JOB]`: store the records of a killed agent, close its job, print the verdict."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli import options, output, recovery
from holter.cli.job_lookup import named_job
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from holter.agent.supervision.ownership import Owner
    from holter.store.documents import Document

ABOUT = """Store the records that a killed agent left on this machine, close its job, and print the verdict.
Without JOB, recover all spools of yours in the temporary folders."""
EXAMPLES = """  holter recover
  holter recover train-20260131-120000 --store /data/jobs
  holter recover train-20260131-120000 --discard"""

_FAILED = {"busy": Refusal.NOT_RUNNING, "unwritten": Refusal.UNREADABLE}
"""Exit codes by result."""


def main(words: list[str]) -> int:
    """Run `holter recover`; 0: all is stored, 5: a training still writes, 65: a store cannot be written."""
    parser = options.Parser("recover", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument("job", metavar="JOB", nargs="?", help="a job's name or folder, or a spool")
    parser.add_argument("--discard", action="store_true", help="delete the spools; their records are lost")
    given = parser.read(words)
    found = _found(given.job, given.store)
    if not found and given.job:
        where = f"on this machine ({socket.gethostname()})"
        raise Refusal(f"job {given.job!r} has no spool {where}", Refusal.NOT_FOUND)
    results = [
        _discard(spool, owner) if given.discard else recovery.recover_spool(spool, owner, quiet=given.json)
        for spool, owner in found
    ]
    if given.json:
        output.write_json({"schema": 1, "spools": results})
    else:
        for result in results:
            output.say(recovery.sentence(result))
        if not results:
            output.say("This machine has no spool to recover.")
    return max((_FAILED.get(result["result"], 0) for result in results), default=0)


def _found(text: str | None, store: str | None) -> list[tuple[Path, Owner]]:
    from holter.agent.supervision.ownership import owner_of, spools

    all_ = [(spool, owner) for spool in spools() if (owner := owner_of(spool)) is not None]
    if text is None:
        return all_
    if (owner := owner_of(Path(text))) is not None:
        return [(Path(text), owner)]
    try:
        folder = named_job(text, store)
    except Refusal:  # the job may be deleted; its spool holds its name
        place = os.path.abspath(text)
        return [(spool, owner) for spool, owner in all_ if text == owner.name or place == owner.job]
    mine = {spool: owner for spool, owner in all_ if recovery.belongs_to(owner, folder)}
    return list((mine | dict(recovery.spools_of(folder))).items())


def _discard(spool: Path, owner: Owner) -> Document:
    from holter.agent.drain.recovery import waiting
    from holter.agent.supervision.ownership import SpoolBusy, held

    about: Document = {"job": owner.job, "spool": str(spool)}
    try:
        with held(spool, owner):
            about["waiting"] = waiting(spool)
            shutil.rmtree(spool)
    except SpoolBusy as busy:
        return {**about, "result": "busy", "why": str(busy)}
    return {**about, "result": "discarded"}
