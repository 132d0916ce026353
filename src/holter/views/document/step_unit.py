"""Says what a step of a job is: who counts the steps, and what they consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.schema.phases import NEXT_BATCH, SCRIPT
from holter.views.document.cost import details

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.trial import Trial

PLAIN = "one optimizer step"
_LOOKED_AT = 200
"""Steps in the middle of the job that are examined."""


def step_unit(trial: Trial, steps: Table, events: Table) -> str | None:
    """Return what a step is: `one optimizer step of lightning.Trainer, from 4 batches`; None if unknown.

    Args:
        trial: The job's tables.
        steps: Table `steps`.
        events: Table `events`, which says who counts the steps.
    """
    owners = [str(one.get("owner")) for one in details(events, "owner")]
    owner = owners[-1] if owners else ""
    if owner == SCRIPT:
        return "what holter.step() marks"
    rank = int(steps["rank"].min())
    numbers = np.unique(steps["step"][(steps["rank"] == rank) & (steps["mode"] == "train")])
    if not len(numbers):
        return None
    first = max(len(numbers) - _LOOKED_AT, 0) // 2
    low, high = int(numbers[first]), int(numbers[min(first + _LOOKED_AT, len(numbers)) - 1])
    spans = trial.table(
        "spans",
        where=f"worker = -1 AND rank = {rank} AND step BETWEEN {low} AND {high} "
        f"AND (phase IN ('optimizer', 'backward') OR name = '{NEXT_BATCH}')",
    )
    if not np.isin(spans["phase"], ("optimizer", "backward")).any():
        return f"one round of {owner}" if owner else None
    updates = _per_step(spans.where(spans["phase"] == "optimizer"), low, high)
    loads = spans.where((spans["phase"] == "data_loading") & ~np.isnan(spans["value"]))
    loaders, counts = np.unique(loads["value"], return_counts=True)
    if len(loaders):  # not the loader of an evaluation
        loads = loads.where(loads["value"] == loaders[counts.argmax()])
    batches = _per_step(loads, low, high)
    if not updates[1]:
        text = "one backward pass"
    elif updates[1] == 1:
        text = PLAIN
    else:
        text = f"one iteration with {_counts(updates)} optimizer steps"
    if owner:
        text += f" of {owner}"
    return f"{text}, from {_counts(batches)} batches" if batches[0] > 1 else text


def _per_step(spans: Table, low: int, high: int) -> tuple[int, int]:
    """Return how many spans a step has at least and at most, without the few steps that differ most."""
    counts = np.bincount(spans["step"] - low, minlength=high - low + 1)
    least, most = np.percentile(counts, (10, 90), method="nearest").tolist()
    return int(least), int(most)


def _counts(numbers: tuple[int, int]) -> str:
    least, most = numbers
    return str(most) if least == most else f"{least} to {most}"
