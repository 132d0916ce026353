"""`holter compare A B`: what changed between jobs, how certain that is, and what it saves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.cli import options, output
from holter.cli.comparing import compare_jobs
from holter.cli.options import Refusal
from holter.cli.output import clean
from holter.views.comparison.changes import changes, comparison_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

ABOUT = "Compare jobs with a baseline: step and epoch time, parts of a step, hours and money."
EXAMPLES = """  holter compare before after
  holter compare before after --price 32.77 --epochs 30
  holter compare baseline try-1 try-2 --json
  holter compare baseline pull-request --markdown >> "$GITHUB_STEP_SUMMARY\""""


def main(words_: list[str]) -> int:
    """Run `holter compare`."""
    parser = options.Parser("compare", ABOUT, EXAMPLES, "--store", "--price", "--mean", "--json")
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="two jobs or more; the first is the baseline")
    parser.add_argument("--epochs", metavar="N", type=float, help="epochs of a full training")
    parser.add_argument(
        "--nodes", metavar="N", type=float, help="machines of a full training; default: those of the job"
    )
    parser.add_argument(
        "--epoch-steps", metavar="N", type=int, help="steps per epoch, if the job recorded no epochs"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown for a pull request")
    given = parser.read(words_)
    if given.epoch_steps is not None and given.epoch_steps < 1:
        raise Refusal(f"--epoch-steps must be at least 1, not {given.epoch_steps}")
    if given.json and given.markdown:
        raise Refusal("give --json or --markdown, not both")
    document = compare_jobs(
        given.jobs,
        given.store,
        price=options.price(given.price),
        epochs=given.epochs,
        nodes=given.nodes,
        epoch_steps=given.epoch_steps,
        statistic="mean" if given.mean else "median",
    )
    if given.json:
        output.write_json(document)
    elif given.markdown:
        from holter.views.comparison.changes_markdown import markdown

        sys.stdout.write(markdown(document))
    else:
        _show(document, output.console(sys.stdout))
    return 0


def _show(document: Mapping[str, Any], out: Console) -> None:
    """Print a comparison: a table of all jobs, then the changes of each job against the baseline."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    jobs = document["jobs"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for job in jobs:
        table.add_column(clean(job["name"]), justify="right", overflow="fold")
    for name, tell in comparison_rows(jobs):
        table.add_row(name, *(tell(job) for job in jobs))
    out.print(table)
    for change in document["changes"]:
        out.print()
        output.write(out, Text(clean(f"{change['job']} against {document['baseline']}"), style="bold"))
        for line in changes(change):
            out.print(Padding(Text(clean(line)), (0, 0, 0, 2), expand=False))
