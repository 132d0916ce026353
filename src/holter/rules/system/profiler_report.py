"""ProfilerReport: runs all profiler rules and reports them together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holter.parameters import nearest
from holter.rules import BadRule, Issues, Rule, Window, catalogue, parameter, rule_class

if TYPE_CHECKING:
    from collections.abc import Mapping

_RULES = (
    "BatchSize",
    "CPUBottleneck",
    "Dataloader",
    "GPUMemoryIncrease",
    "IOBottleneck",
    "LoadBalancing",
    "LowGPUUtilization",
    "MaxInitializationTime",
    "OverallFrameworkMetrics",
    "OverallSystemUsage",
    "StepOutlier",
)


@rule_class
class ProfilerReport(Rule):
    """Runs the profiler rules for one report of all of them. It never fires itself; its rules do.

    Once the job has ended its status is IssuesFound when one of them has found any. With it, `holter run`
    writes the report into the job, and again while it runs.

    Each of their parameters is given as `<Rule>_<parameter>`, in any case: `CPUBottleneck_threshold=60`.
    """

    reads = ("steps",)
    severity = "info"
    formula = "never"
    packs = ("sagemaker",)

    parameters_of_rules: str = parameter("{}")
    """Parameters of its rules, as a JSON object from `<Rule>_<parameter>` to values."""
    profile: str = parameter("modern", classic="classic", choices=("modern", "classic"))
    """Default profile for parameters that are not given."""
    scan_interval_us: int = parameter(60_000_000, above=0, unit="us")
    """Accepted for old configurations and ignored; each rule has its own interval."""
    opt_out_telemetry: bool = parameter(False)
    """Accepted for old configurations and ignored; holter has no telemetry."""

    def __post_init__(self) -> None:
        """Check the parameters of its rules like its own parameters."""
        Rule.__post_init__(self)
        try:
            given = json.loads(self.parameters_of_rules or "{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise BadRule(
                f"ProfilerReport: parameters_of_rules={self.parameters_of_rules!r} is not a JSON object"
            )
        canonical = {f"{rule}_{name}": value for (rule, name), value in _split(given).items()}
        object.__setattr__(self, "parameters_of_rules", json.dumps(canonical, sort_keys=True))
        self.brings()

    @classmethod
    def of(cls, given: Mapping[str, object] | None = None, *, defaults: str = "modern") -> ProfilerReport:
        """Make the rule from parameters as a user writes them, including those of its rules.

        Raises:
            BadRule: An unknown rule, parameter or profile, or a value out of range; names what is valid.
        """
        own: dict[str, object] = {}
        others: dict[str, object] = {}
        names = {p.name.casefold() for p in cls.parameters()}
        for name, value in (given or {}).items():
            (own if str(name).casefold() in names or "_" not in str(name) else others)[name] = value
        if others:
            own["parameters_of_rules"] = json.dumps(others)
        return cls(**cls.resolved(own, defaults))

    def brings(self) -> tuple[Rule, ...]:
        """Return the rules that run along with it."""
        given: dict[str, dict[str, object]] = {}
        for (rule, name), value in _split(json.loads(self.parameters_of_rules)).items():
            given.setdefault(rule, {})[name] = value
        return tuple(rule.of(given.get(name), defaults=self.profile) for name, rule in _rules().items())

    def evaluate(self, window: Window) -> Issues:
        """Hand over its rules with their parameters."""
        window.hand_over(lambda: {"rules": {type(rule).__name__: rule.values() for rule in self.brings()}})
        steps = window.new("steps").rows
        if steps:
            window.judged(steps)
        else:
            window.insufficient("no_input", "no new step")
        yield from ()


def _rules() -> dict[str, type[Rule]]:
    return {name: rule for name, rule in catalogue().items() if name in _RULES}


def _split(given: Mapping[str, object]) -> dict[tuple[str, str], object]:
    """Split `<Rule>_<parameter>`, in any case, into the rule's own name and the parameter."""
    known = {name.casefold(): name for name in _rules()}
    found = {}
    for name, value in given.items():
        rule, _, own = name.partition("_")
        if rule.casefold() not in known:
            near = nearest(rule.casefold(), known)
            hint = f"did you mean {known[near]}? there are" if near else "there are"
            raise BadRule(
                f"ProfilerReport has no parameter {name!r}: there is no rule {rule!r} in it; {hint}: "
                f"{', '.join(known.values())}"
            )
        found[known[rule.casefold()], own.casefold()] = value
    return found
