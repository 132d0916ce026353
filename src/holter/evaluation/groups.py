"""Groups issues of several rules that have one cause, and names the most specific one as the cause.

Rules do not depend on each other's findings: shared analysis is in shared modules, so the order of rules has
no effect. This module groups the issues after all rules have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.evaluation.status import RuleRun
    from holter.store.documents import Document

ORDER = (
    "UnusedGPU",
    "HardwareError",
    "ThermalThrottling",
    "StalledTraining",
    "CheckpointStall",
    "DataloaderBottleneck",
    "CPUOversubscription",
    "CPUContention",
    "CPUBottleneck",
    "IOBottleneck",
    "HostDeviceSyncStorm",
    "CpuBoundLaunch",
    "StragglerRank",
    "CommNotOverlapped",
    "BatchSize",
    "LowGPUUtilization",
    "StepTimeIncrease",
    "StepOutlier",
    "ThroughputRegression",
)
"""Rules about lost time, causes first and symptoms last."""

BROKEN = ("NonFiniteGradient", "NonFiniteLoss")
"""Rules that find where numbers stopped being finite, the most specific one first."""
FOLLOW = (
    "ExplodingTensor",
    "LossSpike",
    "GradientNormSpike",
    "OptimizerNotStepping",
    "VanishingGradient",
    "WeightUpdateRatio",
    "UnchangedTensor",
    "LossScaleCollapse",
)
"""Rules about numbers that also fire once numbers are not finite."""
JUMPS = ("GradientNormSpike", "LossSpike")
"""Rules about jumps: a loss that jumps soon after the gradients follows from them."""
SOON = 20
"""The steps between a jump of gradients and the jump of a loss that it causes."""
_THROWS = ("spike", "followed")
"""Codes of gradient jumps that can move a loss; vanishing and clipped gradients cannot."""


class _Member(NamedTuple):
    """An issue that may belong to a group; members are ordered by the place of their rule, then by begin."""

    place: int
    """The place of its rule in the list of rules that may have one cause."""
    began: int
    number: int
    issue: Document


def shown(runs: Iterable[RuleRun]) -> list[Document]:
    """Return the documents of rules, with their issues grouped."""
    rules = [run.shown() for run in runs]
    group(rules)
    _gather(rules)
    return rules


def _gather(rules: Sequence[Document]) -> None:
    """Set the status of `ProfilerReport`, once the job has ended, from the rules that it reports on."""
    for report in rules:
        reported = report["details"].get("rules") if report["rule"] == "ProfilerReport" else None
        if not isinstance(reported, dict) or report["status"] != "NoIssuesFound":
            continue
        fired = [r["name"] for r in rules if r["rule"] in reported and r["status"] == "IssuesFound"]
        if fired:
            report["status"] = "IssuesFound"
            report["status_details"] = f"IssuesFound: by {', '.join(fired)}"


def group(rules: Sequence[Document]) -> None:
    """Give issues of one cause the same `group_id`, named after the most specific one.

    Rules about lost time have one cause when they overlap in time; rules about numbers, when they begin
    no earlier than numbers that are not finite, or when a loss jumps soon after its gradients.

    Args:
        rules: Documents of rules, as `RuleRun.shown` makes them; their issues get `group_id`, which stays
            `None` for an issue that stands alone, and `caused_by`, the rule to look at first.
    """
    _group_broken(rules)
    _group_jumps(rules)
    waiting = [one for one in _members(rules, ORDER, "time") if one.issue["time_end"] is not None]
    while waiting:
        head, *rest = waiting
        same = [one for one in rest if _together(head.issue, one.issue)]
        if any(one.place > head.place for one in same):
            _join(ORDER, head, same)
        waiting = [one for one in rest if not _together(head.issue, one.issue)]


def _group_broken(rules: Sequence[Document]) -> None:
    found = _members(rules, (*BROKEN, *FOLLOW), "step")
    # An overflow that a gradient scaler skipped is not the cause of other issues.
    heads = [one for one in found if one.place < len(BROKEN) and one.issue["severity"] == "critical"]
    for head in heads[:1]:
        _join(BROKEN, head, [one for one in found if one is not head and one.began >= head.began])


def _group_jumps(rules: Sequence[Document]) -> None:
    found = [one for one in _members(rules, JUMPS, "step") if one.issue["group_id"] is None]
    heads = [one for one in found if one.place == 0 and one.issue.get("code") in _THROWS]
    for head in sorted(heads, key=lambda one: (one.began, one.issue["step_end"])):
        last = head.issue["step_end"] + SOON
        losses = [one for one in found if one.place == 1 and one.issue["group_id"] is None]
        _join(JUMPS, head, [one for one in losses if head.began <= one.began <= last])


def _members(rules: Sequence[Document], order: Sequence[str], axis: str) -> list[_Member]:
    """Return the issues of some rules with a known begin in steps or time, in their order."""
    found = [
        _Member(order.index(rule["rule"]), issue[f"{axis}_start"], n, issue)
        for rule in rules
        if rule["rule"] in order
        for n, issue in enumerate(rule["issues"])
        if issue[f"{axis}_start"] is not None
    ]
    return sorted(found, key=lambda one: one[:3])


def _join(order: Sequence[str], head: _Member, others: list[_Member]) -> None:
    """Make a group of a cause and its consequences, if there are any."""
    for one in (head, *others) if others else ():
        one.issue["group_id"], one.issue["caused_by"] = f"{order[head.place]}-{head.began}", order[head.place]


def _together(one: Document, other: Document) -> bool:
    """Return whether two issues overlap in time and are not on two different nodes."""
    nodes = {one["node"], other["node"]} - {None}
    overlap = one["time_start"] <= other["time_end"] and other["time_start"] <= one["time_end"]
    return overlap and len(nodes) < 2
