"""The contract of rules: `Rule` judges a `Window` of tables and yields each problem as an `Issue`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from holter.parameters import BadParameter, Parameter, checked, declared, plain, resolved
from holter.rules.engine.lookback import Lookback
from holter.schema.severity import Severity  # noqa: TC001 - `get_type_hints` looks it up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.rules.engine.window import Window

R = TypeVar("R")
PACKAGE = __name__.rpartition(".")[0]
CATEGORIES = ("system", "framework", "training", "learning", "tensors", "data", "reliability")
"""The folders that hold rules, in the order in which they are listed."""


class BadRule(BadParameter):
    """An unknown rule or parameter, or a value that is not valid; the text names what is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One problem that a rule found. The evaluation merges issues of one rule that have the same `key`."""

    rule: str
    summary: str
    severity: Severity
    code: str = ""
    """The kind of problem, for rules that find several kinds."""
    node: str | None = None
    rank: int | None = None
    device: str | None = None
    tensor: str | None = None
    step_start: int | None = None
    step_end: int | None = None
    time_start: int | None = None
    time_end: int | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)
    """The numbers behind it, as JSON can hold them; their names contain the units."""
    advice: str = ""
    count: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of the problem: two findings with the same key are one issue."""
        return (self.rule, self.code, self.node, self.rank, self.device, self.tensor)


Issues = Iterator[Issue]
"""What `evaluate` returns."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def rule_class(cls: type[R]) -> type[R]:
    """Decorate a class of rules: a frozen dataclass, whose fields are its parameters."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@rule_class
class Rule:
    """The base class of rules. Its fields are its parameters; it uses no file, clock or device."""

    reads: ClassVar[tuple[str, ...]] = ()
    """The tables it needs, narrowed where possible: `steps`, `samples/gpu.util`, `spans/fetch`."""
    severity: ClassVar[Severity] = "warning"
    """The usual severity of its issues."""
    description: ClassVar[str] = ""
    """What it finds, in one sentence; by default the text of a module's docstring `MyRule: text.`"""
    advice: ClassVar[str] = ""
    """What to do about it, in one sentence."""
    formula: ClassVar[str] = ""
    """The condition under which it reports an issue."""
    packs: ClassVar[tuple[str, ...]] = ()
    """The sets of rules it belongs to; `holter run` starts with the pack `default`."""
    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names under which `find` returns it."""
    every_s: ClassVar[float] = 10.0
    """The least seconds of data between two evaluations."""
    consecutive: ClassVar[int] = 1
    """In how many evaluations in a row a finding must hold before it becomes an issue."""
    tells_once: ClassVar[bool | tuple[str, ...]] = False
    """Whether it reports a lasting problem only once, so that an evaluation without it does not resolve the
    issue; or the codes of the issues that behave so."""

    def __init_subclass__(cls) -> None:
        name, _, text = (getattr(sys.modules.get(cls.__module__), "__doc__", "") or "").partition(": ")
        if name == cls.__name__ and "description" not in vars(cls):
            cls.description = text.partition("\n")[0].removesuffix(".")

    def __post_init__(self) -> None:
        for given in fields(self):
            try:
                value = checked(type(self), given.name, getattr(self, given.name))
            except BadParameter as error:
                raise BadRule(f"{type(self).__name__}{place_of(type(self))}: {error}") from None
            object.__setattr__(self, given.name, value)

    @property
    def lookback(self) -> Lookback:
        """How far back its windows reach; by default they hold new rows only, and `window.state` the rest.

        A subclass may also assign it: `lookback = Lookback(steps=200)`.
        """
        return Lookback()

    def brings(self) -> tuple[Rule, ...]:
        """Return the rules that run along with it."""
        return ()

    def evaluate(self, window: Window) -> Issues:
        """Judge a window and yield the issues in it.

        A rule that cannot judge the window calls `window.insufficient(...)` and yields nothing. It may keep
        JSON values in `window.state` and publish statistics in `window.details`.
        """
        raise NotImplementedError

    def issue(self, summary: str, **about: Any) -> Issue:
        """Make an issue of this rule, with its usual severity and advice where none are given."""
        return Issue(
            rule=type(self).__name__,
            summary=summary,
            **{"severity": self.severity, "advice": self.advice, **about},
        )

    @classmethod
    def of(cls, given: Mapping[str, object] | None = None, *, defaults: str = "modern") -> Rule:
        """Make the rule from parameters as a user writes them: strings, aliases; the rest by profile.

        Raises:
            BadRule: An unknown parameter or profile, or a value out of range; names what is valid.
        """
        return cls(**cls.resolved(given or {}, defaults))

    @classmethod
    def resolved(cls, given: Mapping[str, object], defaults: str) -> dict[str, Any]:
        """Return the values of all parameters: the given ones under any name, the others by profile."""
        owner: Any = cls
        try:
            return resolved(owner, given, defaults, f"rule {cls.__name__}{place_of(cls)}")
        except BadParameter as error:
            raise BadRule(str(error)) from None

    @classmethod
    def named(cls) -> str:
        """Return the name by which `find` returns it in any process: its name, or its file and name."""
        return str(getattr(cls, "reference", cls.__name__))

    @classmethod
    def category(cls) -> str:
        """Return the folder that holds the rule; `own` for a rule of a user or of another package."""
        package, _, folder = cls.__module__.rpartition(".")[0].rpartition(".")
        return folder if package == PACKAGE and folder in CATEGORIES else "own"

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the declared parameters in their order."""
        rule: Any = cls
        return declared(rule)

    def values(self) -> dict[str, Any]:
        """Return every parameter's value, as JSON can hold it."""
        return {given.name: plain(getattr(self, given.name)) for given in fields(self)}


def line_of(rule: Any) -> int:
    """Return the line at which a rule begins in its file; 1 where the source is not known."""
    if (line := getattr(rule, "line", None)) is not None:
        return int(line)
    try:
        return inspect.getsourcelines(getattr(rule, "made_of", rule))[1]
    except (OSError, TypeError):
        return 1


def place_of(rule: Any) -> str:
    """Return ` (FILE:LINE)` for a rule from a file of the user, and an empty text for any other."""
    reference = getattr(rule, "reference", "")
    return f" ({reference.rpartition(':')[0]}:{line_of(rule)})" if reference else ""
