"""`holter compare A B`: what changed between jobs, how certain that is, and what it saves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.job_lookup import perturbed_job, readable_job
from holter.cli.options import Refusal, Refusing
from holter.cli.output import clean
from holter.views.comparison.changes import changes, comparison_rows

if TYPE_CHECKING:
    from holter.store.trial import Trial
    from holter.views.comparison.types import ComparedJob

ABOUT = """Compare jobs with a baseline: step and epoch time, parts of a step, hours and money; or, with
--tensors, the numbers that they computed."""
EXAMPLES = """  holter compare before after
  holter compare before after --price 32.77 --epochs 30
  holter compare baseline try-1 try-2 --json
  holter compare original port --tensors
  holter compare baseline pull-request --format md >> "$GITHUB_STEP_SUMMARY\""""


FORMATS = ("text", "json", "md")


def main(words_: list[str]) -> int:
    """Run `holter compare`."""
    parser = options.Parser("compare", ABOUT, EXAMPLES, "--store", "--price", "--mean", "--json")
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="two jobs or more; the first is the baseline")
    parser.add_argument(
        "--epochs", metavar="N", type=options.within(float, 0), help="epochs of a full training"
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=options.within(float, 0),
        help="machines of a full training; default: those of the job",
    )
    parser.add_argument(
        "--epoch-steps",
        metavar="N",
        type=options.within(int, 1),
        help="steps per epoch, if the job recorded no epochs",
    )
    parser.add_argument(
        "--format", metavar="FORMAT", help="text (default), json as --json, or md for a pull request"
    )
    parser.add_argument(
        "--tensors",
        action="store_true",
        help="find the first step, module and tensor that differ by more than round-off",
    )
    parser.add_shared("--perturbed")
    given = parser.read(words_)
    from holter.views.comparison.document import compare

    if given.json and given.format not in (None, "json"):
        raise Refusal(f"give --json or --format {given.format}, not both")
    form = "json" if given.json else given.format or "text"
    options.check_choice("format", form, FORMATS)
    perturbed = perturbed_job(given)
    trials = [readable_job(name, given.store) for name in given.jobs]
    if given.tensors and form == "text":
        _print_tensors(trials, perturbed)
        return 0
    with Refusing(ValueError):
        document = compare(
            trials,
            price=options.price(given.price),
            epochs=given.epochs,
            nodes=given.nodes,
            epoch_steps=given.epoch_steps,
            statistic="mean" if given.mean else "median",
            tensors=given.tensors,
            perturbed=perturbed,
        )
    if form == "json":
        output.write_json(document)
    elif form == "md":
        from holter.views.comparison.changes_markdown import markdown

        sys.stdout.write(markdown(document))
    else:
        _print_table(document["jobs"])
        for change in document["changes"]:
            print()
            title = f"{change['job']} against {document['baseline']}"
            output.write_sections(output.console(sys.stdout), [(title, changes(change))])
    return 0


def _print_tensors(trials: list[Trial], perturbed: Trial | None) -> None:
    """Print the first difference of each job's tensors."""
    from holter.views.comparison.tensor_lines import tensor_lines
    from holter.views.comparison.tensors import tensor_changes

    with Refusing(ValueError):
        found = tensor_changes(trials, perturbed)
    sections = [(f"{one['job']} against {one['baseline']}", tensor_lines(one)) for one in found]
    output.write_sections(output.console(sys.stdout), sections)


def _print_table(jobs: list[ComparedJob]) -> None:
    """Print a table with a column for each job."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for job in jobs:
        table.add_column(clean(job["name"]), justify="right", overflow="fold")
    for name, tell in comparison_rows(jobs):
        table.add_row(name, *(tell(job) for job in jobs))
    output.console(sys.stdout).print(table)
