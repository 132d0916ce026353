"""`holter diagnose JOB|TRACE…`: the verdict with its evidence, and the breakdown it stands on."""

from __future__ import annotations

import sys

from holter.cli import options, output, traces

ABOUT = (
    "Say why a job is slow or sick, with the evidence. Works on finished and on running jobs, and on "
    "traces that holter did not record: files of torch.profiler, and folders with one a rank."
)
EXAMPLES = """  holter diagnose latest
  holter diagnose holter-jobs/train-20260131-120000 --json
  holter diagnose trace.json.gz --detail
  holter diagnose rank0.pt.trace.json.gz rank1.pt.trace.json.gz"""


def main(words: list[str]) -> int:
    """Run `holter diagnose`."""
    parser = options.Parser("diagnose", ABOUT, EXAMPLES)
    parser.add_argument(
        "jobs",
        metavar="JOB|TRACE",
        nargs="+",
        help="a job's name, the start of one, `latest`, or a job's folder; or files and folders of traces",
    )
    options.add_store(parser)
    options.add_json(parser)
    parser.add_argument(
        "--detail",
        action="store_true",
        help="also what lies behind the card: operators, kernels, modules, launches, collectives, MFU",
    )
    given = parser.read(words)
    from holter.cli.card import print_card
    from holter.cli.detail import show
    from holter.views.document.description import diagnosis

    if traces.is_trace(given.jobs):
        description = traces.described(given.jobs, in_detail=given.json or given.detail)
        more = "the same with --detail: operators, kernels, modules, launches; with --json for programs"
    else:
        from holter.store.trial import Trial

        folder = options.find_job(given.jobs[0], given.store)
        options.check_readable(folder)
        description = traces.judged(Trial(folder), in_detail=given.json or given.detail)
        more = options.look(folder)
    if given.json:
        output.write_json(diagnosis(description))
    else:
        print_card(description, sys.stdout, more)
        if given.detail:
            show(description, output.console(sys.stdout))
    return 0
