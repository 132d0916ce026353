"""The training speed of a rank in blocks of points, in bounded memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.rules import State
    from holter.schema.table import Table

POINTS = 200
"""The number of points in a block."""
POINT_NS = 150_000_000
"""Shorter steps are merged into points of about this length, so that a block covers enough time."""

Block = dict[str, Any]
"""`points`: units per second; `parts`: ns of each part of the step; `units`; `first`, `last` step; `end`."""


def add(state: State, steps: Table, units: NDArray[np.float64]) -> list[Block]:
    """Add steps of one rank and return the blocks that are complete now.

    A point is complete when a step of the next point begins, independent of where windows are cut.

    Args:
        state: The state between calls; empty at first.
        steps: Table `steps` of one rank, in the order of time.
        units: The work of each step, shape (steps,): tokens, samples, or 1.
    """
    if not steps.rows:
        return []
    duration = steps["duration"].astype(np.int64)
    clock = state.get("clock", 0) + np.cumsum(duration)
    state["clock"] = int(clock[-1])
    # Of each step: point, first and last step, end, duration, parts. The open point comes before them as one.
    step = steps["step"].astype(np.int64)
    parts = [steps[part].astype(np.int64) for part in BREAKDOWN]
    rows = np.column_stack(
        [(clock - duration) // POINT_NS, step, step, steps["time"] + duration, duration, *parts]
    )
    if "open" in state:
        rows = np.concatenate([np.array([state["open"][0]], dtype=np.int64), rows])
        units = np.concatenate([[state["open"][1]], units])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rows[:, 0])) + 1])
    ends = np.concatenate([starts[1:], [len(rows)]]) - 1
    points = rows[ends]
    points[:, 1] = rows[starts, 1]
    points[:, 4:] = np.add.reduceat(rows[:, 4:], starts, axis=0)
    sums = np.add.reduceat(units, starts)
    state["open"] = [points[-1].tolist(), float(sums[-1])]
    return _blocks(state, points[:-1], sums[:-1])


def _blocks(state: State, points: NDArray[np.int64], units: NDArray[np.float64]) -> list[Block]:
    done: list[Block] = []
    at = 0
    while at < len(points):
        first = int(points[at, 1])
        fresh = {"points": [], "units": 0.0, "parts": dict.fromkeys(BREAKDOWN, 0), "first": first}
        block: Block = state.setdefault("block", fresh)
        some = slice(at, at + POINTS - len(block["points"]))
        at = some.stop
        ns = points[some, 4]
        speed = np.divide(1e9 * units[some], ns, out=np.zeros(len(ns)), where=ns > 0)
        block["points"] += [float(f"{value:.6g}") for value in speed.tolist()]
        block["units"] += float(units[some].sum())
        for part, spent in zip(BREAKDOWN, points[some, 5:].sum(axis=0).tolist(), strict=True):
            block["parts"][part] += spent
        block["last"], block["end"] = int(points[some][-1, 2]), int(points[some][-1, 3])
        if len(block["points"]) == POINTS:
            done.append(state.pop("block"))
    return done


def tied_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value, from 1; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[where])


def mann_whitney(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Return the one-sided p-value of the rank-sum test that `low` is below `high`, for 20 values and more.

    It uses the normal approximation with the correction for ties.
    """
    n, m = len(low), len(high)
    if not n or not m:
        return 1.0
    both = np.concatenate([low, high])
    score = float(tied_ranks(both)[:n].sum()) - n * (n + 1) / 2
    counts = np.unique(both, return_counts=True)[1].astype(np.float64)
    ties = float((counts**3 - counts).sum())
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = (score - n * m / 2 + 0.5) / math.sqrt(variance)
    return 0.5 * math.erfc(-z / math.sqrt(2))
