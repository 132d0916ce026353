"""`holter diagnose JOB|TRACE…`: the verdict, its evidence, and the parts of a step."""

from __future__ import annotations

import sys

from holter.cli import foreign_traces, options, output
from holter.cli.job_lookup import readable_job
from holter.cli.naming import command_for

ABOUT = (
    "Say why a job is slow or sick, with the evidence. Reads finished and running jobs, and traces that "
    "other tools recorded, such as files of torch.profiler and folders with one file per rank."
)
EXAMPLES = """  holter diagnose latest
  holter diagnose holter-jobs/train-20260131-120000 --json
  holter diagnose trace.json.gz --detail
  holter diagnose rank0.pt.trace.json.gz rank1.pt.trace.json.gz"""


def main(words: list[str]) -> int:
    """Run `holter diagnose`."""
    parser = options.Parser("diagnose", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument(
        "jobs",
        metavar="JOB|TRACE",
        nargs="+",
        help="a job's name, the start of its name, `latest`, a job's folder; or files and folders of traces",
    )
    parser.add_argument(
        "--detail",
        action="store_true",
        help="also list operators, kernels, modules, launches, collectives and MFU",
    )
    given = parser.read(words)
    from holter.cli.card import print_card
    from holter.cli.trace_sections import sections
    from holter.views.document.description import diagnosis

    if foreign_traces.is_trace(given.jobs):
        description = foreign_traces.describe_paths(given.jobs, in_detail=given.json or given.detail)
        more = "add --detail for operators, kernels, modules and launches; --json for programs"
    else:
        trial = readable_job(given.jobs[0], given.store)
        description = foreign_traces.describe_job(trial, in_detail=given.json or given.detail)
        more = command_for(trial.folder)
    if given.json:
        output.write_json(diagnosis(description))
    else:
        print_card(description, sys.stdout, more)
        if given.detail:
            print()
            output.write_sections(output.console(sys.stdout), sections(description))
    return 0
