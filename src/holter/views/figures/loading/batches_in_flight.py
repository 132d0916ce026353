"""Number of batches in work and in the queue, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.loading.loader_timeline import in_flight
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.views.reading import Reading

MISSING = "No batch was seen on its way from a worker to the training: a loader without workers has none."


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw the mean of each stretch of time, of all loaders; of several ranks the mean of these."""
    batches = reading.loading.batches
    if rank is not None:
        batches = batches.where(batches["rank"] == rank)
    counted = in_flight(batches)
    if not counted.rows:
        return None
    first, last = int(counted["time"].min()), int(counted["time"].max())
    if reading.window is not None:
        first, last = max(first, reading.since), min(last, reading.until)
    if last <= first:
        return None
    edges = np.linspace(first, last, reading.width + 1)
    ranks = np.unique(counted["rank"]).tolist()
    sums = {name: np.zeros(reading.width) for name in ("building", "ready")}
    for rank_, loader in sorted({*zip(counted["rank"].tolist(), counted["loader"].tolist(), strict=True)}):
        mine = counted.where((counted["rank"] == rank_) & (counted["loader"] == loader))
        for name, total in sums.items():
            total += _means(mine, name, edges) / len(ranks)
    x = (((edges[:-1] + edges[1:]) / 2 - reading.start) / 1e9).tolist()
    return Figure(
        title="Batches on their way",
        kind="stacked",
        x=x,
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("batches"),
        series=[
            Series("being built", list(sums["building"].tolist())),
            Series("ready, in the queue", list(sums["ready"].tolist())),
        ],
        note=" ".join(
            filter(
                None,
                (
                    "An empty queue is what the training waits for.",
                    "Mean of all ranks." if len(ranks) > 1 else "",
                    reading.loading.note,
                ),
            )
        ),
    )


def _means(counted: Table, name: str, edges: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean over time, between each two edges, of a count that holds until it changes."""
    time = counted["time"].astype(np.float64)
    whole = np.concatenate([[0.0], np.cumsum(counted[name][:-1] * np.diff(time))])
    return np.asarray(np.diff(np.interp(edges, time, whole)) / np.diff(edges))
