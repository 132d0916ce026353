"""Chooses rules and their parameters: from `NAME[:k=v,…]`, packs, and the documents in a job's manifest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.evaluation.status import RuleRun
from holter.parameters import BadParameter, checked, parameter, split_options, suggestion
from holter.rules import BadRule, Rule, catalogue, find
from holter.rules.own.files import split_reference
from holter.rules.own.when import WHEN

if TYPE_CHECKING:
    from holter.store.documents import Document

PACK = "pack:"
Choice = str | Mapping[str, Any] | Rule
"""A rule as a user writes it, as a manifest holds it, or as an object."""


@dataclass
class _RunOptions:
    """Options of every rule besides its own parameters."""

    on_first_fire: str = parameter("go_on", choices=("go_on", "stop"))
    strict_coverage: bool = parameter(False)


def packs() -> dict[str, list[str]]:
    """Return all packs, each with its rules."""
    found: dict[str, list[str]] = {}
    for name, rule in catalogue().items():
        for pack in rule.packs:
            found.setdefault(pack, []).append(name)
    return dict(sorted(found.items()))


def choose(
    choices: Iterable[Choice] = (f"{PACK}default",),
    *,
    defaults: str = "modern",
    files: Container[str] | None = None,
) -> list[RuleRun]:
    """Make the chosen rules.

    A rule that is chosen by name replaces the same rule from a pack; chosen again with other parameters it
    runs a second time, as `NAME-2`.

    Args:
        choices: `NAME`, `NAME:k=v,…`, `pack:NAME`, a mapping with `name` and optionally `rule`,
            `parameters`, `defaults`, or a rule.
        defaults: Profile for parameters that are not given: modern or classic.
        files: The rules of files that may be loaded, as documents name them; by default any.

    Raises:
        BadRule: An unknown rule, pack, parameter or profile, or a value out of range; names what is valid.
    """
    chosen: dict[str, RuleRun] = {}
    replaceable: set[str] = set()
    for choice in choices:
        from_pack = isinstance(choice, str) and choice.startswith(PACK)
        runs = [(run, from_pack) for run in _runs(choice, defaults, files)]
        brought = [(other, True) for run, _ in runs for other in _brought(run)]
        for run, unasked in runs + brought:
            name = run.name
            if unasked:
                if name in chosen:
                    continue  # asked for by name, by another pack, or by another rule
                replaceable.add(name)
            elif name in replaceable:
                replaceable.discard(name)
            elif name in chosen:
                if chosen[name].rule == run.rule:
                    continue
                number = next(n for n in itertools.count(2) if f"{name}-{n}" not in chosen)
                run.name = f"{name}-{number}"
            chosen[run.name] = run
    return list(chosen.values())


def _brought(run: RuleRun) -> list[RuleRun]:
    """Return the additional rules that a rule brings."""
    return [RuleRun(type(rule).__name__, rule, run.defaults) for rule in run.rule.brings()]


def documents(runs: Iterable[RuleRun]) -> list[Document]:
    """Return rules as a job's manifest holds them; `choose` reads it."""
    return [
        {
            "name": run.name,
            "rule": type(run.rule).named(),
            "parameters": run.rule.values(),
            "defaults": run.defaults,
            **({"on_first_fire": run.on_first_fire} if run.on_first_fire != "go_on" else {}),
            **({"strict_coverage": True} if run.strict_coverage else {}),
        }
        for run in runs
    ]


def stored(rules: Any, own: Sequence[Document] = ()) -> tuple[list[RuleRun], list[str]]:
    """Make the rules in a manifest. A store to which others can write must not run code.

    So only rules of the catalogue and expressions are made, and rules of files that this command line names.

    Args:
        rules: The entry `rules` of the manifest.
        own: The rules that this command line names, as `documents` returns them.

    Returns:
        The rules, and a sentence for each rule that is left out.

    Raises:
        BadRule: An unknown rule or parameter, or a value out of range.
    """
    mine = {str(rule.get("rule")) for rule in own}
    kept: list[Document] = []
    left_out: list[str] = []
    for rule in rules if isinstance(rules, list) else ():
        if not isinstance(rule, dict) or not isinstance(rule.get("parameters") or {}, dict):
            left_out.append(f"{rule!r} in the manifest of this job is no rule")
            continue
        reference = str(rule.get("rule") or rule.get("name"))
        if reference not in mine and (found := split_reference(reference)) is not None:
            name = found[0]
            file = name if name.endswith(".py") else name.rpartition(":")[0]
            left_out.append(
                f"rule {rule.get('name') or name} of this job is defined in {file}; "
                f"name it with --rule {name} to run it"
            )
            continue
        kept.append(rule)
    return choose(kept, files=mine), left_out


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:k=v,k=v` into the name and the parameters; a value in brackets may hold commas."""
    name, rest = _named(text)
    return name.strip(), split_options(rest, f"rule {name.strip()}", "parameter", BadRule)


def _named(text: str) -> tuple[str, str]:
    """Split the name of a rule, a file or an expression from the parameters."""
    if text.startswith(WHEN):
        return text, ""
    if (reference := split_reference(text)) is not None:
        return reference
    name, _, rest = text.partition(":")
    return name, rest


def _runs(choice: Choice, defaults: str, files: Container[str] | None) -> list[RuleRun]:
    if isinstance(choice, Rule):
        return [RuleRun(type(choice).__name__, choice, defaults)]
    if isinstance(choice, str):
        if choice.startswith(PACK):
            return _pack(choice.removeprefix(PACK), defaults)
        name, given = split(choice)
        choice = {"rule": name, "parameters": given}
    given = dict(choice.get("parameters") or {})
    rule = find(str(choice.get("rule") or choice.get("name")), files=files)
    options = {
        key: given.pop(key, choice.get(key)) for key in ("defaults", "on_first_fire", "strict_coverage")
    }
    own = str(options.pop("defaults") or defaults)
    # A manifest holds every parameter; then the profile has no effect.
    whole = set(given) == {field.name for field in dataclasses.fields(rule)}
    made = rule(**given) if whole else rule.of(given, defaults=own)
    run = RuleRun(str(choice.get("name") or rule.__name__), made, own)
    for name, value in options.items():
        if value is not None:
            try:
                setattr(run, name, checked(_RunOptions, name, value))
            except BadParameter as error:
                raise BadRule(f"{run.name}: {error}") from None
    return [run]


def _pack(name: str, defaults: str) -> list[RuleRun]:
    known = packs()
    if name not in known:
        raise BadRule(f"no pack {name!r}; {suggestion(name, known)}there are: {', '.join(known)}")
    return [RuleRun(rule, find(rule).of(defaults=defaults), defaults) for rule in known[name]]
