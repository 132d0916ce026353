"""The three phases of a job: initialization, training loop, finalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.phases import JOB_PHASES

if TYPE_CHECKING:
    from holter.schema.table import Table


def job_phases(start: int, end: int | None, steps: Table) -> dict[str, float | int | None]:
    """Split the job's time at the first step's begin and the last step's end.

    Args:
        start: When the job began, ns since the epoch.
        end: When it ended, or now; None when nobody knows, then finalization and percents are None.
        steps: Table `steps` of all ranks and modes.

    Returns:
        `<phase>_s` and `<phase>_pct` for each of `JOB_PHASES`, training_loop_start, training_loop_end (ns).
        Without steps all are None: where the loop lies is not known.
    """
    names = [f"{phase}_{unit}" for phase in JOB_PHASES for unit in ("s", "pct")]
    result: dict[str, float | int | None] = dict.fromkeys(
        [*names, "training_loop_start", "training_loop_end"]
    )
    if not steps.rows:
        return result
    first, last = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    # Clocks of nodes differ a little: a phase never has negative length.
    first = max(first, start)
    lengths: dict[str, int] = {"initialization": first - start, "training_loop": last - first}
    if end is not None:
        last = min(last, end) if end > first else last
        lengths["training_loop"] = last - first
        lengths["finalization"] = max(end - last, 0)
    total = sum(lengths.values())
    for phase, length in lengths.items():
        result[f"{phase}_s"] = length / 1e9
        if end is not None and total > 0:
            result[f"{phase}_pct"] = 100.0 * length / total
    result["training_loop_start"], result["training_loop_end"] = first, last
    return result
