"""Computes the cost of a job, of its idle time, and of each finding per day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.analysis.jobs.cost import saving

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LOST = {
    "BetweenStepOverhead": "share_pct",
    "CpuBoundLaunch": "launch_gap_pct",
    "CheckpointStall": "share_pct",
    "CommNotOverlapped": "transfer_pct",
    "DataloaderBottleneck": "share_pct",
    "EvalOverhead": "share_pct",
    "GCPause": "cost_pct",
    "H2DBound": "share_pct",
    "HostDeviceSyncStorm": "harm_pct",
    "RecompilationStorm": "share_pct",
    "StragglerRank": "cost_pct",
}
"""Rule → the entry of its evidence that says which percentage of the training's time is lost."""
WAITING = ("data_loading", "h2d", "communication")
"""Parts of a step in which it waits."""
_DAY_H = 24.0


def bill(
    *,
    price: float,
    machines: float,
    hours: float | None,
    busy_pct: float | None,
    loop_h: float | None,
    breakdown: Mapping[str, float] | None,
    rules: Iterable[Mapping[str, Any]],
) -> dict[str, object]:
    """Work out a job's bill. A machine-hour costs `price`, so the job costs `hours x machines x price`.

    Args:
        price: What one machine costs an hour, in any currency.
        machines: How many machines it ran on.
        hours: How long it ran.
        busy_pct: Mean utilization of its accelerators, of all readings; None without readings.
        loop_h: Length of its training loop.
        breakdown: Part of a step → percent of the loop.
        rules: What the rules found, as the description has it.

    Returns:
        `price`, `machines`, `hours`, `cost`; `idle`: the share in which the accelerators did nothing, or,
        where nobody read them, in which steps waited; `findings`: what each costs in 24 hours of training,
        the most expensive first. Findings overlap, so their costs do not add up. Unknown is None.

    Raises:
        ValueError: A number is negative or not finite.
    """
    cost = saving(hours or 0.0, 0.0, price=price, nodes=machines).money_saved
    return {
        "price": price,
        "machines": machines,
        "hours": hours,
        "cost": None if hours is None else cost,
        "idle": _idle(hours, busy_pct, loop_h, breakdown, price * machines),
        "findings": sorted(_findings(rules, price * machines), key=lambda one: -float(one["per_day"])),
    }


def _idle(
    hours: float | None,
    busy_pct: float | None,
    loop_h: float | None,
    breakdown: Mapping[str, float] | None,
    hour: float,
) -> dict[str, str | float] | None:
    if hours and busy_pct is not None:
        idle = 100.0 - busy_pct
        return {"of": "accelerators", "pct": idle, "cost": hours * hour * idle / 100}
    if hours and loop_h is not None and breakdown:
        waited_h = loop_h * sum(breakdown.get(part, 0.0) for part in WAITING) / 100
        return {"of": "steps", "pct": 100 * waited_h / hours, "cost": waited_h * hour}
    return None


def _findings(rules: Iterable[Mapping[str, Any]], hour: float) -> Iterator[dict[str, str | float]]:
    """Yield the worst issue of each rule whose evidence names lost time."""
    for rule in rules:
        key = LOST.get(rule["name"].partition(":")[0], "")
        found = [(issue.get("evidence") or {}).get(key) for issue in rule["issues"]]
        lost = max((float(pct) for pct in found if isinstance(pct, int | float)), default=None)
        if lost is not None:
            per_day = _DAY_H * hour * min(lost, 100.0) / 100
            yield {"rule": rule["name"], "lost_pct": lost, "per_day": per_day}
