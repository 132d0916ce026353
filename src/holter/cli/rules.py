"""`holter rules list|show|run`: the catalogue of rules, and judging a job by them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.cli import options, output, rules_new
from holter.cli.expressions import expressions
from holter.cli.options import Refusal, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holter.rules import Rule

ABOUT = "List the rules, show one with its parameters, judge a job by some, or begin one of your own."
EXAMPLES = """  holter rules list
  holter rules show LowGPUUtilization
  holter rules run latest
  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier"""


def main(words: list[str]) -> int:
    """Run `holter rules`."""
    actions: dict[str, Callable[[list[str]], int]] = {
        "list": _list,
        "show": _show,
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
        given: What stands after `--rule`: `NAME` or `NAME:k=v,k=v`.
        sections: Parameters by rule, from the config file; `given` wins.
        defaults: Whether the rules that are on by default are among them.

    Raises:
        Refusal: An unknown rule or parameter, or a value out of range.
    """
    given = list(given)
    if not (given or sections or defaults):
        return []
    from holter.evaluation import choose, documents, packs
    from holter.evaluation.selection import split
    from holter.rules import BadRule

    asked: dict[str, dict[str, Any]] = {name: {} for name in packs()["default"]} if defaults else {}
    sections, own = expressions(sections)
    try:
        for name, parameters in [*sections.items(), *map(split, given)]:
            full = named(name)
            asked[full] = {**asked.get(full, {}), **parameters}
        listed = [{"name": name, "parameters": found} for name, found in asked.items()]
        return documents(choose([*listed, *own]))
    except BadRule as error:
        raise Refusal(str(error)) from None


def named(name: str) -> str:
    """Return the full name of a rule that a user wrote in some way; raises `Refusal` naming the nearest."""
    from holter.rules import BadRule, find

    try:
        return find(name).__name__
    except BadRule as error:
        raise Refusal(str(error)) from None


def _list(words: list[str]) -> int:
    parser = options.Parser(
        "rules list", "List every rule.", "  holter rules list\n  holter rules list --json"
    )
    options.add_json(parser)
    given = parser.read(words)
    from holter.rules import catalogue

    rules = catalogue()
    if given.json:
        output.write_json({"schema": 1, "rules": [_card(rule) for rule in rules.values()]})
        return 0
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("judges", no_wrap=True)
    table.add_column("finds", overflow="fold")
    for name, rule in rules.items():
        table.add_row(name, rule.category, rule.description + ("" if "default" in rule.packs else " (off)"))
    output.console(sys.stdout).print(table)
    return 0


def _show(words: list[str]) -> int:
    parser = options.Parser("rules show", "Show one rule.", "  holter rules show LowGPUUtilization")
    parser.add_argument("name", metavar="NAME")
    options.add_json(parser)
    given = parser.read(words)
    from holter.rules import find

    rule = find(named(given.name))
    if given.json:
        output.write_json({"schema": 1, **_card(rule)})
        return 0
    from rich.padding import Padding
    from rich.text import Text

    out = output.console(sys.stdout)
    out.print(Text(rule.__name__, style="bold"))
    on = "on by default" if "default" in rule.packs else f"off by default; on with --rule {rule.__name__}"
    said = [
        rule.description,
        f"Fires when {rule.formula}" if rule.formula else "",
        f"Advice: {rule.advice}" if rule.advice else "",
    ]
    said += [f"Reads {', '.join(rule.reads)}; {rule.severity}; {on}."]
    for line in filter(None, said):
        out.print(Padding(Text(line), (0, 0, 0, 2)))
    if rule.parameters():
        out.print(Text("\nParameters", style="bold"))
    for parameter in rule.parameters():
        unit = f" {parameter.unit}" if parameter.unit else ""
        out.print(Padding(Text(f"{parameter.name} = {parameter.modern}{unit}", style="cyan"), (0, 0, 0, 2)))
        out.print(Padding(Text(f"{parameter.meaning} Takes {parameter.valid}."), (0, 0, 0, 6)))
    return 0


def _run(words: list[str]) -> int:
    parser = options.Parser(
        "rules run",
        "Judge a finished or running job; nothing is written to it.",
        "  holter rules run latest\n  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier",
    )
    options.add_job(parser)
    parser.add_argument("rules", metavar="NAME[:k=v,...]", nargs="*", help="which; default: the job's own")
    options.add_store(parser)
    options.add_json(parser)
    given = parser.read(words)
    folder = options.find_job(given.job, given.store)
    rules = (
        chosen(given.rules, {}, defaults=False)
        or folder.manifest().get("rules")
        or chosen([], {}, defaults=True)
    )
    from holter.evaluation import evaluate

    result = evaluate(folder, rules, record=False)
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, "rules": result.rules})
    else:
        _print(result.rules)
    return result.exit_code


def _print(rules: list[dict[str, Any]]) -> None:
    from rich.text import Text

    out = output.console(sys.stdout)
    styles = {"IssuesFound": "yellow", "Error": "red", "NoIssuesFound": "green"}
    for rule in rules:
        lacking = rule["coverage"]["lacking"] if not rule["coverage"]["evaluated"] else ""
        said = f"not evaluated: {lacking}" if lacking else rule["status"]
        lines = [Text.assemble(f"{rule['name']}: ", (said, styles.get(rule["status"], "")))]
        lines += [Text(output.clean(f"{issue['severity']}: {issue['summary']}")) for issue in rule["issues"]]
        if rule["status"] == "Error":
            lines.append(Text(output.clean(str(rule.get("error", "")).strip().splitlines()[-1])))
        for i, line in enumerate(lines):
            for piece in line.wrap(out, out.width - 2):
                piece.rstrip()
                output.write(out, Text.assemble("  " if i else "", piece))


def _card(rule: type[Rule]) -> dict[str, Any]:
    return {
        "name": rule.__name__,
        "category": rule.category,
        "severity": rule.severity,
        "default": "default" in rule.packs,
        "description": rule.description,
        "formula": rule.formula,
        "advice": rule.advice,
        "reads": list(rule.reads),
        "parameters": [
            {
                "name": p.name,
                "type": p.type,
                "default": p.modern,
                "unit": p.unit,
                "valid": p.valid,
                "meaning": p.meaning,
            }
            for p in rule.parameters()
        ],
    }
