"""The distribution of one tensor's elements at each step that a histogram was saved of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.store.parquet import literal
from holter.views.figures import Axis, Figure, Series
from holter.views.figures._tensors import chosen_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.views.figures import Reading

MISSING = "No histograms of it were saved: `holter run --save weights@100:histogram` saves them."
_BINS = 40
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
        columns=("time", "step", "rank", "mode", "min", "max"),
        where=f"{chosen} AND NOT isnan(min)",
    )
    columns = list(_columns(counts, ends))
    if not columns:
        return None
    columns = columns[:: -(-len(columns) // _MOST_STEPS)]
    low, high = min(one[1] for one in columns), max(one[2] for one in columns)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    cells = np.array([_laid(values, first, last, edges) for _, first, last, values in columns])
    return Figure(
        title=f"Distribution of {name}",
        kind="heatmap",
        x=[step for step, _, _, _ in columns],
        x_axis=Axis("step"),
        y_axis=Axis("elements", "%"),
        series=[
            Series(
                f"{(edges[at] + edges[at + 1]) / 2:.3g}", [float(v) if v > 0 else None for v in cells[:, at]]
            )
            for at in reversed(range(_BINS))
        ],
        note="Each column is a saved step, each row a stretch of values around the number; light is many.",
    )


def _columns(counts: Table, ends: Table) -> Any:
    """Yield step, least, greatest and counts of each histogram, in the order of steps."""
    if not counts.rows:
        return
    known = {(row["step"], row["mode"], row["rank"]): (row["min"], row["max"]) for row in ends.to_rows()}
    order = np.lexsort((counts["position"], counts["rank"], counts["mode"].astype(str), counts["step"]))
    counts = counts.where(order)
    edges = np.flatnonzero(np.diff(counts["position"], prepend=1) <= 0)
    seen: set[int] = set()
    for begin, end in zip(edges, [*edges[1:], counts.rows], strict=True):
        key = (int(counts["step"][begin]), str(counts["mode"][begin]), int(counts["rank"][begin]))
        values = counts["value"][begin:end]
        if key in known and key[0] not in seen and values.sum() > 0:  # of several ranks the first
            seen.add(key[0])
            yield key[0], *known[key], values


def _laid(values: NDArray[Any], first: float, last: float, edges: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many percent lie between each two edges, elements being even within a bin."""
    own = np.linspace(first, last if last > first else first + 1e-12, len(values) + 1)
    cumulated = np.concatenate([[0.0], np.cumsum(values)]) / values.sum() * 100.0
    return np.diff(np.interp(edges, own, cumulated))
