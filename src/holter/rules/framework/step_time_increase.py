"""StepTimeIncrease: steps take longer since some step, and the change lasts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.steps.spread import median
from holter.analysis.verdict.changes import APART, LoopChange, step_changes
from holter.rules import Issue, Issues, Rule, Table, Window, parameter, rule_class
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

_POINT_NS = 50_000_000
"""Shorter steps are merged into points of about this length, so that the points cover enough time."""
_KEPT = 125
"""Points that show what was usual before a change."""
_NOW = 20
"""The last points that show whether a change still lasts."""
_PARTS = tuple(part for part in BREAKDOWN if part not in APART)
Points = list[list[int]]
"""Of each point: first step, its begin in ms after the job's start, and mean duration and parts in us."""
_COLUMNS = ("step", "time", "duration", *_PARTS)


@rule_class
class StepTimeIncrease(Rule):
    """The steps of the lowest rank take longer than before since some step, until now.

    ThroughputRegression compares with the best speed of the whole job, by tokens or samples where these are
    logged; this rule finds when the step time changed, and what grew.
    """

    reads = ("steps",)
    formula = (
        "the mean of 20, 80, 320 or 1280 steps differs from that of as many steps before by more than 6 "
        "deviations, the step time has grown by min_relative_pct, and the change lasts; a note below "
        "warning_pct or min_lost_s"
    )
    advice = (
        "Look at what began at that time: another program on the machine, other data, a cache that no longer "
        "fits, a clock that the heat lowered."
    )
    packs = ("default", "performance")
    every_s = 10.0

    min_relative_pct: float = parameter(5.0, above=0, unit="%")
    """A smaller change of the step time is ignored."""
    warning_pct: float = parameter(10.0, low=0, unit="%")
    """Extra time since the change, of the time of all steps, that is a warning; less is a note."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller loss of time is a note at most."""

    def evaluate(self, window: Window) -> Issues:
        """Look for a change in the recent points, and follow the one that was found before."""
        state = window.state
        fresh = self._new_points(window)
        if not fresh:
            return window.insufficient("no_input", "no new step after warm-up")
        points = [*_unpacked(state.get("points", [])), *fresh]
        state["points"] = _packed(points[-_KEPT:])
        window.judged(len(points))
        now_ms = median(np.array([row[2] for row in points[-_NOW:]])) / 1e3
        known: dict[str, Any] | None = state.pop("change", None)
        if known is not None and not self._lasts(known, now_ms, points[-1][0]):
            known = None
        if known is None:
            rises = step_changes(_table(points, window.job.start))
            known = next((asdict(one) for one in rises[::-1] if one.until_step is None), None)
        if known is None or not self._lasts(known, now_ms, points[-1][0]):
            return
        state["change"] = known
        yield self._issue(window, LoopChange(**{**known, "after": now_ms}), points[-1][0])

    def _lasts(self, known: Mapping[str, Any], now_ms: float, step: int) -> bool:
        """Return whether steps still take longer; an earlier step belongs to another training."""
        return bool(step >= known["step"] and now_ms > known["before"] * (1 + self.min_relative_pct / 100))

    def _new_points(self, window: Window) -> Points:
        """Return the new steady steps of one rank, short ones merged into points; durations are means."""
        steps = window.steady
        if not steps.rows:
            return []
        rank = window.state.setdefault("rank", int(steps["rank"].min()))
        mine = steps.where(steps["rank"] == rank).sorted("time", "step", "duration")
        if not mine.rows:
            return []
        many = max(1, round(_POINT_NS / max(median(mine["duration"]), 1.0)))
        starts = np.arange(0, mine.rows, many)
        sizes = np.diff([*starts.tolist(), mine.rows])
        means = [np.add.reduceat(mine[name], starts) // sizes // 1000 for name in ("duration", *_PARTS)]
        begins = (mine["time"][starts] - window.job.start) // 1_000_000
        columns = [mine["step"][starts], begins, *means]
        return [list(map(int, row)) for row in np.column_stack(columns)]

    def _issue(self, window: Window, change: LoopChange, step: int) -> Issue:
        lost_s = (step - change.step + 1) * (change.after - change.before) / 1e3
        began = window.job.first_step if window.job.first_step is not None else window.job.start
        share = 100e9 * lost_s / max(window.end - began, 1)
        costly = share >= self.warning_pct and lost_s >= self.min_lost_s
        return self.issue(
            change.text,
            severity="warning" if costly else "info",
            rank=window.state["rank"],
            step_start=change.step,
            step_end=step,
            time_start=change.time,
            time_end=window.end,
            evidence={
                "before_ms": change.before,
                "after_ms": change.after,
                "grown_ms": change.grown_ms,
                "lost_s": lost_s,
                "lost_pct": share,
            },
        )


def _packed(points: Points) -> list[int | list[int]]:
    """Return the columns of points; one that never changes, such as a part without time, as one number."""
    columns: list[list[int]] = np.array(points).T.tolist()
    first, *others = columns
    return [first, *(one[0] if min(one) == max(one) else one for one in others)]


def _unpacked(columns: list[int | list[int]]) -> Points:
    rows: Points = np.column_stack(np.broadcast_arrays(*columns)).tolist() if columns else []
    return rows


def _table(points: Points, start: int) -> Table:
    """Return the points as rows of table `steps`."""
    scales = (1, 1_000_000, *(1000 for _ in ("duration", *_PARTS)))
    values = np.array(points, dtype=np.int64) * np.array(scales)
    values[:, 1] += start
    return Table.of("steps", [dict(zip(_COLUMNS, row, strict=True)) for row in values.tolist()])
