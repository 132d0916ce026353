"""Distribution of one tensor's elements at each step with a saved histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.store.parquet.queries import literal
from holter.views.figure import Axis, Figure, Series
from holter.views.figures.tensors._statistics import chosen_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.views.reading import Reading

MISSING = "No histograms of it were saved: `holter run --save weights@100:histogram` saves them."
_BINS = 40
Piece = tuple[float, float, "NDArray[Any]"]
"""Least and greatest element of what a histogram is of, and its counts."""
_MOST_STEPS = 300


def draw(
    reading: Reading, *, tensor: str | None = None, rank: int | None = None, mode: str | None = None
) -> Figure | None:
    """Draw the first of some tensors that has histograms: a column a step, a row a stretch of values."""
    names = chosen_names(reading, tensor, 1, "histogram")
    if not names:
        return None
    (name,) = names
    chosen = f"name = {literal(name)}"
    chosen += f" AND mode = {literal(mode)}" if mode else ""
    chosen += f" AND rank = {int(rank)}" if rank is not None else ""
    counts = reading.trial.table("tensor_values", where=f"kind = 'histogram' AND {chosen}")
    ends = reading.trial.table(
        "tensors",
        columns=("step", "rank", "mode", "part", "parts", "min", "max", "count", "nan", "posinf", "neginf"),
        where=chosen,
    )
    columns = [(step, pieces) for step, pieces in _columns(counts, ends, alone=rank is not None) if pieces]
    if not columns:
        return None
    columns = columns[:: -(-len(columns) // _MOST_STEPS)]
    every = [piece for _, pieces in columns for piece in pieces]
    low, high = min(one[0] for one in every), max(one[1] for one in every)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    cells = np.array([_laid(pieces, edges) for _, pieces in columns])
    parts = int(ends["parts"].max(initial=0))
    return Figure(
        title=f"Distribution of {name}",
        kind="heatmap",
        x=[step for step, _ in columns],
        x_axis=Axis("step"),
        y_axis=Axis("elements", "%"),
        series=[
            Series(
                f"{(edges[at] + edges[at + 1]) / 2:.3g}", [float(v) if v > 0 else None for v in cells[:, at]]
            )
            for at in reversed(range(_BINS))
        ],
        note="Each column is a saved step, each row a stretch of values around the number; light is many."
        + (f" Joined over {parts} parts." if parts > 1 and rank is None else "")
        + (f" The part that rank {rank} holds, one of {parts}." if parts > 1 and rank is not None else ""),
    )


def _columns(counts: Table, ends: Table, *, alone: bool) -> Iterator[tuple[int, list[Piece]]]:
    """Yield each step with its histograms: of replicas the first, of parts one of each, none where one lacks.

    `alone`: whether what one rank holds is all that is asked for.
    """
    if not counts.rows:
        return
    known = {(row["step"], row["mode"], row["rank"]): row for row in ends.to_rows()}
    empty: dict[int, set[int]] = {}
    for one in ends.where(ends["count"] == ends["nan"] + ends["posinf"] + ends["neginf"]).to_rows():
        empty.setdefault(one["step"], set()).add(one["part"])
    order = np.lexsort((counts["position"], counts["rank"], counts["mode"].astype(str), counts["step"]))
    counts = counts.where(order)
    edges = np.flatnonzero(np.diff(counts["position"], prepend=1) <= 0)
    steps: dict[int, dict[int, Piece]] = {}
    wanted: dict[int, int] = {}
    for begin, end in zip(edges, [*edges[1:], counts.rows], strict=True):
        key = (int(counts["step"][begin]), str(counts["mode"][begin]), int(counts["rank"][begin]))
        values = counts["value"][begin:end]
        row = known.get(key)
        if row is not None and row["min"] <= row["max"] and values.sum() > 0:
            steps.setdefault(key[0], {}).setdefault(row["part"], (row["min"], row["max"], values))
            wanted[key[0]] = 1 if alone else max(row["parts"], 1)
    for step, pieces in steps.items():
        there = pieces.keys() | empty.get(step, set())
        yield step, list(pieces.values()) if len(there) >= wanted[step] else []


def _laid(pieces: Sequence[Piece], edges: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many percent lie between each two edges, elements being even within a bin."""
    found = np.zeros(len(edges) - 1)
    for first, last, values in pieces:
        own = np.linspace(first, last if last > first else first + 1e-12, len(values) + 1)
        found += np.diff(np.interp(edges, own, np.concatenate([[0.0], np.cumsum(values)])))
    total: float = sum(values.sum() for _, _, values in pieces)
    return found / total * 100.0
