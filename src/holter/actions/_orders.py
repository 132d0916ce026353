"""Orders: which action follows which issues, and how often; from the command line, TOML and manifests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holter.actions import Action, BadAction, Limits, Secrets, find
from holter.actions._grammar import split, upstream
from holter.parameters import nearest
from holter.schema.severity import SEVERITIES

LIMITS: Mapping[str, tuple[float, float]] = {
    "cooldown_s": (0.0, 30 * 86_400.0),
    "dedupe_s": (0.0, 30 * 86_400.0),
    "max_per_run": (1, 100_000),
    "retries": (0, 10),
}
"""The lowest and the highest value of each limit."""
SWITCHES = ("dry_run", "armed")
OPTIONS = ("on", "severity", *LIMITS, *SWITCHES)
"""Options that every action takes besides its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One action, with its rules, severity and limits."""

    name: str
    """Its name in results; unique in the job."""
    action: Action
    on: tuple[str, ...] = ()
    """Names of the rules; empty for all rules."""
    severity: str = "info"
    """The least severity it follows."""
    limits: Limits = field(default_factory=Limits)
    """How often it acts."""
    dry_run: bool = False
    """Whether it only reports what it would do."""

    def wants(self, rule: Mapping[str, Any], issue: Mapping[str, Any]) -> bool:
        """Return whether it follows an issue of a rule, both as `evaluations.json` holds them."""
        if self.on and not {rule["name"], rule.get("rule")} & set(self.on):
            return False
        # A rule of a user may use another word; its issues still deserve an action.
        severity = issue["severity"] if issue["severity"] in SEVERITIES else "critical"
        return SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)

    def document(self) -> dict[str, Any]:
        """Return it as a job's manifest holds it, without secrets; `choose` reads it."""
        return {
            "name": self.name,
            "action": self.action.name(),
            "options": self.action.values(),
            "on": list(self.on),
            "severity": self.severity,
            **{limit: getattr(self.limits, limit) for limit in LIMITS},
            "dry_run": self.dry_run,
        }


def choose(given: Iterable[str | Mapping[str, Any]], rules: Sequence[Mapping[str, Any]] = ()) -> list[Order]:
    """Make orders from all their spellings.

    Args:
        given: `NAME[:k=v,…]`, SageMaker's `action_json`, a TOML table with `on` and `do`, or a document of
            a manifest.
        rules: The rules of the job, each with `name` and `rule`.

    Raises:
        BadAction: An unknown action, option or rule, or a value out of range; names what is valid.
    """
    orders: list[Order] = []
    for one in given:
        for name, options, common, by_hand in _read(one):
            taken = [order.name for order in orders]
            orders.append(_order(name, options, common, rules, taken, by_hand=by_hand))
    return orders


def check(orders: Iterable[Order], secrets: Secrets) -> None:
    """Check orders before training starts; raises `BadAction` for one that cannot work."""
    for order in orders:
        order.action.check(secrets)


def _read(given: Any) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], bool]]:
    """Yield name, own options, common options, and whether it comes from the command line."""
    if isinstance(given, str):
        if given.lstrip().startswith(("[", "{")):
            for name, options in upstream(given):
                yield name, options, {}, True
            return
        name, options = split(given)
        yield name, options, {}, True
        return
    if "action" in given:  # a document of a manifest
        common = {key: given[key] for key in ("name", "on", "severity", *LIMITS, "dry_run") if key in given}
        yield given["action"], dict(given.get("options") or {}), common, True
        return
    common = {key: value for key, value in given.items() if key != "do"}
    for key in common:
        if key not in OPTIONS:
            near = nearest(key, [*OPTIONS, "do"])
            hint = f"did you mean {near!r}? " if near else ""
            raise BadAction(f"[[actions]] has no entry {key!r}; {hint}valid: {', '.join([*OPTIONS, 'do'])}")
    on = common.get("on")
    if isinstance(on, dict):
        for key in on:
            if key not in ("rule", "rules", "severity"):
                raise BadAction(f"[[actions]] on has no entry {key!r}; valid: rule, severity")
        common = {**common, "on": on.get("rule", on.get("rules", [])), **_some(severity=on.get("severity"))}
    if "do" not in given:
        raise BadAction(
            '[[actions]] has no `do`; write do = ["stop_training"] or do = [{email = {to = […]}}]'
        )
    done = given["do"] if isinstance(given["do"], list) else [given["do"]]
    for one in done:
        if isinstance(one, str):
            name, options = split(one)
            yield name, options, common, False
        elif isinstance(one, dict) and one and all(isinstance(o, dict) for o in one.values()):
            for name, options in one.items():
                yield name, dict(options), common, False
        else:
            raise BadAction(f"[[actions]] do: {one!r} is no action; write {{webhook = {{url_env = …}}}}")


def _order(
    name: str,
    options: dict[str, Any],
    common: Mapping[str, Any],
    rules: Sequence[Mapping[str, Any]],
    taken: Sequence[str],
    *,
    by_hand: bool,
) -> Order:
    if name == "notify":  # the channel is the action
        name = str(options.pop("channel", "email"))
    kind, preset = find(name)
    own = {**preset, **{key: value for key, value in options.items() if key not in OPTIONS}}
    both = {**common, **{key: value for key, value in options.items() if key in OPTIONS}}
    action = kind.of(own)
    values = {key: _number(kind.name(), key, both.get(key, getattr(kind.limits, key))) for key in LIMITS}
    armed = _switch(kind.name(), "armed", both.get("armed", by_hand))
    dry = _switch(kind.name(), "dry_run", both.get("dry_run", kind.needs_arming and not armed))
    return Order(
        name=str(both.get("name") or _free(kind.name(), taken)),
        action=action,
        on=tuple(_rule(kind.name(), one, rules) for one in _listed(both.get("on"))),
        severity=_severity(kind.name(), str(both.get("severity", "info"))),
        limits=Limits(
            cooldown_s=values["cooldown_s"],
            dedupe_s=values["dedupe_s"],
            max_per_run=int(values["max_per_run"]),
            retries=int(values["retries"]),
        ),
        dry_run=dry,
    )


def _rule(action: str, wanted: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the full name of a rule of the job."""
    known: dict[str, str] = {}
    for rule in rules:
        for name in (rule["name"], rule.get("rule")):
            if name:
                known.setdefault(_folded(str(name)), str(name))
    if (found := known.get(_folded(wanted))) is not None:
        return found
    from holter.rules import BadRule
    from holter.rules import find as find_rule

    valid = ", ".join(str(rule["name"]) for rule in rules) or "none"
    try:
        full = find_rule(wanted).__name__
    except BadRule as error:
        near = nearest(_folded(wanted), known)
        said = f"no rule {wanted!r}; did you mean {known[near]}?" if near else str(error)
        raise BadAction(f"action {action}: on={wanted}: {said}") from None
    if (found := known.get(_folded(full))) is not None:
        return found
    raise BadAction(f"action {action}: on={wanted}: this rule is off; running: {valid}")


def _severity(action: str, given: str) -> str:
    wanted = given.removeprefix(">=").strip().lower()
    wanted = {"warn": "warning"}.get(wanted, wanted)
    if wanted not in SEVERITIES:
        near = nearest(wanted, SEVERITIES)
        hint = f"did you mean {near!r}? " if near else ""
        raise BadAction(
            f"action {action}: severity={given!r} is not valid; {hint}there are: {', '.join(SEVERITIES)}"
        )
    return wanted


def _number(action: str, name: str, given: Any) -> float:
    low, high = LIMITS[name]
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = float("nan")
    whole = name in ("max_per_run", "retries")
    if isinstance(given, bool) or not low <= value <= high or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise BadAction(
            f"action {action}: {name}={given!r} is not valid; it takes {kind} from {low:g} to {high:g}"
        )
    return value


def _switch(action: str, name: str, given: Any) -> bool:
    value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
        str(given).lower()
    )
    if value is None:
        raise BadAction(f"action {action}: {name}={given!r} is not valid; it takes true or false")
    return value


def _listed(given: Any) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str):
        return [one.strip() for one in given.strip("[] ").replace("|", ",").split(",") if one.strip()]
    return [str(one) for one in given]


def _free(name: str, taken: Sequence[str]) -> str:
    return next(
        free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}-{n}") not in taken
    )


def _some(**given: Any) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def documents(orders: Iterable[Order]) -> list[dict[str, Any]]:
    """Return orders as a job's manifest holds them."""
    made = [order.document() for order in orders]
    json.dumps(made)  # options that JSON cannot hold are refused now, not later
    return made
