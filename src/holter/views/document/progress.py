"""Computes the progress of a job: steps, epochs and the time left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.views.document.planned import loader_batches

if TYPE_CHECKING:
    from holter.views.reading import Reading


def progress(reading: Reading, total_steps: int | None = None) -> dict[str, Any]:
    """Return the progress of a job; an unknown value is None.

    Args:
        reading: The job.
        total_steps: How many steps it will take, where somebody typed it; else it is looked for.

    Returns:
        `step` (steps taken, by their number), `per_second`, `epoch` (which one, from 1), `epoch_s` (the
        median one), `epoch_left_s`, `total` (steps of the whole job) and `total_from` (who said so),
        `share_pct` and `left_s` of the whole job.
    """
    steps, described = reading.steps, reading.description["steps"]
    found: dict[str, Any] = dict.fromkeys(
        (
            "step",
            "per_second",
            "epoch",
            "epoch_s",
            "epoch_left_s",
            "total",
            "total_from",
            "share_pct",
            "left_s",
        )
    )
    if not steps.rows:
        return found
    found["step"] = int(steps["step"].max()) + 1
    found["per_second"] = described["per_second"] if described else None
    main = reading.main_loader
    loader, batches, begins, a_step = (
        (main.number, main.batches, main.begins, main.a_step) if main else (None, 0, [], 0)
    )
    if begins:
        found["epoch"] = len(begins)
    newest = int((steps["time"] + steps["duration"]).max())
    if len(begins) > 1:
        found["epoch_s"] = float(np.median(np.diff(begins))) / 1e9
        found["epoch_left_s"] = max(found["epoch_s"] - (newest - begins[-1]) / 1e9, 0.0)
    elif begins and found["per_second"] and a_step and (whole := loader_batches(reading.trial, loader)):
        found["epoch_left_s"] = max(whole - batches, 0) / (found["per_second"] * a_step)
    if total_steps:
        found["total"], found["total_from"] = total_steps, "what was typed"
    elif said := reading.planned:
        found["total"], found["total_from"] = said
    if found["total"]:
        found["share_pct"] = min(100.0 * found["step"] / found["total"], 100.0)
        if found["per_second"]:
            found["left_s"] = max(found["total"] - found["step"], 0) / found["per_second"]
    return found
