"""GCPause: Python's garbage collection stops training."""

from __future__ import annotations

from typing import Any

import numpy as np

from holter.rules import Issues, Rule, Table, Window, parameter, rule_class
from holter.rules.engine import last_hour as _hour
from holter.rules.engine.job_facts import warm
from holter.rules.engine.levels import severity_of, worth

_OPEN_STEPS = 1000
"""Number of steps that may wait for the last rank; after that, the rank counts as gone."""
_SHORT_NS = 5_000_000
"""Shorter pauses are normal in Python: a note at most."""


@rule_class
class GCPause(Rule):
    """In each step training waits for the rank with the longest garbage-collection pause."""

    reads = ("steps", "spans/gc")
    formula = (
        "sum over steps of the longest pause of any rank / step time >= info, warning, or critical; or one "
        "pause >= single_warning_s or single_critical_s; within the last hour"
    )
    advice = (
        "Disable automatic collection, collect every 50 to 100 steps on all ranks together, and call "
        "gc.freeze() after start-up."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(0.5, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the time from which the rule reports a note."""
    warning: float | None = parameter(1.0, low=0, high=100, unit="%")
    """Share of the time that is a warning."""
    critical: float | None = parameter(5.0, low=0, high=100, unit="%")
    """Share of the time that is critical."""
    single_warning_s: float = parameter(0.5, above=0, unit="s")
    """A single pause this long is a warning, or a note while such pauses take less than 1 % of the time."""
    single_critical_s: float = parameter(2.0, above=0, unit="s")
    """A single pause this long is critical, or a note while such pauses take less than 1 % of the time."""
    unsynchronised: float = parameter(3.0, above=1)
    """Ranks collect at different times when training loses this many times what one rank loses."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps of a rank; fewer are not judged."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total loss is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Add the new pauses, and judge the last hour."""
        state = window.state
        newest: dict[str, int] = state.setdefault("newest", {})
        _learn(window, newest, round(self.single_warning_s * 1e9))
        if window.unchanged("steps"):
            return
        sums = _hour.totals(state["sums"], window.end)
        ranks = max(len(newest), 1)
        steps = sums.get("steps", 0) / ranks
        if not newest:
            return window.insufficient("no_input", "no step after warm-up")
        if steps < self.min_steps:
            return window.too_few("too few steps after warm-up", steps, self.min_steps)
        window.judged(sums["steps"])
        every = max(sums["wall"], 1)
        wall = every / ranks
        lost = sums.get("lost", 0) + sum(one[0] for one in state["open"].values())
        cost, own = 100.0 * lost / wall, 100.0 * sums.get("own", 0) / every
        worst = _worst(state["worst"], window.end)
        if worst is None:
            return
        about = {"rank": worst[1], "step": worst[2], "longest_ms": worst[0] / 1e6}
        severity = worth(
            severity_of(cost, self.info, self.warning, self.critical), lost / 1e9, self.min_lost_s
        )
        if severity is not None:
            apart = ranks > 1 and cost > self.unsynchronised * own
            yield self.issue(
                f"garbage collection costs {cost:.2g} % of the time"
                + (f"; ranks collect at different times, each costs only {own:.2g} %" if apart else ""),
                severity="info" if worst[0] < _SHORT_NS else severity,
                code="unsynchronised" if apart else "cost",
                step_end=worst[2],
                time_end=window.end,
                evidence={"cost_pct": cost, "own_pct": own, "lost_s": lost / 1e9, "ranks": ranks, **about},
            )
        if worst[0] >= self.single_warning_s * 1e9:
            often = sums.get("long", 0) >= 0.01 * wall
            long = worst[0] >= self.single_critical_s * 1e9
            yield self.issue(
                f"the garbage collector paused rank {worst[1]} for {worst[0] / 1e9:.2g} s",
                severity="info" if not often else "critical" if long else "warning",
                code="pause",
                step_start=worst[2],
                step_end=worst[2],
                time_start=worst[3],
                time_end=worst[3] + worst[0],
                evidence={**about, "long_pauses_pct": 100.0 * sums.get("long", 0) / wall},
            )


def _learn(window: Window, newest: dict[str, int], long_ns: int) -> None:
    state = window.state
    sums: _hour.Bins = state.setdefault("sums", {})
    steps = window.warm
    ends = steps["time"] + steps["duration"]
    _hour.add(sums, ends, wall=steps["duration"], steps=np.ones(steps.rows, dtype=np.int64))
    for rank in np.unique(steps["rank"]).tolist():
        mine = np.flatnonzero(steps["rank"] == rank)
        newest[str(rank)] = int(steps["step"][mine[np.lexsort((steps["step"][mine], ends[mine]))[-1]]])
    pauses = window.spans_of("gc", new=True)
    pauses = warm(pauses.where((pauses["worker"] == -1) & (pauses["step"] >= 0)), window.job)
    longest = np.where(pauses["duration"] >= long_ns, pauses["duration"], 0)
    _hour.add(sums, pauses["time"], own=pauses["duration"], long=longest)
    _keep_worst(state.setdefault("worst", {}), pauses)
    waiting: dict[str, list[Any]] = state.setdefault("open", {})
    rows = zip(*(pauses[name].tolist() for name in ("step", "duration", "time", "rank")), strict=True)
    for step, duration, time, rank in rows:
        # Pauses of one rank within a step add up; the other ranks wait for the largest sum.
        one = waiting.setdefault(str(step), [0, time, {}])
        one[2][str(rank)] = one[2].get(str(rank), 0) + duration
        one[0], one[1] = max(one[2].values()), min(one[1], time)
    done = min(newest.values(), default=-1)
    until = max(done, max(newest.values(), default=-1) - _OPEN_STEPS)
    whole = {step for step in waiting if int(step) <= until}
    whole |= set(sorted(waiting, key=int)[:-_OPEN_STEPS])
    for step in whole:
        lost, time, _ = waiting.pop(step)
        _hour.add(sums, np.array([time]), lost=np.array([lost]))


def _keep_worst(worst: dict[str, list[int]], pauses: Table) -> None:
    """Keep the longest pause of each five minutes: (ns, rank, step, time)."""
    columns = (pauses[name].tolist() for name in ("duration", "rank", "step", "time"))
    for row in zip(*columns, strict=True):
        number = str(row[3] // _hour.BIN_NS)
        worst[number] = max(worst.get(number, [-1]), list(row))


def _worst(worst: dict[str, list[int]], end: int) -> list[Any] | None:
    for number in [number for number in worst if int(number) <= end // _hour.BIN_NS - _hour.KEPT]:
        del worst[number]
    return max(worst.values(), default=None)
