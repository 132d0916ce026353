"""The phases of a job: initialization, training loop, evaluation after its last step, finalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.schema.phases import JOB_PHASES

if TYPE_CHECKING:
    from holter.schema.table import Table

BETWEEN_NS = 1_000_000_000
"""Two batches of one evaluation lie at most so far apart, or as far as the longest of its spans takes."""


def evaluated(spans: Table) -> int:
    """Return how long models evaluated, with the loading of their batches and the code between them, ns.

    Args:
        spans: Forward passes and data loading of the main thread of one rank since its last step.
    """
    forward = spans["phase"].astype(str) == "forward"
    spans = spans.where(~forward | np.isin(spans["mode"].astype(str), ("eval", "predict")))
    order = np.argsort(spans["time"], kind="stable")
    begin, duration = spans["time"][order], spans["duration"][order]
    forward = (spans["phase"].astype(str) == "forward")[order]
    if not forward.any():
        return 0
    ends = np.maximum.accumulate(begin + duration)
    apart = np.flatnonzero(begin[1:] - ends[:-1] > max(BETWEEN_NS, int(duration.max()))) + 1
    total = 0
    for stretch in np.split(np.arange(len(begin)), apart):
        if forward[stretch].any():
            total += int(ends[stretch[-1]] - begin[stretch[0]])
    return total


def job_phases(
    start: int, end: int | None, steps: Table, evaluation: int = 0
) -> dict[str, float | int | None]:
    """Split the job's time at the first step's begin and the last step's end.

    Args:
        start: When the job began, ns since the epoch.
        end: When it ended, or now; None when nobody knows, then finalization and percents are None.
        steps: Table `steps` of all ranks and modes.
        evaluation: How long models evaluated after the last step, ns; the rest is finalization.

    Returns:
        `<phase>_s` and `<phase>_pct` for each of `JOB_PHASES`, training_loop_start, training_loop_end (ns).
        `evaluation` is None where no model evaluated after the last step. Without steps all are None: where
        the loop lies is not known. Where all steps lie before the start, only the loop's values are there.
    """
    names = [f"{phase}_{unit}" for phase in JOB_PHASES for unit in ("s", "pct")]
    result: dict[str, float | int | None] = dict.fromkeys(
        [*names, "training_loop_start", "training_loop_end"]
    )
    if not steps.rows:
        return result
    first, last = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    if last <= start:  # the clock was set meanwhile: the loop's length is known, its place in the job is not
        result["training_loop_s"] = (last - first) / 1e9
        result["training_loop_start"], result["training_loop_end"] = first, last
        return result
    # Clocks of nodes differ a little: a phase never has negative length.
    first = max(first, start)
    lengths: dict[str, int] = {"initialization": first - start, "training_loop": last - first}
    if end is not None:
        last = min(last, end) if end > first else last
        lengths["training_loop"] = last - first
        after = max(end - last, 0)
        if evaluation:
            lengths["evaluation"] = min(evaluation, after)
        lengths["finalization"] = after - lengths.get("evaluation", 0)
    total = sum(lengths.values())
    for phase, length in lengths.items():
        result[f"{phase}_s"] = length / 1e9
        if end is not None and total > 0:
            result[f"{phase}_pct"] = 100.0 * length / total
    result["training_loop_start"], result["training_loop_end"] = first, last
    return result
