"""`holter rules list` and `holter rules show`: all rules in short, and one rule in full."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypedDict

from holter.cli import options, output
from holter.cli.rule_selection import full_name

if TYPE_CHECKING:
    from rich.console import Console

    from holter.rules import Rule

_WIDTH = 80
_ORDER = ("training", "learning", "tensors", "data", "framework", "system", "reliability", "own")


class LastFired(TypedDict):
    """The last issue of a rule in a store."""

    job: str
    time: int
    """Nanoseconds since the epoch."""
    summary: str


def list_rules(words: list[str]) -> int:
    """Run `holter rules list`."""
    parser = options.Parser(
        "rules list",
        "List all rules.",
        "  holter rules list\n  holter rules list --pack essentials --json",
        "--json",
    )
    parser.add_argument("--pack", metavar="NAME", help="only the rules of this pack")
    given = parser.read(words)
    from holter.evaluation import packs
    from holter.rules import catalogue

    known = packs()
    if given.pack is not None:
        options.check_choice("pack", given.pack, known)
    rules = {
        name: rule for name, rule in catalogue().items() if given.pack is None or given.pack in rule.packs
    }
    if given.json:
        cards = [card(rule) for rule in rules.values()]
        output.write_json({"schema": 1, "packs": known, "rules": cards})
        return 0
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    out = _console()
    widest = max(map(len, rules))
    found = {rule.category() for rule in rules.values()}
    for category in dict.fromkeys([*filter(found.__contains__, _ORDER), *sorted(found)]):
        out.print(Text(f"{category or 'other'}", style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True, width=widest + 2)
        table.add_column(overflow="fold")
        for name, rule in rules.items():
            if rule.category() == category:
                table.add_row(f"{name} *" if "default" in rule.packs else name, rule.description)
        out.print(Padding(table, (0, 0, 1, 2)))
    out.print(
        Text(
            "* on by default. `holter run --rule NAME` adds a rule, --rule pack:NAME a pack. Packs: "
            + ", ".join(f"{name} ({len(rules_)})" for name, rules_ in known.items())
            + ". List one pack: holter rules list --pack NAME. Show one rule: holter rules show NAME"
        )
    )
    return 0


def show_rule(words: list[str]) -> int:
    """Run `holter rules show`."""
    parser = options.Parser(
        "rules show",
        "Show one rule: what it finds, its parameters, and when it last fired in a store.",
        "  holter rules show LowGPUUtilization",
        "--store",
        "--json",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the rule, in any spelling")
    given = parser.read(words)
    from holter.rules import find

    rule = find(full_name(given.name))
    fired = last_fired(rule.__name__, given.store)
    if given.json:
        output.write_json({"schema": 1, **card(rule), "last_fired": fired})
        return 0
    from rich.text import Text

    out = _console()
    on = "on by default" if "default" in rule.packs else f"off by default; on with --rule {rule.__name__}"
    lines = [
        rule.description,
        f"Fires when: {rule.formula}" if rule.formula else "",
        f"Advice: {rule.advice}" if rule.advice else "",
        f"Reads: {', '.join(rule.reads)}",
        f"Category: {rule.category()}; severity: {rule.severity}; {on}",
        f"Packs: {', '.join(rule.packs)}",
        f"Also called: {', '.join(rule.also_called)}" if rule.also_called else "",
        _fired_words(fired),
    ]
    parameters: list[str | Text] = []
    for parameter in rule.parameters():
        unit = f" {parameter.unit}" if parameter.unit else ""
        classic = "" if parameter.classic == parameter.modern else f"  (classic: {parameter.classic})"
        parameters.append(Text(f"{parameter.name} = {parameter.modern}{unit}{classic}", style="cyan"))
        also = f" Also called {', '.join(parameter.aliases)}." if parameter.aliases else ""
        parameters.append(f"    {parameter.meaning} Takes {parameter.valid}.{also}")
    output.write_sections(out, [(rule.__name__, filter(None, lines)), ("Parameters", parameters)])
    return 0


def card(rule: type[Rule]) -> dict[str, object]:
    """Return everything that a rule declares, as a JSON document."""
    return {
        "name": rule.__name__,
        "also_called": list(rule.also_called),
        "category": rule.category(),
        "severity": rule.severity,
        "default": "default" in rule.packs,
        "packs": list(rule.packs),
        "description": rule.description,
        "formula": rule.formula,
        "advice": rule.advice,
        "reads": list(rule.reads),
        "parameters": [
            {
                "name": p.name,
                "type": p.type,
                "default": p.modern,
                "classic": p.classic,
                "unit": p.unit,
                "valid": p.valid,
                "aliases": list(p.aliases),
                "meaning": p.meaning,
            }
            for p in rule.parameters()
        ],
    }


def last_fired(rule: str, store: str | None) -> LastFired | None:
    """Return the last issue of a rule in a store; None without an issue."""
    from holter.store.job import jobs, store_url

    try:
        known = jobs(store_url(store))
    except (OSError, ValueError):
        return None
    found: list[LastFired] = [
        {"job": job.name, "time": when, "summary": issue["summary"]}
        for job in known
        for entry in job.evaluations().get("rules") or ()
        if entry.get("rule") == rule
        for issue in entry.get("issues") or ()
        if (when := issue.get("last_found") or issue.get("time_end")) is not None
    ]
    return max(found, key=lambda one: one["time"], default=None)


def _fired_words(fired: LastFired | None) -> str:
    if fired is None:
        return "Last fired: never in this store"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fired["time"] / 1e9))
    return f"Last fired: {when} in {fired['job']}: {output.clean(fired['summary'])}"


def _console() -> Console:
    return output.console(sys.stdout, width=min(_WIDTH, output.columns(sys.stdout)))
