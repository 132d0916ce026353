"""How far a job is: its steps, its epochs, and when it will be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from holter.views.figures import Reading

_LOADS = f"phase = 'data_loading' AND worker = -1 AND name IN ('{ITERATOR_START}', '{NEXT_BATCH}')"


def progress(reading: Reading, total_steps: int | None = None) -> dict[str, Any]:
    """Return how far a job is; what is not known is None.

    Args:
        reading: The job.
        total_steps: How many steps it will take, where somebody knows.

    Returns:
        `step` (steps taken, by their number), `per_second`, `epoch` (which one, from 1), `epoch_s` (the
        median one), `epoch_left_s`, `share_pct` and `left_s` of the whole job.
    """
    told, steps = reading.description, reading.steps
    found: dict[str, Any] = dict.fromkeys(
        ("step", "per_second", "epoch", "epoch_s", "epoch_left_s", "share_pct", "left_s")
    )
    if not steps.rows:
        return found
    found["step"] = int(steps["step"].max()) + 1
    found["per_second"] = (told["steps"] or {}).get("per_second")
    begins = _epochs(reading)
    if begins:
        found["epoch"] = len(begins)
    if len(begins) > 1:
        found["epoch_s"] = float(np.median(np.diff(begins))) / 1e9
        newest = int((steps["time"] + steps["duration"]).max())
        found["epoch_left_s"] = max(found["epoch_s"] - (newest - begins[-1]) / 1e9, 0.0)
    if total_steps:
        found["share_pct"] = min(100.0 * found["step"] / total_steps, 100.0)
        if found["per_second"]:
            found["left_s"] = max(total_steps - found["step"], 0) / found["per_second"]
    return found


def _epochs(reading: Reading) -> list[int]:
    """Return when the main loader, the one that gave most batches, was started; ns, ascending."""
    table = reading.trial.sql(
        "SELECT value, count(*) FILTER (name = 'next batch') AS batches, "  # noqa: S608
        f"list(time ORDER BY time) FILTER (name = '{ITERATOR_START}') AS begins FROM spans "
        f"WHERE {_LOADS} AND rank = (SELECT min(rank) FROM spans WHERE {_LOADS}) AND NOT isnan(value) "
        "GROUP BY value ORDER BY batches DESC LIMIT 1"
    )
    if not table.rows or table["begins"][0] is None:
        return []
    return [int(time) for time in table["begins"][0]]
