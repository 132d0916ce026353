"""Judge a job: one rule, one file; its contract is `Rule.evaluate`, from a window of tables to issues.

To add a rule, add a file `my_rule.py` to the folder of its category, with one frozen dataclass
`MyRule(Rule)`: parameters made by `parameter`, each followed by its sentence, what it `reads`, its card, and
`evaluate`. The folders are the registry; installed packages add theirs under the entry point `holter.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holter.parameters import (
    BadRule,
    Parameter,
    checked,
    declared,
    nearest,
    parameter,
    plain,
    resolved,
)
from holter.plugins import external, modules
from holter.rules.engine.coverage import Coverage, Reason
from holter.rules.engine.job import Job
from holter.rules.engine.lookback import Lookback, Series
from holter.rules.engine.replay import check_rule
from holter.rules.engine.window import Window
from holter.rules.own.files import LOADED, load, split_reference
from holter.rules.own.function import rule
from holter.rules.own.step import Step
from holter.rules.own.when import WHEN, expression

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

__all__ = [
    "BadRule",
    "Coverage",
    "Issue",
    "Job",
    "Lookback",
    "Parameter",
    "Reason",
    "Rule",
    "Series",
    "Severity",
    "Step",
    "Window",
    "catalogue",
    "check_rule",
    "find",
    "parameter",
    "rule",
]

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
CATEGORIES = ("system", "framework", "training", "tensors", "data", "reliability")
"""The folders that hold rules, in the order in which they are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One finding. Repeats of one rule with the same `key` are merged by whoever evaluates."""

    rule: str
    summary: str
    severity: Severity
    code: str = ""
    """Which of the things the rule can find, where it can find several."""
    node: str | None = None
    rank: int | None = None
    device: str | None = None
    tensor: str | None = None
    step_start: int | None = None
    step_end: int | None = None
    time_start: int | None = None
    time_end: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind it, as JSON can hold them; units are in the names."""
    advice: str = ""
    count: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is about: two findings with the same key are one issue."""
        return (self.rule, self.code, self.node, self.rank, self.device, self.tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What every rule declares. It is its parameters; it touches no file, clock, or device."""

    reads: ClassVar[tuple[str, ...]] = ()
    """The tables it needs, narrowed where it can be: `steps`, `samples/gpu.util`, `spans/fetch`."""
    severity: ClassVar[Severity] = "warning"
    """How bad it usually is."""
    description: ClassVar[str] = ""
    """What it finds, in one sentence."""
    advice: ClassVar[str] = ""
    """What to do about it, in one sentence."""
    formula: ClassVar[str] = ""
    """When it fires."""
    packs: ClassVar[tuple[str, ...]] = ()
    """Sets of rules it belongs to; `default` is what `holter run` starts with."""
    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names under which it is found."""
    every_s: ClassVar[float] = 10.0
    """How many seconds of data at least lie between two evaluations."""
    consecutive: ClassVar[int] = 1
    """At how many evaluations in a row a finding must hold before it is reported."""
    tells_once: ClassVar[bool | tuple[str, ...]] = False
    """Whether it tells a thing once and is silent while it lasts, so that silence resolves no issue; or the
    codes of the issues that it tells so."""

    def __post_init__(self) -> None:
        for given in fields(self):
            object.__setattr__(self, given.name, checked(type(self), given.name, getattr(self, given.name)))

    @property
    def lookback(self) -> Lookback:
        """How far back the window reaches; by default it holds new rows only, and `window.state` the rest."""
        return Lookback()

    def brings(self) -> tuple[Rule, ...]:
        """Return rules that run along with it."""
        return ()

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge a window; yield what is wrong.

        Where it cannot judge it calls `window.insufficient(...)` and yields nothing. It may keep what JSON
        can hold in `window.state` and hand over statistics in `window.details`.
        """
        raise NotImplementedError

    def issue(self, summary: str, **about: Any) -> Issue:
        """Make an issue of this rule, with its usual severity and advice where none are given."""
        given: dict[str, Any] = {"severity": self.severity, "advice": self.advice, **about}
        return Issue(rule=type(self).__name__, summary=summary, **given)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None = None, *, defaults: str = "modern") -> Rule:
        """Make the rule from parameters as a user writes them: strings, aliases; the rest by profile.

        Raises:
            BadRule: An unknown parameter or profile, or a value out of range; names what is valid.
        """
        return cls(**resolved(cls, given or {}, defaults))

    @classmethod
    def named(cls) -> str:
        """Return what `find` finds it by, in any process: its name, or where it comes from."""
        return str(getattr(cls, "reference", cls.__name__))

    @classmethod
    def category(cls) -> str:
        """Return the folder that holds the rule; `own` for a rule of a user or of another package."""
        package, _, folder = cls.__module__.rpartition(".")[0].rpartition(".")
        return folder if package == __name__ and folder in CATEGORIES else "own"

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the declared parameters in their order."""
        rule: Any = cls
        return declared(rule)

    def values(self) -> dict[str, Any]:
        """Return every parameter's value, as JSON can hold it."""
        return {given.name: plain(getattr(self, given.name)) for given in fields(self)}


@cache
def catalogue() -> dict[str, type[Rule]]:
    """Return every rule there is by its name, sorted; ours first, then those of installed packages.

    Raises:
        BadRule: A module of the shelf without a rule, or a stranger that is no rule.
    """
    found: dict[str, type[Rule]] = {}
    for name, module in modules(__name__, *CATEGORIES).items():
        rules = [v for v in vars(module).values() if _is_rule(v) and v.__module__ == module.__name__]
        if len(rules) != 1 or _folded(rules[0].__name__) != _folded(name):
            raise BadRule(f"{module.__name__} must hold one rule, called as the file is")
        found[rules[0].__name__] = rules[0]
    for name, value in external(__name__).items():
        if not _is_rule(value):
            raise BadRule(f"plug-in {name!r} of {__name__} is no rule: {value!r}")
        found.setdefault(value.__name__, value)
    return dict(sorted(found.items()))


def find(name: str, *, files: Container[str] | None = None) -> type[Rule]:
    """Return the rule called `name`, in any case and with or without underscores.

    `FILE.py[:NAME]` is the rule of a file, `when:EXPRESSION` the one that an expression makes.

    Args:
        name: The rule.
        files: The rules of files that may be imported, as `Rule.named` names them; by default any.

    Raises:
        BadRule: There is none; names the nearest. Or a file that may not be imported.
    """
    if name.startswith(WHEN):
        return expression(name.removeprefix(WHEN).strip())
    rules = catalogue()
    known = {_folded(n): one for n, one in rules.items()}
    for one in rules.values():
        for other in one.also_called:
            known.setdefault(_folded(other), one)
    if split_reference(name) is not None:
        if files is not None and name not in files:
            raise BadRule(f"rule {name}: rules of files are run only where the command line names them")
        own = load(name, Rule)
        if _folded(own.__name__) in known:
            raise BadRule(
                f"{name}: there is a rule {known[_folded(own.__name__)].__name__} already; rename it"
            )
        LOADED[own.__name__] = own
        return own
    known = {_folded(n): one for n, one in LOADED.items()} | known
    if (found := known.get(_folded(name))) is not None:
        return found
    near = nearest(_folded(name), known)
    hint = f"did you mean {known[near].__name__}?" if near else f"there are {len(rules)}: holter rules list"
    raise BadRule(f"no rule {name!r}; {hint}")


def _is_rule(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Rule) and value is not Rule


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def __getattr__(name: str) -> Any:
    """Give `holter.rules.LowGPUUtilization` and its like, without importing all rules at the start.

    `run(job, rules)` judges a job. It is the only name that comes from a package above this one.
    """
    if name == "run":
        from holter.job import run_rules

        return run_rules
    if name == "rule_configs":
        from holter.rules.engine.configs import RuleConfigs

        return RuleConfigs()
    if not name.startswith("_") and name[:1].isupper() and name in catalogue():
        return catalogue()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
