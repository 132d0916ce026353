"""`holter rules list|show|run|new`: list or show rules, judge a job, or write a rule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holter.cli import options, output, rule_listing, rule_template
from holter.cli.job_lookup import find_job
from holter.cli.options import Refusal, Refusing
from holter.cli.rule_selection import select

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.documents import Document

ABOUT = "List all rules, show one with its parameters, judge a job by rules, or write a rule of your own."
EXAMPLES = """  holter rules list
  holter rules show LowGPUUtilization
  holter rules run latest
  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier
  holter rules run latest pack:performance"""


def main(words: list[str]) -> int:
    """Run `holter rules`."""
    if not words or words[0] in ("-h", "--help"):
        parser = options.Parser("rules", ABOUT, EXAMPLES, usage="holter rules list|show|run|new ...")
        parser.print_help()
        return 0
    options.check_choice("command", words[0], [*SUBCOMMANDS, "--help"])
    return SUBCOMMANDS[words[0]](words[1:])


def _run(words: list[str]) -> int:
    parser = options.Parser(
        "rules run",
        "Judge a finished or running job by rules; nothing is written to the job.",
        "  holter rules run latest\n"
        "  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier\n"
        "  holter rules run latest pack:convergence\n  holter rules run latest 'when:loss > 100'",
    )
    parser.add_shared("job", "--store", "--json")
    parser.add_argument(
        "rules",
        metavar="NAME[:k=v,...]",
        nargs="*",
        default=[],
        help="rules, also as pack:NAME, FILE.py:NAME or 'when:EXPRESSION'; default: the job's own rules",
    )
    parser.add_argument(
        "--rule",
        metavar="NAME",
        action="append",
        default=[],
        help="the same as NAME, as in `holter run`; may be repeated",
    )
    parser.add_argument(
        "--baseline",
        metavar="JOB",
        action="append",
        default=[],
        help="a job for rules that compare jobs; may be repeated",
    )
    parser.add_argument(
        "--strict-coverage", action="store_true", help="count a rule without data to judge as failed"
    )
    given = parser.read(words)
    folder = find_job(given.job, given.store)
    rules = select([*given.rules, *given.rule], {}, defaults=False) or (
        None if folder.manifest().get("rules") else select([], {}, defaults=True)
    )
    from holter.evaluation import evaluate
    from holter.rules import BadRule

    others = {name: find_job(name, given.store) for name in given.baseline}
    with Refusing(ValueError, code=Refusal.UNREADABLE), Refusing(BadRule):
        result = evaluate(
            folder, rules, record=False, baselines=others, strict_coverage=given.strict_coverage
        )
    for sentence in result.left_out:
        output.warn(sentence)
    if given.json:
        left_out = {"left_out": result.left_out} if result.left_out else {}
        output.write_json({"schema": 1, "job": folder.name, "rules": result.rules, **left_out})
    else:
        _print(result.rules)
    return result.exit_code


def _issue_text(rule: Document, issue: Document) -> str:
    over = " (over since)" if issue["status"] == "resolved" else ""
    cause = issue["caused_by"]
    because = f" (look at {cause} first)" if cause not in (None, rule["rule"]) else ""
    return f"{issue['severity']}: {issue['summary']}{over}{because}"


def _print(rules: list[Document]) -> None:
    from rich.text import Text

    out = output.console(sys.stdout)
    styles = {"IssuesFound": "yellow", "Error": "red", "NoIssuesFound": "green"}
    for rule in rules:
        lacking = rule["coverage"]["lacking"] if not rule["coverage"]["evaluated"] else ""
        status = f"not evaluated: {lacking}" if lacking else rule["status"]
        output.write_lines(
            out, [Text.assemble(f"{rule['name']}: ", (status, styles.get(rule["status"], "")))], ""
        )
        output.write_lines(out, [_issue_text(rule, issue) for issue in rule["issues"]], "  ")
        if rule["status"] == "Error":
            output.write_lines(out, [rule["status_details"]], "  ")


SUBCOMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": rule_listing.list_rules,
    "show": rule_listing.show_rule,
    "run": _run,
    "new": rule_template.main,
}
