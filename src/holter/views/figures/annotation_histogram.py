"""How long ranges of one name take, and how often: any annotation, operator, module or step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device_steps import device_ranges
from holter.views.figures._histogram import histogram

if TYPE_CHECKING:
    from holter.views.figures import Figure, Reading

MISSING = (
    "No range of that name was recorded. `with holter.annotate(name):` marks one, "
    "`torch.profiler.record_function` too, within a window of the profiler."
)


def draw(
    reading: Reading, *, name: str | None = None, where: str | None = None, rank: int | None = None
) -> Figure | None:
    """Draw durations of the ranges called `name`, on the host, or with `where="gpu"` of what they launched.

    Raises:
        ValueError: `where` is neither host nor gpu.
    """
    if where not in (None, "", "host", "gpu"):
        raise ValueError(f"where is {where!r}; valid: host, gpu")
    if not name:
        return None
    tables = reading.devices.narrowed(rank)
    mine = tables["operators"].where(tables["operators"]["name"] == name)
    begin = mine["time"].astype(np.int64)
    took = mine["duration"] / 1e6
    if not mine.rows:  # annotations of `holter.annotate` are kept through the whole job
        quoted = name.replace("'", "''")
        of_rank = "" if rank is None else f" AND rank = {int(rank)}"
        marked = reading.trial.table(
            "spans",
            columns=("time", "duration", "rank"),
            where=f"phase = 'annotation' AND name = '{quoted}'{of_rank}",
        )
        mine, begin, took = marked, marked["time"].astype(np.int64), marked["duration"] / 1e6
    if where == "gpu":
        found = device_ranges(tables, begin, begin + mine["duration"], mine["rank"])
        took = found["duration"][found["works"] > 0] / 1e6
    return histogram(f"Durations of {name}" + (" on GPUs" if where == "gpu" else ""), took, "ranges")
