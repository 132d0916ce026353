"""Orders the issues of a job for reading: worst first, symptoms with their cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.views.document.types.rules import RuleCoverage, RuleIssue, RuleResult
    from holter.views.document.types.verdict import JobVerdict

WORST_FIRST = SEVERITIES[::-1]
_FAILURES = "reliability"
_SPEED = ("framework", "system")
"""The categories of rules about lost time, which is the lesser news beside a failure or a sick training."""


@dataclass(frozen=True, slots=True)
class IssueGroup:
    """One issue, with those that have the same cause."""

    rule: str
    issue: RuleIssue
    category: str | None = None
    """The category of its rule; None in documents of older versions."""
    symptoms: list[IssueGroup] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether its condition has not been true for a while."""
        return self.issue.get("status") == "resolved"

    @property
    def severity(self) -> str:
        """The worst among it and its symptoms."""
        own: str = self.issue["severity"]
        return min((own, *(one.severity for one in self.symptoms)), key=severity_rank)

    @property
    def about_learning(self) -> bool:
        """Whether it is about a failure or about learning, and not about speed or the machine."""
        return self.category not in (None, "own", *_SPEED)


def ordered(rules: Iterable[RuleResult]) -> list[IssueGroup]:
    """Return the issues of rules, the worst first; of equal ones the unresolved first.

    Of those, failures come before problems of learning, and these before lost time, as in the headline.
    An issue with a cause is only among the `symptoms` of that cause.
    """
    found = [
        (rule, IssueGroup(rule["name"], issue, rule.get("category")))
        for rule in rules
        for issue in rule["issues"]
    ]
    heads: dict[str, IssueGroup] = {}
    for rule, one in found:
        group = one.issue.get("group_id")
        if group and one.issue.get("caused_by") == rule.get("rule"):
            heads.setdefault(group, one)
    first = []
    for _, one in found:
        head = heads.get(one.issue.get("group_id") or "")
        if head is None or head is one:
            first.append(one)
        else:
            head.symptoms.append(one)
    for head in heads.values():
        head.symptoms.sort(key=_rank)
    return sorted(first, key=_rank)


_SUSPECTS = {
    "DataloaderBottleneck": "data_pipeline",
    "CommNotOverlapped": "communication",
    "CheckpointStall": "checkpointing",
    "EvalOverhead": "evaluation",
    "CPUContention": "contention",
    "CPUOversubscription": "contention",
    "CpuBoundLaunch": "framework_overhead",
}
"""Rule → the suspect of the verdict that is about the same share of the time."""
_CODES = {"CPUOversubscription": ("delay",)}
"""Rule → the codes of its issues that are about that share, if not all are."""


def weighed(rules: list[RuleResult], verdict: JobVerdict) -> list[RuleResult]:
    """Make notes of the issues of rules whose subject the verdict, which looks at the whole job, rules out.

    A rule judges the last steps; the verdict has the last word on what is a problem of the job.
    """
    innocent = {one["suspect"]: one["because"] for one in verdict["ruled_out"]}
    innocent |= {one["suspect"]: one["text"] for one in verdict.get("smaller") or ()}
    return [_weighed(rule, innocent) for rule in rules]


def _weighed(rule: RuleResult, innocent: dict[str, str]) -> RuleResult:
    kind = str(rule.get("rule"))
    because = innocent.get(_SUSPECTS.get(kind, ""))
    if because is None:
        return rule
    issues = [
        cast(
            "RuleIssue",
            {**issue, "severity": "info", "summary": f"{issue['summary']}; over the whole job, {because}"},
        )
        if kind not in _CODES or issue.get("code") in _CODES[kind]
        else issue
        for issue in rule["issues"]
    ]
    return {**rule, "issues": issues}


def not_judged(rules: Iterable[RuleResult]) -> list[str]:
    """Return the rules that could not judge: their data was not recorded, or not long enough."""
    return [
        rule["name"]
        for rule in rules
        if rule["status"] == "NoIssuesFound" and not coverage(rule).get("evaluated", True)
    ]


def coverage(rule: RuleResult) -> RuleCoverage:
    """Return the data that a rule could judge; empty if the rule did not report it."""
    return rule.get("coverage") or cast("RuleCoverage", {})


def _rank(found: IssueGroup) -> tuple[int, bool, int]:
    subject = 0 if found.category == _FAILURES else 2 if found.category in _SPEED else 1
    return severity_rank(found.severity), found.over, subject


def severity_rank(severity: str) -> int:
    """Return a sort key of severities: the worst first."""
    return WORST_FIRST.index(severity) if severity in WORST_FIRST else len(WORST_FIRST)
