"""Work of each data-loader worker over time, and the waits of the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.views.figure import Axis, Figure, Series
from holter.views.figures.loading._fetches import MISSING

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.views.reading import Reading

__all__ = ["MISSING", "draw"]
_BATCHES = 24
_MOST = 4000
_WAIT = "next batch"


def draw(reading: Reading, *, rank: int | None = None) -> Figure | None:
    """Draw a row for each worker of a rank, and one for the waits of the training thread.

    Without a window, the chart shows a few batches in the middle of the job.
    """
    loading = reading.loading
    if not loading.ranks:
        return None
    if rank is not None and rank not in loading.ranks:
        raise ValueError(f"rank {rank} loads nothing; there are: {', '.join(map(str, loading.ranks))}")
    rank = loading.ranks[0] if rank is None else rank
    low, high = _stretch(reading, rank)
    spans = loading.between(low, high, rank).sorted("time")
    built = spans.where(spans["phase"] != "data_loading")
    if not built.rows and not (spans["name"] == _WAIT).any():
        return None
    cut = spans.rows > _MOST
    spans = spans.where(slice(0, _MOST))
    numbers = sorted({int(worker) for worker in np.unique(spans["worker"][spans["phase"] == "fetch"])} - {-1})
    names = ["training waits", *(f"worker {number}" for number in numbers)]
    own = bool(((spans["phase"] == "fetch") & (spans["worker"] < 0)).any())
    if own:
        names.insert(1, "training loads")
    row_of = {number: at + 1 + own for at, number in enumerate(numbers)} | {-1: 1}

    def series(name: str, key: str, mine: Table, *, waits: bool = False) -> Series:
        rows = [0.0] * mine.rows if waits else [float(row_of.get(int(w), 1)) for w in mine["worker"]]
        begin = np.maximum(mine["time"], low)
        until = np.minimum(mine["time"] + mine["duration"], high)
        offset = reading.start
        return Series(
            name, list(rows), ((begin - offset) / 1e9).tolist(), ((until - offset) / 1e9).tolist(), key=key
        )

    waits = spans.where((spans["phase"] == "data_loading") & (spans["worker"] < 0))
    return Figure(
        title="Workers of the data loader",
        kind="stretches",
        x=[(low - reading.start) / 1e9, (high - reading.start) / 1e9],
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("worker"),
        series=[
            series("waits for a batch", "data_loading", waits, waits=True),
            series("builds a batch", "forward", spans.where(spans["phase"] == "fetch")),
            series("joins its samples", "optimizer", spans.where(spans["phase"] == "collate")),
        ],
        rows=names,
        note=" ".join(
            filter(None, (f"Rank {rank}.", f"The first {_MOST:,} stretches are drawn." * cut, loading.note))
        ),
    )


def _stretch(reading: Reading, rank: int) -> tuple[int, int]:
    if reading.window is not None:
        return reading.since, reading.until
    spans = reading.loading.spans
    mine = spans.where((spans["rank"] == rank) & (spans["name"] == _WAIT)).sorted("time")
    mine = mine if mine.rows else spans.where(spans["rank"] == rank).sorted("time")
    middle = mine.rows // 2 if mine.rows > 2 * _BATCHES else 0
    some = mine.where(slice(middle, middle + _BATCHES))
    return int(some["time"][0]), int((some["time"] + some["duration"]).max())
