"""ClockSkew: the clocks of nodes disagree, or a clock jumped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of
from holter.rules.patterns.event_details import details_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STABLE = 0.2
"""Largest variation of a skew over the steps, as a share of it; a clock skew is constant."""


@rule_class
class ClockSkew(Rule):
    """A node's wall clock moved during the job, or nodes end the same steps at different times."""

    reads = ("events/clock", "steps")
    severity = "info"
    formula = (
        "a clock moved by >= info_ms or warning_ms; or the median difference between the ends of the same "
        "steps on two nodes is >= these limits, stable, and longer than a step"
    )
    advice = "Synchronise the nodes with NTP or PTP. Until then, times of different nodes cannot be compared."
    packs = ("distributed",)
    every_s = 60.0
    tells_once = ("moved",)
    lookback = Lookback(steps=200)

    info_ms: float | None = parameter(50.0, above=0, unit="ms", aliases=("threshold",))
    """Difference from which the rule reports a note."""
    warning_ms: float | None = parameter(1000.0, above=0, unit="ms")
    """Difference that is a warning."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Number of steps that the nodes must have in common."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node's own clock, then compare the nodes."""
        for row, detail in details_of(window.new("events"), "clock"):
            moved_ns = detail.get("moved_ns")
            if not isinstance(moved_ns, int | float) or abs(moved_ns) >= 2**62:
                continue
            moved = moved_ns / 1e6
            window.judged(1)
            # There is no critical level, because clocks do not harm the training.
            severity = severity_of(abs(moved), self.info_ms, self.warning_ms, None)
            if severity is not None:
                yield self.issue(
                    f"the wall clock of {row['node'] or 'the node'} moved by {moved:.0f} ms",
                    severity=severity,
                    code="moved",
                    node=row["node"] or None,
                    time_start=row["time"],
                    time_end=row["time"],
                    evidence={"moved_ms": moved},
                )
        steps = window.steps
        nodes = sorted(set(steps["node"].tolist()))
        if len(nodes) < 2:
            if not window.points:
                window.insufficient("no_match", "one node; the rule compares two or more", len(nodes), 2)
            return
        yield from self._between(window, steps, nodes)

    def _between(self, window: Window, steps: Table, nodes: list[str]) -> Issues:
        if not (steps["communication"] > 0).any():
            text = "ranks do not wait for one another, so nodes need not end steps together"
            return window.insufficient("no_match", text)
        ends = [_ends(steps.where(steps["node"] == node)) for node in nodes]
        common = sorted(set.intersection(*(set(e) for e in ends)))
        if len(common) < self.min_steps:
            return window.too_few("too few steps in common between all nodes", len(common), self.min_steps)
        window.judged(len(common))
        zero = min(e[common[0]] for e in ends)
        matrix = np.array([[e[step] - zero for step in common] for e in ends], dtype=np.float64) / 1e6
        apart = matrix - _medians_of_others(matrix)
        typical = float(np.median(steps["duration"])) / 1e6
        for node, one in zip(nodes, apart, strict=True):
            skew = float(np.median(one))
            spread = float(np.median(np.abs(one - skew)))
            severity = severity_of(abs(skew), self.info_ms, self.warning_ms, None)
            # Hosts may run ahead of their GPUs by a step, so less than one says nothing about clocks.
            if severity is None or abs(skew) <= typical or spread > _STABLE * abs(skew):
                continue
            if len(nodes) == 2 and skew < 0:
                continue  # with two nodes it is unknown which one is wrong: report one
            yield self.issue(
                f"{node} ends the same steps {abs(skew):.0f} ms {'later' if skew > 0 else 'earlier'} than "
                "the other nodes",
                severity=severity,
                code="skew",
                node=node,
                step_start=common[0],
                step_end=common[-1],
                time_end=window.end,
                evidence={"skew_ms": skew, "spread_ms": spread, "steps": len(common), "nodes": len(nodes)},
            )


def _medians_of_others(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row the median of all other rows, column by column."""
    place = matrix.argsort(axis=0, kind="stable").argsort(axis=0)
    ordered = np.sort(matrix, axis=0)
    others = len(matrix) - 1
    # Without the entry at `place`, those behind it move one forward.
    halves = [np.take_along_axis(ordered, at + (at >= place), 0) for at in ((others - 1) // 2, others // 2)]
    found: NDArray[np.float64] = (halves[0] + halves[1]) / 2
    return found


def _ends(steps: Table) -> dict[int, int]:
    """Return the time at which a node's last rank ended each step."""
    end = steps["time"] + steps["duration"]
    order = np.argsort(end, kind="stable")
    return dict(zip(steps["step"][order].tolist(), end[order].tolist(), strict=True))
