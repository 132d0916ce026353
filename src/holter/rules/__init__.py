"""The rules that judge a job, and their registry.

Each rule is one file. To add a rule, add a file `my_rule.py` to the folder of its category, with one class
`MyRule(Rule)` under `@rule_class`: parameters made by `parameter`, each followed by its sentence, the tables
that it `reads`, its formula, and `evaluate`. The module's docstring describes it: `MyRule: what it finds.`
The folders are the registry; installed packages add their rules under the entry point `holter.rules`. The
contract is in `holter.rules.rule`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from holter.parameters import Parameter, nearest, parameter
from holter.plugins import external, modules
from holter.rules.engine.check_rule import check_rule
from holter.rules.engine.coverage import Coverage, Reason
from holter.rules.engine.job_facts import JobFacts
from holter.rules.engine.lookback import Lookback, Place, SampleSeries
from holter.rules.engine.table_json import State
from holter.rules.engine.window import Window
from holter.rules.own.files import split_reference
from holter.rules.own.function import rule
from holter.rules.own.step import Step
from holter.rules.own.when import WHEN, expression
from holter.rules.rule import CATEGORIES, BadRule, Issue, Issues, Rule, rule_class
from holter.rules.sandbox.file_rule import load
from holter.schema.severity import SEVERITIES, Severity
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Container

__all__ = [
    "CATEGORIES",
    "SEVERITIES",
    "BadRule",
    "Coverage",
    "Issue",
    "Issues",
    "Job",
    "JobFacts",
    "Lookback",
    "Parameter",
    "Place",
    "Reason",
    "Rule",
    "SampleSeries",
    "Series",
    "Severity",
    "State",
    "Step",
    "Table",
    "Window",
    "catalogue",
    "check_rule",
    "find",
    "parameter",
    "rule",
    "rule_class",
]

Job = JobFacts
Series = SampleSeries
"""These are the short names for rules that users write."""


LOADED: dict[str, type[Rule]] = {}
"""Rules of files by name, so that the rest of a command line can use the short name."""


@cache
def catalogue() -> dict[str, type[Rule]]:
    """Return all rules by name, sorted: those of this package, then those of installed packages.

    Raises:
        BadRule: A module in a folder of rules without a rule, or a plug-in that is not a rule.
    """
    found: dict[str, type[Rule]] = {}
    for name, module in modules(__name__, *CATEGORIES).items():
        rules = [v for v in vars(module).values() if _is_rule(v) and v.__module__ == module.__name__]
        if len(rules) != 1 or _folded(rules[0].__name__) != _folded(name):
            raise BadRule(f"{module.__name__} must hold one rule with the name of the file")
        found[rules[0].__name__] = rules[0]
    for name, value in external(__name__).items():
        if not _is_rule(value):
            raise BadRule(f"plug-in {name!r} of {__name__} is not a rule: {value!r}")
        found.setdefault(value.__name__, value)
    return dict(sorted(found.items()))


def find(name: str, *, files: Container[str] | None = None) -> type[Rule]:
    """Return the rule called `name`, in any case and with or without underscores.

    `FILE.py[:NAME]` names a rule in a file, `when:EXPRESSION` the rule of an expression.

    Args:
        name: The rule.
        files: The rules of files that may be loaded, as `Rule.named` names them; by default any.

    Raises:
        BadRule: An unknown name, with the nearest known one; or a file that may not be loaded.
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
        own = load(name)
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


class RuleConfigs:
    """A factory for each rule: `rule_configs.low_gpu_utilization(threshold="70")`, or with the class's name.

    Parameters may be strings and go by any of their names; `defaults="classic"` chooses the profile of those
    that are not given.
    """

    def __getattr__(self, name: str) -> Callable[..., Rule]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            found = find(name)
        except ValueError as error:
            raise AttributeError(str(error)) from None

        def make(*, defaults: str = "modern", **parameters: Any) -> Rule:
            return found.of(parameters, defaults=defaults)

        make.__name__ = name
        make.__doc__ = f"Make the rule {found.__name__}: {found.description}."
        return make

    def __dir__(self) -> list[str]:
        return sorted({spelling for name in catalogue() for spelling in (name, snake(name))})


def snake(name: str) -> str:
    """Return a rule's name with underscores, as in `low_gpu_utilization`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def __getattr__(name: str) -> Any:
    """Import `holter.rules.LowGPUUtilization` and the other rules when they are asked for.

    `run(job, rules)` judges a job; it is the only name from a package above this one.
    """
    if name == "run":
        from holter.job import run_rules

        return run_rules
    if name == "rule_configs":
        return RuleConfigs()
    if not name.startswith("_") and name[:1].isupper() and name in catalogue():
        return catalogue()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
