"""Rules from files of the user: a sandbox process imports the file and describes its rule to this process.

This process works with a class of the same name, parameters and declarations, which has no `evaluate`:
`SandboxedRule` evaluates the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Any

from holter.parameters import Parameter, checked, declared
from holter.rules.own import files
from holter.rules.rule import BadRule, Rule, line_of
from holter.rules.sandbox.executor import ProcessLimits, SandboxExecutor
from holter.rules.sandbox.source import RuleSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules.engine.lookback import Lookback

_LIMITS = ProcessLimits()
_COMPUTED = ("__post_init__", "lookback", "brings")
"""What a rule may work out from its parameters, by code of its own."""


@dataclass(frozen=True, slots=True)
class _Description:
    """The declarations of a rule in a file, as plain data."""

    name: str
    reference: str
    line: int
    text: str
    declarations: dict[str, Any]
    parameters: tuple[Parameter, ...]
    computes: bool


@dataclass(frozen=True, slots=True)
class _Made:
    """The results of a rule's own code for given parameters."""

    values: dict[str, Any]
    lookback: Lookback
    brings: tuple[RuleSource, ...]


_LOADED: dict[tuple[str, str], type[Rule]] = {}
"""File and name, which may be empty, to the class; a file is read once in the life of a process."""


def load(reference: str) -> type[Rule]:
    """Return a class that stands for the rule that `FILE.py[:NAME]` names; this process imports no file.

    Raises:
        BadRule: The file cannot be imported, or it does not hold the rule; names the file and the line.
    """
    _, path, name = files.located(reference)
    if (path, name) not in _LOADED:
        made = _stand_in(_ask(reference, _describe, reference))
        _LOADED[path, name] = _LOADED.setdefault((path, made.__name__), made)
    return _LOADED[path, name]


def _stand_in(found: _Description) -> type[Rule]:
    def finish(self: Any) -> None:
        Rule.__post_init__(self)
        if found.computes:
            made: _Made = _ask(found.reference, _make, found.reference, self.values())
            for name, value in made.values.items():
                object.__setattr__(self, name, checked(type(self), name, value))
            object.__setattr__(self, "_made", made)

    def lookback(self: Any) -> Lookback:
        made: _Made | None = getattr(self, "_made", None)
        return Rule.lookback.fget(self) if made is None else made.lookback  # type: ignore[attr-defined]

    def brings(self: Any) -> tuple[Rule, ...]:
        made: _Made | None = getattr(self, "_made", None)
        return () if made is None else tuple(one.made(load) for one in made.brings)

    return make_dataclass(
        found.name,
        [(one.name, one.type, one.as_field()) for one in found.parameters],
        bases=(Rule,),
        namespace={
            **found.declarations,
            "__doc__": found.text,
            "__module__": __name__,
            "__post_init__": finish,
            "reference": found.reference,
            "line": found.line,
            "lookback": property(lookback),
            "brings": brings,
        },
        frozen=True,
        kw_only=True,
    )


def _ask(reference: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a new sandbox process and return its answer."""
    executor = SandboxExecutor(_LIMITS)
    allowed = _LIMITS.start_s + _LIMITS.hard_s
    try:
        refusal, answer = executor.submit(function, *args).result(timeout=allowed)
    except TimeoutError:
        raise BadRule(f"{reference}: importing the file took longer than {allowed:g} s") from None
    except RuntimeError as error:  # the process ended, or the rule's own code raised
        raise BadRule(f"{reference}: {error}") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
    if refusal:
        raise BadRule(refusal)
    return answer


# The functions that the sandbox process calls.


def _describe(reference: str) -> tuple[str, _Description | None]:
    try:
        rule: Any = files.load(reference)
    except BadRule as error:
        return str(error), None
    return "", _Description(
        name=rule.__name__,
        reference=rule.reference,
        line=line_of(rule),
        text=rule.__doc__ or "",
        declarations={name: getattr(rule, name) for name in Rule.__annotations__},
        parameters=declared(rule),
        computes=any(getattr(rule, name) is not getattr(Rule, name) for name in _COMPUTED),
    )


def _make(reference: str, values: dict[str, Any]) -> tuple[str, _Made | None]:
    rule = files.load(reference)
    file = reference.rpartition(":")[0]
    try:
        made = rule(**values)
        brought = []
        for one in made.brings():
            same_file = type(one).__module__ == rule.__module__
            brought.append(RuleSource.of(one, f"{file}:{type(one).__name__}" if same_file else ""))
    except BadRule as error:
        return str(error), None
    return "", _Made(made.values(), made.lookback, tuple(brought))
