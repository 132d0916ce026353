"""Shares of the training's phases over time, with its pauses and interruptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.phases import BREAKDOWN
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._buckets import NO_PHASES, line, of_ranks, over_time, seconds
from holter.views.wording import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.views.reading import Reading

MISSING = NO_PHASES


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the share of time in each part of a step, stacked; the rest is time outside of steps."""
    steps = reading.steps if rank is None else reading.steps.where(reading.steps["rank"] == rank)
    if not steps.rows or "trace" in reading.description:
        return None
    edges = np.linspace(reading.since, reading.until, reading.width + 1)
    parts, inside = [part for part in BREAKDOWN if steps[part].any()], reading.drawn_steps_of(rank)
    shares = _shares(inside, parts, edges)
    sampled = line(reading, "", over_time(reading, ["cpu.util"], "metric").get("cpu.util", ())).values
    stepping = sum(shares.values(), np.zeros(reading.width)) > 0
    if any(value is not None for value in sampled):
        known = stepping | np.array([value is not None for value in sampled])
    else:
        known = np.ones(reading.width, dtype=bool)
    series = []
    for part, share in shares.items():
        values = [float(value) if here else None for value, here in zip(share, known, strict=True)]
        series.append(Series(words(part), values, key=part))
    return Figure(
        title="What the time went into",
        kind="stacked",
        x=seconds(reading),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("of the time", "%", top=100.0),
        series=series,
        note=f"{of_ranks(reading, rank)} White space: time outside steps. Gaps: no data.".lstrip(),
    )


def _shares(steps: Table, parts: list[str], edges: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the percentage of each stretch that is spent in each part; within a step it is spread evenly."""
    totals = {part: np.zeros(len(edges) - 1) for part in parts}
    ranks = np.unique(steps["rank"])
    for rank in ranks:
        mine = steps.where(steps["rank"] == rank)
        order = np.argsort(mine["time"], kind="stable")
        begin = mine["time"][order].astype(float)
        # Steps of a run that went back to a checkpoint may overlap by a little; time only grows.
        end = np.maximum.accumulate(begin + mine["duration"][order])
        begin = np.maximum(begin, np.concatenate([begin[:1], end[:-1]]))
        times = np.stack([begin, end], axis=1).ravel()
        for part, total in totals.items():
            spent = np.concatenate([[0.0], np.cumsum(mine[part][order].astype(float))])
            total += np.diff(np.interp(edges, times, np.stack([spent[:-1], spent[1:]], axis=1).ravel()))
    whole = np.diff(edges) * max(len(ranks), 1)
    whole = np.where(whole > 0, whole, np.inf)  # where times are damaged, stretches may have no length
    return {part: np.minimum(100.0 * total / whole, 100.0) for part, total in totals.items()}
