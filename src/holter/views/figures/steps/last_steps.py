"""Breakdown of each of the last steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.schema.phases import BREAKDOWN
from holter.views.figure import Axis, Figure, Series
from holter.views.wording import words

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = "No steps were seen. Loops that no adapter knows are marked with `with holter.step()`."
_MOST = 30


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the parts of the last 30 steps in the window, stacked, for one rank, by default the lowest."""
    steps = reading.drawn_steps_of(rank)
    if not steps.rows or "trace" in reading.description:
        return None
    rank = int(steps["rank"].min())
    last = steps.where(steps["rank"] == rank).sorted("time").where(slice(-_MOST, None))
    parts = [part for part in BREAKDOWN if last[part].any()]
    return Figure(
        title=f"The last {counted(last.rows, 'step')}",
        kind="stacked",
        x=[int(number) for number in last["step"]],
        x_axis=Axis("number of the step"),
        y_axis=Axis("time in the step", "ms"),
        series=[Series(words(part), (last[part] / 1e6).tolist(), key=part) for part in parts],
        note=f"Rank {rank}." if len(reading.description["ranks"]) > 1 else "",
    )
