"""`holter diagnose JOB`: the verdict with its evidence, and the breakdown it stands on."""

from __future__ import annotations

import os
import sys

from holter.cli import options, output
from holter.cli.options import Refusal

ABOUT = "Say why a job is slow or sick, with the evidence. Works on finished and on running jobs."
EXAMPLES = """  holter diagnose latest
  holter diagnose holter-jobs/train-20260131-120000 --json"""


def main(words: list[str]) -> int:
    """Run `holter diagnose`."""
    parser = options.Parser("diagnose", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    options.add_json(parser)
    given = parser.read(words)
    _refuse_other_kinds(given.job)
    folder = options.find_job(given.job, given.store)
    from holter.cli.card import print_card
    from holter.cli.describe import described
    from holter.views.description import diagnosis

    description = described(folder)
    if given.json:
        output.write_json(diagnosis(description))
    else:
        print_card(description, sys.stdout, options.look(folder))
    return 0


def _refuse_other_kinds(path: str) -> None:
    """Refuse a file, or a folder that is no job: this version reads only what holter recorded."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            first = file.read(1)
        what = "an empty file" if not first else "a file"
    elif os.path.isdir(path) and "/" in path and not os.path.isfile(os.path.join(path, "job.json")):
        if any(os.path.isfile(os.path.join(path, name, "job.json")) for name in os.listdir(path)):
            raise Refusal(
                f"{path} is a store, not a job; list its jobs: holter jobs --store {path}", Refusal.UNREADABLE
            )
        what = "a folder without job.json"
    else:
        return
    raise Refusal(
        f"{path} is {what}, not a job; this version diagnoses recorded jobs: a job's name or its folder",
        Refusal.UNREADABLE,
    )
