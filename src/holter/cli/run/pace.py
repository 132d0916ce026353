"""Computes how fast a running job is at the moment, from its newest records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.agent.drain.recent import JobNow
    from holter.schema.table import Table

RECENT_STEPS = 50


def recent_steps(now: JobNow) -> tuple[Table, float | None]:
    """Return the newest steps of the first rank, and the seconds from one step to the next; None if none."""
    from holter.analysis.steps.steps import steps as steps_of  # loads numpy

    steps = steps_of(now.table()).where(slice(-RECENT_STEPS, None))
    if not steps.rows:
        return steps, None
    ends = steps["time"] + steps["duration"]
    return steps, float(ends[-1] - steps["time"][0]) / 1e9 / steps.rows
