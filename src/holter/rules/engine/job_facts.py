"""The facts of a job that rules receive, and the steps that show the speed of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table

WARMUP_STEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts of the job as known at the end of the window. Times are ns since the epoch."""

    start: int
    interval_ms: int = 500
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The hardware of each node: `cpus`, `memory_bytes`, `shm_bytes`, `gpus`; and its `scheduler`."""
    first_step: int | None = None
    """When the first step of any rank began; None until a step has ended."""
    warm: Mapping[int, int] = field(default_factory=dict)
    """Rank → when its warm-up, of ten steps, ended."""
    active: Mapping[int, int] = field(default_factory=dict)
    """Rank → when its newest span ended, including spans of its data-loader workers."""
    trainers: bool = False
    """Whether a training process is recorded, so that steps can be expected."""
    ended: bool = False
    """Whether this window is the last one."""
    observed: tuple[str, ...] = ()
    """The parts of a step that the framework's adapter observes; empty if it observes all."""
    total_steps: int | None = None
    """The number of steps of the whole job, as the user gave it."""
    url: str = ""
    """The URL of the job; empty for tables without a job. The rules of this package do not use it."""

    def observes(self, part: str) -> bool:
        """Return whether the adapter observes a part of a step, so that no time means that it took none."""
        return not self.observed or part in self.observed

    @property
    def loop(self) -> int | None:
        """The end of warm-up on every rank; from then on the load of the machine can be judged.

        None while steps are expected and warm-up lasts; the job's start when no process is recorded.
        """
        if self.warm:
            return max(self.warm.values())
        return None if self.trainers or self.first_step is not None else self.start

    @property
    def ends(self) -> int | None:
        """When the scheduler ends the job at the latest; None without a known time limit."""
        entries = (facts.get("scheduler") or {} for facts in self.nodes.values())
        return min((end for one in entries if isinstance(end := one.get("ends"), int)), default=None)

    def gpu_model(self, node: str, device: str) -> str:
        """Return the name of a GPU's model; empty if it is unknown."""
        gpus = self.nodes.get(node, {}).get("gpus") or ()
        return next((str(gpu.get("name") or "") for gpu in gpus if gpu.get("device") == device), "")


def job_facts(steps: Table | None, *, start: int, **facts: Any) -> JobFacts:
    """Compute a job's facts from all of its steps."""
    warm: dict[int, int] = {}
    active: dict[int, int] = {}
    first = None
    if steps is not None and steps.rows:
        first = int(steps["time"].min())
        for rank in np.unique(steps["rank"]).tolist():
            ends = np.sort((steps["time"] + steps["duration"])[steps["rank"] == rank])
            active[rank] = int(ends[-1])
            if len(ends) >= WARMUP_STEPS:
                warm[rank] = int(ends[WARMUP_STEPS - 1])
    return JobFacts(start=start, **{"first_step": first, "warm": warm, "active": active, **facts})


def steps_span(steps: Table) -> dict[str, int]:
    """Return the first and the last of these steps and their times, for an issue."""
    return {
        "step_start": int(steps["step"].min()),
        "step_end": int(steps["step"].max()),
        "time_start": int(steps["time"].min()),
        "time_end": int((steps["time"] + steps["duration"]).max()),
    }


def warm(steps: Table, job: JobFacts) -> Table:
    """Return the steps after warm-up; ranks that still warm up are left out."""
    if not steps.rows:
        return steps
    never = np.iinfo(np.int64).max
    ranks = np.unique(steps["rank"])
    since = np.array([job.warm.get(int(rank), never) for rank in ranks], dtype=np.int64)
    if int(steps["time"].min()) >= int(since.max()):
        return steps  # the usual case after the start of a job
    return steps.where(steps["time"] >= since[np.searchsorted(ranks, steps["rank"])])


def steady(steps: Table) -> Table:
    """Return the steps without compilation, evaluation or checkpoint."""
    busy = (steps["compile"] > 0) | (steps["eval"] > 0) | (steps["checkpoint"] > 0)
    keep = ~busy & (steps["mode"] != "eval") & (steps["duration"] > 0)
    return steps if keep.all() else steps.where(keep)
