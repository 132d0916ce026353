"""`holter rules list|show|run`: the catalogue of rules, and judging a job by them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.cli import options, output, rules_new
from holter.cli.expressions import expressions
from holter.cli.options import Refusal, nearest
from holter.cli.rule_cards import list_rules, show_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ABOUT = "List the rules, show one with its parameters, judge a job by some, or begin one of your own."
EXAMPLES = """  holter rules list
  holter rules show LowGPUUtilization
  holter rules run latest
  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier
  holter rules run latest pack:performance"""


def main(words: list[str]) -> int:
    """Run `holter rules`."""
    actions: dict[str, Callable[[list[str]], int]] = {
        "list": list_rules,
        "show": lambda rest: show_rule(rest, named),
        "run": _run,
        "new": rules_new.main,
    }
    if not words or words[0] in ("-h", "--help"):
        parser = options.Parser("rules", ABOUT, EXAMPLES, usage="holter rules list|show|run|new ...")
        parser.print_help()
        return 0
    if words[0] not in actions:
        what = "option" if words[0].startswith("-") else "action"
        raise Refusal(
            f"unknown {what} {words[0]}{nearest(words[0], actions)}; valid: {', '.join(actions)}, --help"
        )
    return actions[words[0]](words[1:])


def chosen(
    given: Iterable[str], sections: Mapping[str, Mapping[str, Any]], *, defaults: bool
) -> list[dict[str, Any]]:
    """Return the rules of a job, each with its name and all parameters, checked.

    Args:
        given: What stands after `--rule`: `NAME`, `NAME:k=v,k=v` or `pack:NAME`. A rule that is named twice
            runs twice, the second as `NAME-2`.
        sections: Parameters by rule, from the config file; `given` wins.
        defaults: Whether the rules that are on by default are among them.

    Raises:
        Refusal: An unknown rule or parameter, or a value out of range.
    """
    given = list(given)
    if not (given or sections or defaults):
        return []
    from holter.evaluation import choose, documents
    from holter.evaluation.selection import PACK, split
    from holter.rules import BadRule

    sections, own = expressions(sections)
    choices: list[str | dict[str, Any]] = [f"{PACK}default"] if defaults else []
    try:
        fixed = {named(name): dict(parameters) for name, parameters in sections.items()}
        used = set()
        for text in given:
            if text.startswith(PACK):
                choices.append(text)
                continue
            name, parameters = split(text)
            full = named(name)
            used.add(full)
            choices.append({"name": full, "parameters": {**fixed.get(full, {}), **parameters}})
        choices += [{"name": full, "parameters": fixed[full]} for full in fixed if full not in used]
        return documents(choose([*choices, *own]))
    except BadRule as error:
        raise Refusal(str(error)) from None


def named(name: str) -> str:
    """Return the full name of a rule that a user wrote in some way; raises `Refusal` naming the nearest."""
    from holter.rules import BadRule, find

    try:
        return find(name).__name__
    except BadRule as error:
        raise Refusal(str(error)) from None


def _run(words: list[str]) -> int:
    parser = options.Parser(
        "rules run",
        "Judge a finished or running job; nothing is written to it.",
        "  holter rules run latest\n"
        "  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier\n"
        "  holter rules run latest pack:convergence\n  holter rules run latest 'when:loss > 100'",
    )
    options.add_job(parser)
    parser.add_argument(
        "rules",
        metavar="NAME[:k=v,...]",
        nargs="*",
        default=[],
        help="which; also pack:NAME, FILE.py:NAME, 'when:EXPRESSION'; default: the job's own",
    )
    parser.add_argument(
        "--rule", metavar="NAME", action="append", default=[], help="the same, as in `holter run`"
    )
    parser.add_argument(
        "--baseline",
        metavar="JOB",
        action="append",
        default=[],
        help="a job that rules which compare runs compare with; may be repeated",
    )
    parser.add_argument(
        "--strict-coverage", action="store_true", help="a rule that could not judge anything has failed"
    )
    options.add_store(parser)
    options.add_json(parser)
    given = parser.read(words)
    folder = options.find_job(given.job, given.store)
    rules = chosen([*given.rules, *given.rule], {}, defaults=False) or (
        None if folder.manifest().get("rules") else chosen([], {}, defaults=True)
    )
    from holter.evaluation import evaluate
    from holter.rules import BadRule

    others = {name: options.find_job(name, given.store) for name in given.baseline}
    try:
        result = evaluate(
            folder, rules, record=False, baselines=others, strict_coverage=given.strict_coverage
        )
    except BadRule as error:
        raise Refusal(str(error)) from None
    except ValueError as error:
        raise Refusal(str(error), Refusal.UNREADABLE) from None
    for sentence in result.left_out:
        options.warn(sentence)
    if given.json:
        left_out = {"left_out": result.left_out} if result.left_out else {}
        output.write_json({"schema": 1, "job": folder.name, "rules": result.rules, **left_out})
    else:
        _print(result.rules)
    return result.exit_code


def _told(rule: dict[str, Any], issue: dict[str, Any]) -> str:
    over = " (over since)" if issue["status"] == "resolved" else ""
    cause = issue["caused_by"]
    because = f" (look at {cause} first)" if cause not in (None, rule["rule"]) else ""
    return f"{issue['severity']}: {issue['summary']}{over}{because}"


def _print(rules: list[dict[str, Any]]) -> None:
    from rich.text import Text

    out = output.console(sys.stdout)
    styles = {"IssuesFound": "yellow", "Error": "red", "NoIssuesFound": "green"}
    for rule in rules:
        lacking = rule["coverage"]["lacking"] if not rule["coverage"]["evaluated"] else ""
        said = f"not evaluated: {lacking}" if lacking else rule["status"]
        lines = [Text.assemble(f"{rule['name']}: ", (said, styles.get(rule["status"], "")))]
        lines += [Text(output.clean(_told(rule, issue))) for issue in rule["issues"]]
        if rule["status"] == "Error":
            lines.append(Text(output.clean(rule["status_details"])))
        for i, line in enumerate(lines):
            for piece in line.wrap(out, out.width - 2):
                piece.rstrip()
                output.write(out, Text.assemble("  " if i else "", piece))
