"""Groups issues of several rules that have one cause, and names the most specific one as the cause.

Rules do not depend on each other's findings: shared analysis is in shared modules, so the order of rules has
no effect. This module groups the issues after all rules have run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holter.evaluation.status import RuleRun

ORDER = (
    "UnusedGPU",
    "HardwareError",
    "ThermalThrottling",
    "StalledTraining",
    "CheckpointStall",
    "DataloaderBottleneck",
    "CPUBottleneck",
    "IOBottleneck",
    "HostDeviceSyncStorm",
    "CpuBoundLaunch",
    "StragglerRank",
    "CommNotOverlapped",
    "BatchSize",
    "LowGPUUtilization",
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


def shown(runs: Iterable[RuleRun]) -> list[dict[str, Any]]:
    """Return the documents of rules, with their issues grouped."""
    rules = [run.shown() for run in runs]
    group(rules)
    _gather(rules)
    return rules


def _gather(rules: Sequence[dict[str, Any]]) -> None:
    """Set the status of `ProfilerReport`, once the job has ended, from the rules that it reports on."""
    for report in rules:
        reported = report["details"].get("rules") if report["rule"] == "ProfilerReport" else None
        if not isinstance(reported, dict) or report["status"] != "NoIssuesFound":
            continue
        fired = [r["name"] for r in rules if r["rule"] in reported and r["status"] == "IssuesFound"]
        if fired:
            report["status"] = "IssuesFound"
            report["status_details"] = f"IssuesFound: by {', '.join(fired)}"


def group(rules: Sequence[Mapping[str, Any]]) -> None:
    """Give issues of one cause the same `group_id`, named after the most specific one.

    Rules about lost time have one cause when they overlap in time; rules about numbers, when they begin
    no earlier than numbers that are not finite, or when a loss jumps soon after its gradients.

    Args:
        rules: Documents of rules, as `RuleRun.shown` makes them; their issues get `group_id`, which stays
            `None` for an issue that stands alone, and `caused_by`, the rule to look at first.
    """
    _group_broken(rules)
    _group_jumps(rules)
    waiting = sorted(
        (
            (ORDER.index(rule["rule"]), issue["time_start"], n, issue)
            for rule in rules
            if rule["rule"] in ORDER
            for n, issue in enumerate(rule["issues"])
            if issue["time_start"] is not None and issue["time_end"] is not None
        ),
        key=lambda one: one[:3],
    )
    while waiting:
        (head_at, began, _, head), *rest = waiting
        same = [one for one in rest if _together(head, one[3])]
        if any(one[0] > head_at for one in same):
            name = f"{ORDER[head_at]}-{began}"
            for issue in (head, *(one[3] for one in same)):
                issue["group_id"] = name
                issue["caused_by"] = ORDER[head_at]
        grouped = {id(one[3]) for one in same}
        waiting = [one for one in rest if id(one[3]) not in grouped]


def _group_broken(rules: Sequence[Mapping[str, Any]]) -> None:
    order = (*BROKEN, *FOLLOW)
    found = sorted(
        (
            (order.index(rule["rule"]), issue["step_start"], n, issue)
            for rule in rules
            if rule["rule"] in order
            for n, issue in enumerate(rule["issues"])
            if issue["step_start"] is not None
        ),
        key=lambda one: one[:3],
    )
    # An overflow that a gradient scaler skipped is not the cause of other issues.
    heads = [one for one in found if one[0] < len(BROKEN) and one[3]["severity"] == "critical"]
    if not heads:
        return
    head_at, began, _, head = heads[0]
    same = [one[3] for one in found if one[3] is not head and one[1] >= began]
    for issue in (head, *same) if same else ():
        issue["group_id"] = f"{order[head_at]}-{began}"
        issue["caused_by"] = order[head_at]


def _group_jumps(rules: Sequence[Mapping[str, Any]]) -> None:
    norms, losses = (
        [
            issue
            for rule in rules
            if rule["rule"] == name
            for issue in rule["issues"]
            if issue["step_start"] is not None and issue["group_id"] is None
        ]
        for name in JUMPS
    )
    heads = [issue for issue in norms if issue.get("code") in _THROWS]
    for head in sorted(heads, key=lambda issue: (issue["step_start"], issue["step_end"])):
        begins, ends = head["step_start"], head["step_end"] + SOON
        same = [i for i in losses if i["group_id"] is None and begins <= i["step_start"] <= ends]
        for issue in (head, *same) if same else ():
            issue["group_id"], issue["caused_by"] = f"{JUMPS[0]}-{begins}", JUMPS[0]


def _together(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two issues overlap in time and are not on two different nodes."""
    nodes = {one["node"], other["node"]} - {None}
    overlap = one["time_start"] <= other["time_end"] and other["time_start"] <= one["time_end"]
    return overlap and len(nodes) < 2
