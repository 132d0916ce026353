"""Everything a verdict and a description stand on, computed once from a job's tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.jobs.stragglers import Straggler, stragglers
from holter.analysis.loading.dataloading import COMPUTE, CPU_FULL, DataLoading, causes, loaders, stages
from holter.analysis.machine.load import Load, loads
from holter.analysis.steps.breakdown import breakdown, not_seen
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.warmup import steady
from holter.analysis.verdict.closer_look import closer_look
from holter.analysis.verdict.evidence import ms, pct
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.closer_look import Kernels, Look
    from holter.schema.table import Table


_TYPICAL = 0.75
"""A share that a usual step has so much of is one of each step."""


@dataclass(frozen=True, slots=True, order=True)
class Stall:
    """One step that took much of the loop."""

    share_pct: float
    """Percent of the loop."""
    step: int
    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A job in numbers. Steady state only, unless said otherwise."""

    breakdown: dict[str, float] = field(default_factory=dict)
    """Part → percent of the loop; adds up to 100."""
    statistics: dict[str, float | int] = field(default_factory=dict)
    """What `step_statistics` returns."""
    steady_steps: int = 0
    """Steps of the rank that has most."""
    step_ms: float | None = None
    """Median duration of a step that holds no evaluation and no checkpoint."""
    mean_step_ms: float | None = None
    """Mean duration of all steady steps, without evaluation: what `share` is a share of."""
    parts_ms: dict[str, float] = field(default_factory=dict)
    """Median of each part in those steps."""
    rest_ms: float | None = None
    """Median of what those steps take without the wait for batches."""
    rest_least_ms: float | None = None
    """The same for their fastest tenth."""
    ranks: tuple[int, ...] = ()
    window: dict[str, int] | None = None
    """step_start, step_end, time_start, time_end of what was looked at."""
    loading: DataLoading | None = None
    causes: list[str] = field(default_factory=list)
    """Why the training thread waits for batches; codes."""
    stragglers: list[Straggler] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    device: str | None = None
    """cpu or cuda, as the framework said."""
    baseline: Facts | None = None
    """Another job that this one should be as fast as."""
    kernels: Kernels | None = None
    look: Look | None = None
    """What a profiling window saw."""
    running: bool = False
    """Whether the job takes orders still."""
    not_seen: tuple[str, ...] = ()
    """Parts of a step that it must have had and that no hook saw; their time is in `other`."""
    not_counted: tuple[str, ...] = ()
    """What other threads than the loop's do, which steps leave out."""

    stalls: dict[str, Stall] = field(default_factory=dict)
    """Part → the one step that most of its time lies in; only of parts that have such a step."""

    def of_time(self, *parts: str) -> str:
        """Say what the share of some parts is a share of: of each step only where it is so in a usual one."""
        step, usual = self.step_ms or 0.0, sum(self.parts_ms.get(part, 0.0) for part in parts)
        if not step or 100 * usual / step >= _TYPICAL * self.share(*parts):
            return "of each step"
        worst = max((self.stalls[part] for part in parts if part in self.stalls), default=None)
        if worst is None:
            return "of the loop's time"
        took = f"step {worst.step} took {ms(worst.duration_ms)}"
        return f"of the loop's time ({took}, {pct(worst.share_pct)} of the loop)"

    @property
    def load(self) -> Load | None:
        """The node whose GPUs are the idlest; without GPUs the one whose CPU is the busiest."""
        return self.loads[0] if self.loads else None

    def mean_ms(self, part: str) -> float:
        """Mean time of a part per step, ms."""
        return self.share(part) / 100 * (self.mean_step_ms or 0.0)

    def share(self, *parts: str) -> float:
        """Percent of the time outside of evaluation that the parts take together; 0 without steps."""
        training = 100.0 - self.breakdown.get("eval", 0.0)
        return 100.0 * sum(self.breakdown.get(p, 0.0) for p in parts) / training if training > 0 else 0.0

    @property
    def compute_share(self) -> float:
        """Percent of the time outside of evaluation that is the model's own work."""
        return self.share(*COMPUTE)

    @property
    def free_rest_ms(self) -> float | None:
        """The step without the wait for batches, were nothing else running on the machine's cores.

        On a full CPU the workers slow the training process down, and stop doing so once they have less to do.
        What remains then is the CPU time that it uses itself, within what was seen of its steps.
        """
        load, rest, least = self.load, self.rest_ms, self.rest_least_ms
        if rest is None or least is None or load is None:
            return rest
        mean, own = self.mean_step_ms, load.trainer_core_mean
        if self.device == "cuda" or (load.cpu_p50 or 0.0) < CPU_FULL or mean is None or own is None:
            return rest
        return min(max(mean * own / 100, least), rest)


def gather(
    steps: Table,
    *,
    samples: Table | None = None,
    spans: Table | None = None,
    events: Table | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    baseline: Facts | None = None,
    kernels: Kernels | None = None,
    profiled: Mapping[str, Table] | None = None,
    running: bool = False,
    not_counted: tuple[str, ...] = (),
) -> Facts:
    """Compute the facts of a job; what is not given is not known.

    Args:
        steps: Table `steps`, warm-up included.
        samples: Table `samples`, of the whole job or more.
        spans: Table `spans`; of data_loading, fetch, collate, stack and step at least. A part of the job is
            enough.
        events: Table `events`; loaders and the framework are read from it.
        nodes: Node → its facts; `cpus` is used.
        baseline: Facts of a job to compare with.
        kernels: What a kernel trace says; by default what `profiled` says.
        profiled: The tables that `closer_look` asks for, of the steps that a window profiled.
        running: Whether the job takes orders still.
        not_counted: What other threads than the loop's do.
    """
    mask = steady(steps)
    used = steps.where(mask)
    listed = loaders(events) if events is not None else []
    found: dict[str, Any] = {
        "baseline": baseline,
        "kernels": kernels,
        "device": _device(events),
        "running": running,
        "not_counted": not_counted,
    }
    if used.rows:
        begin, end = int(used["time"].min()), int((used["time"] + used["duration"]).max())
        numbers = {"step_start": int(used["step"].min()), "step_end": int(used["step"].max())}
        plain = used.where((used["eval"] == 0) & (used["checkpoint"] == 0))
        plain = plain if plain.rows else used
        rest = plain["duration"] - plain["data_loading"]
        machines = loads(samples, nodes or {}, begin, end) if samples is not None else []
        loading = stages(spans, steps, listed, mask) if spans is not None else None
        first = machines[0] if machines else None
        found |= {
            "breakdown": breakdown(used, np.ones(used.rows, dtype=bool)),
            "not_seen": tuple(not_seen(used)),
            "stalls": _stalls(used),
            "step_ms": float(np.median(plain["duration"])) / 1e6,
            "mean_step_ms": float((used["duration"] - used["eval"]).mean()) / 1e6,
            "rest_ms": float(np.median(rest)) / 1e6,
            "rest_least_ms": float(np.percentile(rest, 10)) / 1e6,
            "parts_ms": {part: float(np.median(plain[part])) / 1e6 for part in BREAKDOWN},
            "steady_steps": int(np.unique(used["rank"], return_counts=True)[1].max()),
            "window": {**numbers, "time_start": begin, "time_end": end},
            "loading": loading,
            "causes": causes(
                loading,
                cpu_p50=first.cpu_p50 if first else None,
                iowait_p95=first.iowait_p95 if first else None,
            )
            if loading
            else [],
            "stragglers": stragglers(used),
            "loads": machines,
        }
    elif samples is not None:
        found["loads"] = loads(samples, nodes or {}, None, None)
    look = closer_look(profiled, found.get("step_ms")) if profiled is not None else None
    if look is not None:
        found |= {"look": look, "kernels": kernels or look.kernels}
    ranks = tuple(sorted(set(steps["rank"].tolist())))
    return Facts(statistics=step_statistics(steps, mask), ranks=ranks, **found)


def _stalls(steps: Table) -> dict[str, Stall]:
    found, loop = {}, int(steps["duration"].sum())
    for part in BREAKDOWN:
        row = int(steps[part].argmax())
        if 2 * int(steps[part][row]) > int(steps[part].sum()):
            took = int(steps["duration"][row])
            found[part] = Stall(100.0 * took / loop, int(steps["step"][row]), took / 1e6)
    return found


def _device(events: Table | None) -> str | None:
    if events is None:
        return None
    for row in events.where(events["kind"] == "framework").to_rows():
        try:
            detail = json.loads(row["detail"])
        except ValueError:
            continue
        if isinstance(detail, dict) and detail.get("device"):
            return str(detail["device"])
    return None
