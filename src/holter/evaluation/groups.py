"""Issues of several rules that have one cause: the most specific of them is what to look at first.

No rule waits for what another finds: what two of them need (how a loss jumps, who waits for whom) is worked
out by one module for both, so the order in which rules are asked changes nothing. What belongs together is
said here, once all have spoken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
"""Rules about time that is lost, causes first and symptoms last."""

BROKEN = ("NonFiniteGradient", "NonFiniteLoss")
"""Rules that say where numbers stopped being finite, the one that knows most first."""
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
"""Rules about numbers that find something too once numbers are not finite."""
JUMPS = ("GradientNormSpike", "LossSpike")
"""Rules about numbers that jump: a loss that does so soon after the gradients did was thrown by them."""
SOON = 20
"""So many steps."""
_THROWS = ("spike", "followed")
"""Codes of jumps of gradients; that they vanish, or are clipped always, throws no loss."""


def shown(runs: Iterable[RuleRun]) -> list[dict[str, Any]]:
    """Return what everybody may know of rules, their issues grouped."""
    rules = [run.shown() for run in runs]
    group(rules)
    _gather(rules)
    return rules


def _gather(rules: Sequence[dict[str, Any]]) -> None:
    """Give a report of rules, once the job has ended, the status of those that it reports on."""
    for report in rules:
        reported = report["details"].get("rules") if report["rule"] == "ProfilerReport" else None
        if not isinstance(reported, dict) or report["status"] != "NoIssuesFound":
            continue
        fired = [r["name"] for r in rules if r["rule"] in reported and r["status"] == "IssuesFound"]
        if fired:
            report["status"] = "IssuesFound"
            report["status_details"] = f"IssuesFound: by {', '.join(fired)}"


def group(rules: Sequence[Mapping[str, Any]]) -> None:
    """Give issues of one cause the same `group_id`: that of the most specific one among them.

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
    # An overflow that a gradient scaler skipped is worth knowing, and the cause of nothing.
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
    """Tell whether two issues overlap in time, and are not of two different nodes."""
    nodes = {one["node"], other["node"]} - {None}
    overlap = one["time_start"] <= other["time_end"] and other["time_start"] <= one["time_end"]
    return overlap and len(nodes) < 2
