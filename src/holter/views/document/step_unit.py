"""Says what a step of a job is: who counts the steps, and what they consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.events import details, framework
from holter.schema.phases import NEXT_BATCH, SCRIPT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.trial import Trial

PLAIN = "one optimizer step"
_WHOLE = {"keras": "one batch of keras"}
"""Owner of the steps → what a step is, where only the whole step is seen."""
_LOOKED_AT = 200
"""Steps in the middle of the job that are examined."""


def step_unit(trial: Trial, steps: Table, events: Table) -> str | None:
    """Return what a step is: `one optimizer step of lightning.Trainer, from 4 batches`; None if unknown.

    Args:
        trial: The job's tables.
        steps: Table `steps`.
        events: Table `events`, which says who counts the steps.
    """
    owners = [str(detail.get("owner")) for _, detail in details(events, "owner")]
    owner = owners[-1] if owners else ""
    if owner == SCRIPT:
        return "what holter.step() marks"
    rank = int(steps["rank"].min())
    numbers = np.sort(steps["step"][(steps["rank"] == rank) & (steps["mode"] == "train")])
    if not len(numbers):
        return None
    # Numbers of steps are nearly in order already: this is faster than `np.unique` by far.
    numbers = numbers[np.diff(numbers, prepend=numbers[0] - 1) > 0]
    first = max(len(numbers) - _LOOKED_AT, 0) // 2
    low, high = int(numbers[first]), int(numbers[min(first + _LOOKED_AT, len(numbers)) - 1])
    spans = trial.table(
        "spans",
        columns=("step", "phase", "value"),
        where=f"worker = -1 AND rank = {rank} AND step BETWEEN {low} AND {high} "
        f"AND (phase IN ('optimizer', 'backward') OR name = '{NEXT_BATCH}')",
    )
    if not np.isin(spans["phase"], ("optimizer", "backward")).any():
        called = (framework(events) or {}).get("step")
        if called and "at_once" in steps and (steps["at_once"] > 1).any():
            return f"one update of the parameters in {called}"
        if called:
            return f"one call of {called}"
        return _WHOLE.get(owner, f"one round of {owner}") if owner else None
    updates = _per_step(spans.where(spans["phase"] == "optimizer"), low, high)
    # Steps of several optimizers differ, such as those of a critic. The most have as many as these.
    least, most = (int(count) for count in np.percentile(updates, (10, 90), method="nearest"))
    text = PLAIN if most else "one backward pass"
    if most > 1:
        text = f"one iteration with {f'{least} to {most}' if least < most else most} optimizer steps"
    if owner:
        text += f" of {owner}"
    loads = spans.where((spans["phase"] == "data_loading") & ~np.isnan(spans["value"]))
    loaders, counts = np.unique(loads["value"], return_counts=True)
    if len(loaders):  # not the loader of an evaluation
        loads = loads.where(loads["value"] == loaders[counts.argmax()])
        # An epoch may have a loader of its own, such as those that DeepSpeed makes.
        low, high = int(loads["step"].min()), int(loads["step"].max())
    batches = int(np.median(_per_step(loads, low, high)))
    return f"{text}, from {batches} batches" if batches > 1 else text


def _per_step(spans: Table, low: int, high: int) -> NDArray[np.int64]:
    """Return the number of spans of each step."""
    return np.bincount(spans["step"] - low, minlength=high - low + 1)
