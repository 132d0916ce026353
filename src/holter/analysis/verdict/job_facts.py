"""Facts of a recorded job: the numbers behind its verdict and description, computed from its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import details
from holter.analysis.jobs.stragglers import Straggler, stragglers
from holter.analysis.loading.dataloading import COMPUTE, CPU_FULL, DataLoading, causes, loaders, stages
from holter.analysis.machine.load import Load, loads
from holter.analysis.steps.breakdown import breakdown, not_seen
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.own_code import OwnCode, divided, own_code
from holter.analysis.steps.warmup import steady
from holter.analysis.verdict.evidence import Evidence, ms, pct
from holter.analysis.verdict.profiled_steps import profiled_steps
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.profiled_steps import KernelTimes, ProfiledSteps
    from holter.schema.table import Table


_TYPICAL = 0.75
"""A part whose share of a typical step is at least this fraction of its mean share is a part of each step."""


@dataclass(frozen=True, slots=True, order=True)
class Stall:
    """One step that holds most of the time of a part."""

    share_pct: float
    """Percent of the loop."""
    step: int
    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class VerdictFacts:
    """A job in numbers. They are about the steady state unless stated otherwise."""

    breakdown: dict[str, float] = field(default_factory=dict)
    """Part → percent of the loop; adds up to 100."""
    statistics: dict[str, float | int] = field(default_factory=dict)
    """The result of `step_statistics`."""
    steady_steps: int = 0
    """Steady steps of the rank with the most."""
    step_ms: float | None = None
    """Median duration of a step without evaluation and checkpoint."""
    mean_step_ms: float | None = None
    """Mean duration of all steady steps, without evaluation. `share` is a share of it."""
    parts_ms: dict[str, float] = field(default_factory=dict)
    """Median of each part in those steps."""
    rest_ms: float | None = None
    """Median duration of those steps without the wait for batches."""
    rest_least_ms: float | None = None
    """The same for the fastest tenth of these steps."""
    ranks: tuple[int, ...] = ()
    window: dict[str, int] | None = None
    """step_start, step_end, time_start, time_end of the steady steps."""
    loading: DataLoading | None = None
    causes: list[str] = field(default_factory=list)
    """Codes of the reasons why the training thread waits for batches."""
    stragglers: list[Straggler] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    device: str | None = None
    """cpu or cuda, as the framework reports."""
    framework: str | None = None
    """The framework that trains; the advice uses its terms."""
    observed: tuple[str, ...] = ()
    """The parts of a step that its hooks observe; empty = all of them."""
    kernels: KernelTimes | None = None
    profiled: ProfiledSteps | None = None
    """The newest profiled steps."""
    running: bool = False
    """Whether the job still runs and accepts orders."""
    not_seen: tuple[str, ...] = ()
    """Parts that each step has but that no hook observed; their time is in `other`."""
    not_counted: tuple[str, ...] = ()
    """Work of other threads than the loop's, which steps do not include."""

    own_code: list[OwnCode] = field(default_factory=list)
    """Functions that take the time outside all known parts, the largest first."""
    collecting_pct: float = 0.0
    """Percent of the loop in garbage collections that a span shows."""
    stalls: dict[str, Stall] = field(default_factory=dict)
    """Part → the step that holds more than half of the part's time, if there is one."""

    def seen(
        self, text: str, metric: str, value: float, threshold: float | None = None, where: str | None = None
    ) -> Evidence:
        """Make evidence from the steady steps."""
        return Evidence(text, metric, value, threshold, where, self.window)

    def shows(self, part: str) -> bool:
        """Return whether the breakdown holds a value for a part; a part that nothing observes has none."""
        if part == "compute":
            return bool(self.breakdown.get(part)) or part in self.observed
        return part not in self.not_seen and (not self.observed or part in (*self.observed, "other"))

    def of_time(self, *parts: str) -> str:
        """Return `of each step` if typical steps have this share of the parts, or `of the loop's time`."""
        step, usual = self.step_ms or 0.0, sum(self.parts_ms.get(part, 0.0) for part in parts)
        typical = not step or 100 * usual / step >= _TYPICAL * self.share(*parts)
        return "of each step" if typical else "of the loop's time"

    def of_time_with_stall(self, *parts: str) -> str:
        """Return the same, and name the step that holds most of the parts' time."""
        of = self.of_time(*parts)
        if of == "of each step":
            return of
        worst = max((self.stalls[part] for part in parts if part in self.stalls), default=None)
        if worst is None:
            return of
        took = f"step {worst.step} took {ms(worst.duration_ms)}"
        return f"{of} ({took}, {pct(worst.share_pct)} of the loop)"

    @property
    def around_checkpoints(self) -> list[OwnCode]:
        """Own code that runs only in steps that write a checkpoint, from 1 % of the loop on."""
        return [one for one in self.own_code if one.checkpoints and one.pct >= 1]

    @property
    def load(self) -> Load | None:
        """The node with the least busy GPUs; without GPUs the one with the busiest CPU."""
        return self.loads[0] if self.loads else None

    def mean_ms(self, part: str) -> float:
        """Mean time of a part per step, ms."""
        return self.share(part) / 100 * (self.mean_step_ms or 0.0)

    def share(self, *parts: str) -> float:
        """Percent of the time outside evaluation that the parts take together; 0 without steps."""
        training = 100.0 - self.breakdown.get("eval", 0.0)
        return 100.0 * sum(self.breakdown.get(p, 0.0) for p in parts) / training if training > 0 else 0.0

    @property
    def compute_share(self) -> float:
        """Percent of the time outside evaluation that is the model's own work."""
        return self.share(*COMPUTE)

    @property
    def free_rest_ms(self) -> float | None:
        """Duration of a step without the wait for batches on otherwise idle cores.

        On a saturated CPU the workers slow the training process down. With less work for the workers, a step
        takes the CPU time of the training process, but no less than its fastest steps.
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
    nodes: Mapping[str, Mapping[str, object]] | None = None,
    profiled: Mapping[str, Table] | None = None,
    running: bool = False,
    not_counted: tuple[str, ...] = (),
) -> VerdictFacts:
    """Compute the facts of a job. Facts whose table is absent are unknown.

    Args:
        steps: Table `steps`, warm-up included.
        samples: Table `samples` of at least the whole job.
        spans: Table `spans`, with the phases data_loading, fetch, collate, stack, step, loop_stack and gc. A
            part of the job is enough.
        events: Table `events`: descriptions of the loaders and of the framework.
        nodes: Node → its facts; `cpus` is used.
        profiled: The tables that `profiled_steps` reads, for the steps of a profiling window.
        running: Whether the job still runs and accepts orders.
        not_counted: Work of other threads than the loop's.
    """
    mask = steady(steps)
    used = steps.where(mask)
    listed = loaders(events)
    found: dict[str, Any] = {
        "device": _device(events),
        **_framework(events),
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
        own, collecting = [], 0.0
        split = breakdown(used, np.ones(used.rows, dtype=bool))
        parts = {part: float(np.median(plain[part])) / 1e6 for part in BREAKDOWN}
        mean = float((used["duration"] - used["eval"]).mean()) / 1e6
        if spans is not None:
            own = own_code(spans, used, split["other"])
            collecting = _collecting(spans.where((spans["phase"] == "gc") & (spans["worker"] == -1)), used)
            spans = spans.where(~np.isin(spans["phase"], ("loop_stack", "loss", "h2d", "gc")))
        loading = stages(spans, steps, listed, mask) if spans is not None else None
        # What the loop iterates over loads data, whether a data loader or a generator gives the batches.
        iterated = min(parts["other"], sum(one.pct for one in own if one.iterates) / 100 * mean)
        parts |= {"data_loading": parts["data_loading"] + iterated, "other": parts["other"] - iterated}
        rest = rest - iterated * 1e6
        first = machines[0] if machines else None
        found |= {
            "breakdown": divided(split, own),
            "own_code": own,
            "collecting_pct": collecting,
            "not_seen": tuple(not_seen(used)),
            "stalls": _stalls(used),
            "step_ms": float(np.median(plain["duration"])) / 1e6,
            "mean_step_ms": mean,
            "rest_ms": float(np.median(rest)) / 1e6,
            "rest_least_ms": float(np.percentile(rest, 10)) / 1e6,
            "parts_ms": parts,
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
    seen = profiled_steps(profiled, found.get("step_ms")) if profiled is not None else None
    if seen is not None:
        found |= {"profiled": seen, "kernels": seen.kernels}
    ranks = tuple(sorted(set(steps["rank"].tolist())))
    return VerdictFacts(statistics=step_statistics(steps, mask), ranks=ranks, **found)


def _collecting(pauses: Table, steps: Table) -> float:
    """Return the percentage of the steps' time in garbage collections."""
    ranks = len(np.unique(steps["rank"]))
    begin, end = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    inside = (pauses["time"] >= begin) & (pauses["time"] < end) & np.isin(pauses["rank"], steps["rank"])
    return min(100.0 * float(pauses["duration"][inside].sum()) / ((end - begin) * ranks), 100.0)


def _stalls(steps: Table) -> dict[str, Stall]:
    found, loop = {}, int(steps["duration"].sum())
    for part in BREAKDOWN:
        row = int(steps[part].argmax())
        if 2 * int(steps[part][row]) > int(steps[part].sum()):
            took = int(steps["duration"][row])
            found[part] = Stall(100.0 * took / loop, int(steps["step"][row]), took / 1e6)
    return found


def _framework(events: Table | None) -> dict[str, Any]:
    for _, detail in details(events, "framework"):
        parts = detail.get("parts")
        observed = tuple(map(str, parts)) if isinstance(parts, list) else ()
        return {"framework": detail.get("name"), "observed": observed}
    return {}


def _device(events: Table | None) -> str | None:
    found = (detail.get("device") for _, detail in details(events, "framework"))
    return next((str(device) for device in found if device), None)
