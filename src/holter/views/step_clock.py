"""Maps steps to their start times, to convert between axes of time and of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from holter.schema.table import Table


def ran(steps: Table, start_ns: int, first: int, last: int) -> tuple[float, float] | None:
    """Return when steps `first` to `last` ran, seconds since the job's start; None if none did."""
    mine = steps.where((steps["step"] >= first) & (steps["step"] <= last))
    if not mine.rows:
        return None
    end = (mine["time"] + mine["duration"]).max()
    return float(mine["time"].min() - start_ns) / 1e9, float(end - start_ns) / 1e9


def step_clock(steps: Table, start_ns: int, most: int = 1000) -> dict[str, list[float]]:
    """Return up to `most` steps and when they began, both ascending; a reader interpolates between them.

    Of several ranks the lowest counts. `time` is in seconds since the start of the job; the last point is the
    end of the last step.
    """
    if not steps.rows:
        return {"step": [], "time": []}
    mine = steps.where(steps["rank"] == steps["rank"].min())
    order = np.argsort(mine["time"], kind="stable")
    # A run that went back to a checkpoint counts its steps anew: what is later than its like is kept.
    number = np.maximum.accumulate(mine["step"][order].astype(np.int64))
    first = np.concatenate([[True], np.diff(number) > 0])
    time = (mine["time"][order][first] - start_ns) / 1e9
    ends = (mine["time"] + mine["duration"] - start_ns) / 1e9
    number, time = np.append(number[first], number[-1] + 1), np.append(time, max(ends.max(), time[-1]))
    if len(number) > most:
        kept = np.unique(np.linspace(0, len(number) - 1, most).astype(np.int64))
        number, time = number[kept], time[kept]
    return {"step": number.tolist(), "time": time.tolist()}
