"""What happened to a job, and when: findings, checkpoints, epochs, profiling windows, and the first NaN.

Charts over time or steps mark these moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from holter.views.document.progress import epoch_begins
from holter.views.tensors import first_nonfinite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.views.reading import Reading

MOST = 60
"""Marks of one kind; of more, some are left out at even distances."""

_Kind = Literal["finding", "nonfinite", "checkpoint", "epoch", "window"]


class Mark(TypedDict):
    """A moment or a stretch of a job."""

    kind: _Kind
    begin: float
    """Seconds since the start of the job."""
    end: float
    text: str


def marks(reading: Reading) -> list[Mark]:
    """Return the marks of a job in the order of time."""
    found = [*_findings(reading), *_nonfinite(reading), *_checkpoints(reading)]
    return sorted([*found, *_epochs(reading), *_windows(reading)], key=lambda one: one["begin"])


def _mark(reading: Reading, kind: _Kind, begin: int, end: int, text: str) -> Mark:
    since = max((begin - reading.start) / 1e9, 0.0)
    return {"kind": kind, "begin": since, "end": max((end - reading.start) / 1e9, since), "text": text}


def _findings(reading: Reading) -> Iterator[Mark]:
    issues = (
        (rule["name"], issue)
        for rule in reading.description["rules"]
        for issue in rule["issues"]
        if issue["severity"] != "info"
    )
    for _, (name, issue) in zip(range(MOST), issues, strict=False):
        begin, end = issue.get("time_start"), issue.get("time_end")
        if begin is not None:
            yield _mark(reading, "finding", begin, begin if end is None else end, name)


def _nonfinite(reading: Reading) -> Iterator[Mark]:
    found = first_nonfinite(reading.trial)
    if found is None or found["step"] is None:
        return
    steps = reading.steps
    mine = steps.where(steps["step"] == found["step"]) if steps.rows else steps
    if mine.rows:
        begin = int(mine["time"].min())
        yield _mark(reading, "nonfinite", begin, begin, f"first NaN or infinity, step {found['step']:,}")


def _checkpoints(reading: Reading) -> Iterator[Mark]:
    spans = reading.trial.table("spans", where="phase = 'checkpoint'")
    if not spans.rows:
        return
    mine = spans.where(spans["rank"] == spans["rank"].min()).sorted("time")
    for at in _spread(mine.rows):
        begin, length = int(mine["time"][at]), int(mine["duration"][at])
        yield _mark(reading, "checkpoint", begin, begin + length, "checkpoint")


def _epochs(reading: Reading) -> Iterator[Mark]:
    begins = epoch_begins(reading)
    if len(begins) < 2:  # also where each epoch makes a data loader of its own: the later ones are not known
        return
    for at in _spread(len(begins)):
        yield _mark(reading, "epoch", begins[at], begins[at], f"epoch {at + 1:,}")


def _windows(reading: Reading) -> Iterator[Mark]:
    told = set()
    for one in reading.profiled.windows:
        begin, end = one.get("begin"), one.get("end")
        if not isinstance(begin, int) or not isinstance(end, int):
            continue
        steps = one.get("first_step"), one.get("last_step")
        if steps in told:  # of another rank
            continue
        told.add(steps)
        if len(told) > MOST:
            return
        yield _mark(reading, "window", begin, end, "profiled")


def _spread(count: int) -> list[int]:
    """Return at most `MOST` places of so many things, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST)).astype(np.int64)).tolist() if count else []
