"""Computes the progress of a job: steps, epochs and the time left."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np

from holter.views.document.planned import loader_batches

if TYPE_CHECKING:
    from holter.store.trial import Trial
    from holter.views.reading import Reading


class JobProgress(TypedDict):
    """The progress of a job; an unknown value is None."""

    step: int | None
    """Steps taken, by their number."""
    per_second: float | None
    epoch: int | None
    """The current epoch, from 1."""
    epoch_s: float | None
    """The median length of an epoch."""
    epoch_left_s: float | None
    total: int | None
    """Steps of the whole job."""
    total_from: str | None
    """The source of `total`."""
    share_pct: float | None
    left_s: float | None


def _told_epochs(trial: Trial) -> list[int]:
    """Return the begins of the epochs that a trainer reports, ns, on the lowest rank."""
    events = trial.table("events", where="kind = 'epoch'")
    mine = events.where(events["rank"] == events["rank"].min()) if events.rows else events
    return [int(time) for time in np.sort(mine["time"]).tolist()]


def epoch_begins(reading: Reading) -> list[int]:
    """Return when the epochs began, ns: those that a trainer reports, else those of the main data loader."""
    main = reading.main_loader
    return _told_epochs(reading.trial) or (list(main.begins) if main else [])


def progress(reading: Reading, total_steps: int | None = None) -> JobProgress:
    """Return the progress of a job; `total_steps` is the number of steps that the reader typed."""
    steps, described, main = reading.steps, reading.description["steps"], reading.main_loader
    if not steps.rows:
        return cast("JobProgress", dict.fromkeys(JobProgress.__annotations__))
    step = int(steps["step"].max()) + 1
    per_second = described["per_second"] if described else None
    begins = epoch_begins(reading)
    epoch_s = epoch_left_s = None
    if len(begins) > 1:
        newest = int((steps["time"] + steps["duration"]).max())
        epoch_s = float(np.median(np.diff(begins))) / 1e9
        epoch_left_s = max(epoch_s - (newest - begins[-1]) / 1e9, 0.0)
    elif (
        main
        and begins
        and per_second
        and main.a_step
        and (whole := loader_batches(reading.trial, main.number))
    ):
        epoch_left_s = max(whole - main.batches, 0) / (per_second * main.a_step)
    total, total_from = (total_steps, "what was typed") if total_steps else reading.planned or (None, None)
    return {
        "step": step,
        "per_second": per_second,
        "epoch": len(begins) or None,
        "epoch_s": epoch_s,
        "epoch_left_s": epoch_left_s,
        "total": total,
        "total_from": total_from,
        "share_pct": min(100.0 * step / total, 100.0) if total else None,
        "left_s": max(total - step, 0) / per_second if total and per_second else None,
    }
