"""Which rules run with which parameters: from `NAME[:k=v,…]`, packs, and what a job's manifest holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holter.evaluation.status import RuleRun
from holter.rules import BadRule, Rule, catalogue, find
from holter.rules._files import split_reference
from holter.rules._parameters import nearest
from holter.rules._when import WHEN

PACK = "pack:"
Choice = str | Mapping[str, Any] | Rule
"""A rule as a user writes it, as a manifest holds it, or made already."""


def packs() -> dict[str, list[str]]:
    """Return the packs there are, each with its rules."""
    found: dict[str, list[str]] = {}
    for name, rule in catalogue().items():
        for pack in rule.packs:
            found.setdefault(pack, []).append(name)
    return dict(sorted(found.items()))


def choose(choices: Iterable[Choice] = (f"{PACK}default",), *, defaults: str = "modern") -> list[RuleRun]:
    """Make the rules that were chosen; a later choice of the same rule replaces an earlier one.

    Args:
        choices: `NAME`, `NAME:k=v,…`, `pack:NAME`, a mapping with `name` and optionally `rule`,
            `parameters`, `defaults`, or a rule.
        defaults: Profile for parameters that are not given: modern or classic.

    Raises:
        BadRule: An unknown rule, pack, parameter or profile, or a value out of range; names what is valid.
    """
    chosen: dict[str, RuleRun] = {}
    for choice in choices:
        for run in _runs(choice, defaults):
            chosen[run.name] = run
    return list(chosen.values())


def documents(runs: Iterable[RuleRun]) -> list[dict[str, Any]]:
    """Return rules as a job's manifest holds them; `choose` reads it."""
    return [
        {
            "name": run.name,
            "rule": type(run.rule).named(),
            "parameters": run.rule.values(),
            "defaults": run.defaults,
        }
        for run in runs
    ]


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:k=v,k=v` into the name and the parameters; a value in brackets may hold commas."""
    name, rest = _named(text)
    given: dict[str, str] = {}
    depth, piece = 0, ""
    for letter in [*rest, ","]:
        depth += (letter in "[(") - (letter in "])")
        if letter != "," or depth > 0:
            piece += letter
            continue
        if piece.strip():
            key, equals, value = piece.partition("=")
            if not equals or not key.strip():
                raise BadRule(
                    f"rule {name.strip()}: {piece.strip()!r} is no parameter; write NAME:key=value,key=value"
                )
            if key.strip() in given:
                raise BadRule(f"rule {name.strip()}: parameter {key.strip()!r} is given twice")
            given[key.strip()] = value.strip()
        piece = ""
    return name.strip(), given


def _named(text: str) -> tuple[str, str]:
    """Split a rule's name, which may be that of a file or an expression, from its parameters."""
    if text.startswith(WHEN):
        return text, ""
    if (reference := split_reference(text)) is not None:
        return reference
    name, _, rest = text.partition(":")
    return name, rest


def _runs(choice: Choice, defaults: str) -> list[RuleRun]:
    if isinstance(choice, Rule):
        return _with_others(RuleRun(type(choice).__name__, choice, defaults))
    if isinstance(choice, str):
        if choice.startswith(PACK):
            return _pack(choice.removeprefix(PACK), defaults)
        name, given = split(choice)
        own = given.pop("defaults", defaults)
        rule = find(name)
        return _with_others(RuleRun(rule.__name__, rule.of(given, defaults=own), own))
    rule = find(str(choice.get("rule") or choice.get("name")))
    given = choice.get("parameters") or {}
    own = choice.get("defaults") or defaults
    # A manifest holds every parameter; then no profile has a say.
    whole = set(given) == {p.name for p in rule.parameters()}
    made = rule(**given) if whole else rule.of(given, defaults=own)
    return _with_others(RuleRun(str(choice.get("name") or rule.__name__), made, own))


def _with_others(run: RuleRun) -> list[RuleRun]:
    """Return a rule and those that it brings along."""
    return [run, *(RuleRun(type(rule).__name__, rule, run.defaults) for rule in run.rule.brings())]


def _pack(name: str, defaults: str) -> list[RuleRun]:
    known = packs()
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near!r}? there are" if near else "there are"
        raise BadRule(f"no pack {name!r}; {hint}: {', '.join(known)}")
    chosen = [RuleRun(rule, find(rule).of(defaults=defaults), defaults) for rule in known[name]]
    return [run for one in chosen for run in _with_others(one)]
