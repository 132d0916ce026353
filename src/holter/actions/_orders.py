"""Orders: which action follows which issues, and how often; from the command line, TOML and manifests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.actions import Action, BadAction, Limits, Secrets, find
from holter.actions._grammar import folded, split, upstream
from holter.parameters import BadParameter, checked, nearest, parameter, suggestion
from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from holter.store.documents import Document

ActionChoice = str | Mapping[str, Any]
"""An action as a user writes it, as a TOML table, or as a manifest holds it."""

LIMITS = tuple(limit.name for limit in fields(Limits))


@dataclass(frozen=True, slots=True)
class _Switches:
    """Whether an order only reports what it would do."""

    dry_run: bool = parameter(False)
    armed: bool = parameter(False)


OPTIONS = ("on", "severity", *LIMITS, "dry_run", "armed")
"""Options that every action takes besides its own."""


class _Entry(NamedTuple):
    """One action of an order, as it was written."""

    name: str
    options: dict[str, Any]
    common: dict[str, Any]
    """The options that stand outside of the action."""
    armed: bool
    """Whether the user has typed it, so that it needs no further permission to act."""


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

    def wants(self, rule: Document, issue: Document) -> bool:
        """Return whether it follows an issue of a rule, both as `evaluations.json` holds them."""
        if self.on and not {rule["name"], rule.get("rule")} & set(self.on):
            return False
        # A rule of a user may use another word; its issues still deserve an action.
        severity = issue["severity"] if issue["severity"] in SEVERITIES else "critical"
        return SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)

    def document(self) -> Document:
        """Return it as a job's manifest holds it, without secrets; `choose` reads it."""
        return {
            "name": self.name,
            "action": self.action.name(),
            "options": self.action.values(),
            "on": list(self.on),
            "severity": self.severity,
            **asdict(self.limits),
            "dry_run": self.dry_run,
        }


def choose(given: Iterable[ActionChoice], rules: Sequence[Document] = ()) -> list[Order]:
    """Make orders from all their spellings.

    Args:
        given: `NAME[:k=v,…]`, SageMaker's `action_json`, a TOML table with `on` and `do`, or a document of
            a manifest.
        rules: The rules of the job, each with `name` and `rule`.

    Raises:
        BadAction: An unknown action, option or rule, or a value out of range; names what is valid.
    """
    orders: list[Order] = []
    for entry in itertools.chain.from_iterable(map(_read, given)):
        orders.append(_order(entry, rules, {order.name for order in orders}))
    return orders


def check(orders: Iterable[Order], secrets: Secrets) -> None:
    """Check orders before training starts; raises `BadAction` for one that cannot work."""
    for order in orders:
        order.action.check(secrets)


def _read(given: ActionChoice) -> Iterator[_Entry]:
    if isinstance(given, str):
        upstream_list = given.lstrip().startswith(("[", "{"))
        for name, options in upstream(given) if upstream_list else [split(given)]:
            yield _Entry(name, dict(options), {}, armed=True)
        return
    if "action" in given:  # a document of a manifest
        common = {key: given[key] for key in ("name", "on", "severity", *LIMITS, "dry_run") if key in given}
        yield _Entry(given["action"], dict(given.get("options") or {}), common, armed=True)
        return
    common = {key: value for key, value in given.items() if key != "do"}
    for key in common:
        if key not in OPTIONS:
            hint = suggestion(key, [*OPTIONS, "do"])
            raise BadAction(f"[[actions]] has no entry {key!r}; {hint}valid: {', '.join([*OPTIONS, 'do'])}")
    if isinstance(on := common.get("on"), dict):
        for key in on:
            if key not in ("rule", "rules", "severity"):
                raise BadAction(f"[[actions]] on has no entry {key!r}; valid: rule, severity")
        common["on"] = on.get("rule", on.get("rules", []))
        if on.get("severity") is not None:
            common["severity"] = on["severity"]
    if "do" not in given:
        raise BadAction(
            '[[actions]] has no `do`; write do = ["stop_training"] or do = [{email = {to = […]}}]'
        )
    for one in given["do"] if isinstance(given["do"], list) else [given["do"]]:
        if isinstance(one, str):
            name, written = split(one)
            yield _Entry(name, dict(written), common, armed=False)
        elif isinstance(one, dict) and one and all(isinstance(o, dict) for o in one.values()):
            for name, table in one.items():
                yield _Entry(name, dict(table), common, armed=False)
        else:
            raise BadAction(f"[[actions]] do: {one!r} is no action; write {{webhook = {{url_env = …}}}}")


def _order(entry: _Entry, rules: Sequence[Document], taken: Collection[str]) -> Order:
    name, options, common, armed = entry
    if name == "notify":  # the channel is the action
        name = str(options.pop("channel", "email"))
    kind, preset = find(name)
    name = kind.name()
    common = {**common, **{key: value for key, value in options.items() if key in OPTIONS}}
    action = kind.of({**preset, **{key: value for key, value in options.items() if key not in OPTIONS}})

    def option(owner: type, key: str, default: object) -> Any:
        try:
            return checked(owner, key, common.get(key, default))
        except BadParameter as error:
            raise BadAction(f"action {name}: {error}") from None

    limits = {key: option(Limits, key, getattr(kind.limits, key)) for key in LIMITS}
    armed = option(_Switches, "armed", armed)
    names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
    return Order(
        name=str(common.get("name") or next(free for free in names if free not in taken)),
        action=action,
        on=tuple(_rule(name, one, rules) for one in _listed(common.get("on"))),
        severity=_severity(name, str(common.get("severity", "info"))),
        limits=Limits(**limits),
        dry_run=option(_Switches, "dry_run", kind.needs_arming and not armed),
    )


def _rule(action: str, wanted: str, rules: Sequence[Document]) -> str:
    """Return the full name of a rule of the job."""
    known: dict[str, str] = {}
    for rule in rules:
        for name in (rule["name"], rule.get("rule")):
            if name:
                known.setdefault(folded(str(name)), str(name))
    if (found := known.get(folded(wanted))) is not None:
        return found
    from holter.rules import BadRule
    from holter.rules import find as find_rule

    valid = ", ".join(str(rule["name"]) for rule in rules) or "none"
    try:
        full = find_rule(wanted).__name__
    except BadRule as error:
        near = nearest(folded(wanted), known)
        reason = f"no rule {wanted!r}; did you mean {known[near]}?" if near else str(error)
        raise BadAction(f"action {action}: on={wanted}: {reason}") from None
    if (found := known.get(folded(full))) is not None:
        return found
    raise BadAction(f"action {action}: on={wanted}: this rule is off; running: {valid}")


def _severity(action: str, given: str) -> str:
    wanted = given.removeprefix(">=").strip().lower()
    wanted = {"warn": "warning"}.get(wanted, wanted)
    if wanted not in SEVERITIES:
        hint = suggestion(wanted, SEVERITIES)
        raise BadAction(
            f"action {action}: severity={given!r} is not valid; {hint}there are: {', '.join(SEVERITIES)}"
        )
    return wanted


def _listed(given: Any) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str):
        return [one.strip() for one in given.strip("[] ").replace("|", ",").split(",") if one.strip()]
    return [str(one) for one in given]


def documents(orders: Iterable[Order]) -> list[Document]:
    """Return orders as a job's manifest holds them."""
    made = [order.document() for order in orders]
    json.dumps(made)  # options that JSON cannot hold are refused now, not later
    return made
