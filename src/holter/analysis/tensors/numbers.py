"""Summarizes the scalars of a training: loss, learning rate and logged numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.tensors.shards import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

MOST = 12


def numbers(scalars: Table, most: int = MOST) -> list[dict[str, object]]:
    """Summarize each number and mode: first value, newest value and range.

    Args:
        scalars: Table `scalars`; rows without a step count for nothing.
        most: Of how many at most, losses and learning rates before others, then those written most often.

    Returns:
        `name`, `mode`, `steps` (that have it), `first_step`, `first`, `last_step`, `last`, `least`,
        `least_step`, `most`, `most_step`: of each step the mean over ranks. Values that are not finite are
        left out and counted in `nonfinite`; where there are no others the values and their steps are None.
    """
    stepped = scalars["step"] >= 0
    rows = joined(scalars if stepped.all() else scalars.where(stepped))
    found = groups(rows["name"], rows["mode"])
    listed = sorted(found.items(), key=lambda item: (_place(item[0][0]), -len(item[1]), item[0]))
    return [
        {"name": name, "mode": mode, **_summary(rows["step"][own], rows["value"][own])}
        for (name, mode), own in listed[:most]
    ]


def _place(name: str) -> int:
    return 0 if "loss" in name.lower() and "scal" not in name.lower() else 1 if name.startswith("lr") else 2


def _summary(step: NDArray[Any], value: NDArray[Any]) -> dict[str, float | int | None]:
    if (step[1:] < step[:-1]).any():  # those of one rank are in order, and sorting millions takes seconds
        order = np.argsort(step, kind="stable")
        step, value = step[order], value[order]
    finite = np.isfinite(value)
    found: dict[str, float | int | None] = {"steps": len(_begins(step)), "nonfinite": int((~finite).sum())}
    names = ("first", "last", "least", "most")
    if not finite.any():
        return found | dict.fromkeys(key for name in names for key in (name, f"{name}_step"))
    step, value = step[finite], value[finite]
    begins = _begins(step)
    means = np.add.reduceat(value, begins) / np.diff(begins, append=len(value))
    places = (0, len(means) - 1, int(means.argmin()), int(means.argmax()))
    for name, place in zip(names, places, strict=True):
        found |= {name: float(means[place]), f"{name}_step": int(step[begins[place]])}
    return found


def _begins(step: NDArray[Any]) -> NDArray[np.int64]:
    """Return the first row of each step in rows that are in order."""
    return np.flatnonzero(np.diff(step, prepend=step[0] - 1)) if len(step) else np.zeros(0, np.int64)
