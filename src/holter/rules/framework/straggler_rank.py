"""StragglerRank: one rank is slower than the others, which wait for it."""

from __future__ import annotations

import numpy as np

from holter.analysis.jobs.stragglers import COST, EXCESS, Straggler, stragglers
from holter.rules import Issue, Issues, Lookback, Rule, Severity, Table, Window, parameter, rule_class
from holter.rules.engine import quantile_sketch as _sketch
from holter.rules.engine.job_facts import steps_span, warm

_BLOCK = 50
"""Steps whose median is one point of a rank's own history."""
_NOT_OWN = ("communication", "eval", "checkpoint")


@rule_class
class StragglerRank(Rule):
    """The own work of one rank, without waiting, takes longer than that of the others in most steps."""

    reads = ("steps",)
    formula = (
        "median own work of a rank / that of the other ranks - 1 >= warning or critical, in 60 % of the "
        "steps, and the cost >= min_cost of the step (>= critical_cost: critical); with 8 ranks or more "
        "also 4 MADs above the others"
    )
    advice = (
        "Compare the named part of this rank with the others: its share of the data, its CPU and disk, the "
        "clock and temperature of its GPU, and other jobs on its node."
    )
    packs = ("distributed",)
    every_s = 60.0
    consecutive = 2

    warning: float = parameter(100 * EXCESS, above=0, unit="%", aliases=("threshold",))
    """Excess of own work over the other ranks that is a warning."""
    critical: float = parameter(25.0, above=0, unit="%")
    """Excess of own work over the other ranks that is critical."""
    min_cost: float = parameter(100 * COST, low=0, high=100, unit="%")
    """Smallest share of the step that removing the straggler would save."""
    critical_cost: float = parameter(20.0, low=0, high=100, unit="%")
    """A saving of this share of the step is critical."""
    was_faster: float = parameter(1.33, above=1)
    """A straggler that was faster by this factor before has a cause that appeared later."""
    window: int = parameter(200, low=1, unit="steps")
    """Number of recent steps that are judged."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Number of steps that all ranks must have in common."""
    min_extra_ms: float = parameter(1.0, low=0, unit="ms")
    """A smaller excess per step is a note at most."""

    @property
    def lookback(self) -> Lookback:
        """The last steps of each rank."""
        return Lookback(steps=self.window)

    def evaluate(self, window: Window) -> Issues:
        """Compare all ranks; a node whose ranks are all slow is one finding."""
        _learn(window)
        if window.unchanged("steps"):
            return
        steps = window.steady
        ranks, counts = np.unique(steps["rank"], return_counts=True)
        if len(ranks) < 2:
            if not window.steps.rows:
                return window.insufficient("no_input", "no step")
            text = "one rank; to be slower takes another"
            return window.insufficient("no_match", text, have=len(np.unique(window.steps["rank"])), need=2)
        if counts.min() < self.min_steps:
            text = "too few steps in steady state on some rank"
            return window.too_few(text, int(counts.min()), self.min_steps)
        window.judged(steps.rows)
        found = [
            one
            for one in stragglers(steps, excess=self.warning / 100, min_steps=self.min_steps)
            if 100 * one.cost >= self.min_cost
        ]
        for group in _by_node(found, steps):
            yield self._issue(window, steps, group)

    def _issue(self, window: Window, steps: Table, group: list[Straggler]) -> Issue:
        worst = group[0]
        extra = worst.own_ms - worst.others_ms
        earlier = _sketch.quantile(window.state["history"].get(str(worst.rank), {}).get("sketch", {}), 0.1)
        before = worst.own_ms / earlier if earlier else None
        slower = before is not None and before >= self.was_faster
        alone = len(group) == 1
        who = f"rank {worst.rank} is" if alone else f"all ranks of node {worst.node} are"
        return self.issue(
            f"{who} {100 * worst.excess:.0f} % slower than the others, mostly in {worst.part}"
            + (f"; it was {before:.1f} times as fast before" if slower else ""),
            severity=self._severity(worst, extra),
            code="" if alone else "node",
            rank=worst.rank if alone else None,
            node=worst.node or None,
            **steps_span(steps),
            evidence={
                "excess_pct": 100 * worst.excess,
                "cost_pct": 100 * worst.cost,
                "slow_share_pct": 100 * worst.slow_share,
                "own_ms": worst.own_ms,
                "others_ms": worst.others_ms,
                "waiting_ms": worst.waiting_ms,
                "part": worst.part,
                "part_extra_ms": worst.part_ms,
                "slower_than_before": before,
                "was_faster": slower,
                "ranks": [one.rank for one in group],
            },
        )

    def _severity(self, worst: Straggler, extra_ms: float) -> Severity:
        if extra_ms < self.min_extra_ms:
            return "info"
        severe = 100 * worst.excess >= self.critical or 100 * worst.cost >= self.critical_cost
        return "critical" if severe else "warning"


def _by_node(found: list[Straggler], steps: Table) -> list[list[Straggler]]:
    """Merge the stragglers of a node if they are all its ranks and there are other nodes."""
    nodes: dict[str, set[int]] = {}
    ranks, first = np.unique(steps["rank"], return_index=True)
    for rank, node in zip(ranks.tolist(), steps["node"][first].tolist(), strict=True):
        nodes.setdefault(node, set()).add(rank)
    groups: list[list[Straggler]] = []
    for one in found:
        mine = [other for other in found if other.node == one.node]
        whole = len(nodes) > 1 and len(mine) > 1 and {m.rank for m in mine} == nodes[one.node]
        if not whole:
            groups.append([one])
        elif one is mine[0]:
            groups.append(mine)
    return groups


def _learn(window: Window) -> None:
    """Add the medians of whole blocks of steps to each rank's own history."""
    history = window.state.setdefault("history", {})
    steps = window.new("steps")
    steps = warm(steps.where(steps["mode"] != "eval"), window.job)
    for rank in np.unique(steps["rank"]).tolist():
        mine = steps.where(steps["rank"] == rank)
        mine = mine.sorted("time", "step", "duration")
        own = (mine["duration"] - np.sum([mine[part] for part in _NOT_OWN], axis=0)) / 1e6
        known = history.setdefault(str(rank), {"open": [], "sketch": {}})
        waiting = known["open"] + own.tolist()
        whole = len(waiting) // _BLOCK * _BLOCK
        blocks = np.array(waiting[:whole]).reshape(-1, _BLOCK)
        _sketch.add(known["sketch"], np.median(blocks, axis=1) if whole else np.empty(0))
        known["open"] = waiting[whole:]
