"""Judges whether something outside of two jobs slowed one of them, so that their steps do not compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from holter.analysis.grouping import groups
from holter.analysis.jobs.comparison import judge
from holter.analysis.machine.load import loads
from holter.analysis.machine.utilization import between
from holter.analysis.steps.warmup import steady

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.schema.table import Table

Cause = Literal["cores", "shared", "quota", "gpu", "clock", "unread"]
Result = Literal["pass", "regression", "inconclusive", "disturbed"]

READ = (
    "proc.cpu.delay", "proc.cpu", "proc.count", "other.cpu", "cpu.util", "agent.cpu", "cgroup.throttled_pct",
    "cpu.core.cycles", "cpu.core.ref_cycles", "gpu.util", "gpu.throttle_reasons",
)  # fmt: skip
"""Metrics that tell the conditions of a job."""
WAITS = 3.0
"""Percent of the time without a core from which on other programs disturb a job."""
FOREIGN = 20.0
"""Programs that use less of a core are no reason to wait, percent."""
COMPANY = 0.1
"""Share of the cores from which on other programs slow steps without a wait: they share caches and cores."""
HALF = 2.0
"""Two threads on the halves of a core take at most this factor longer."""
SLOWED = 0.03
"""Share of a step from which on additional CPU time makes it longer."""
THROTTLED = 5.0
GPU_SLOWED = 10.0
CLOCK = 0.03
"""Share by which a disturbing clock is slower than that of the other job."""
ALIKE = 10.0
"""Points by which the loads of two jobs differ at most while they count as equal."""
HEAVY = 50.0
"""Jobs that waited for a larger share of their time do not compare: the rest of it is too small."""
SPREAD = 0.15
"""Share by which the CPU time of equal work differs under different load."""
LOADED = 0.3
"""Share by which steps without their wait differ between equal jobs under equal load.

Programs also share the caches and the halves of a core. Measured: 26 % between two of 14 equal jobs.
"""
_FEW_READINGS = 4
"""With fewer readings, in the time of so many each, something kept the agent from reading."""
_ONE_THREAD = 105.0
"""Percent of the time that one thread can run and wait for a core, with the error of the readings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What the steady steps of a job ran under. None: not recorded."""

    step_ms: float | None = None
    cpu_ms: float | None = None
    """CPU time of a training process for a step, all threads together."""
    waited_pct: float | None = None
    """Share of the time that the training waited for a core."""
    workers_waited_pct: float | None = None
    """The same for its data-loader workers."""
    several_threads: bool = False
    """Not only the main thread computes. How long the others wait is unknown."""
    foreign_cores: float | None = None
    """Cores that other programs used."""
    cores: float | None = None
    """Cores that the job may use."""
    programs: tuple[str, ...] = ()
    """Those that used most, largest first."""
    throttled_pct: float | None = None
    """Share of scheduling periods in which the CPU quota ran out."""
    gpu_slowed_pct: float | None = None
    """Share of the time in which heat or a fault lowered a GPU's clocks."""
    clock: float | None = None
    """Clock speed of the cores as a multiple of the nominal one."""
    unread: bool = False
    """Readings are missing although there was time for them, as where the agent gets no core."""

    @property
    def contended(self) -> bool:
        """Whether other programs kept the job from its cores. A job's own threads are not others."""
        waited = max(self.waited_pct or 0.0, self.workers_waited_pct or 0.0)
        return waited >= WAITS and (self.foreign_cores is None or 100 * self.foreign_cores >= FOREIGN)

    def shared(self, other: Conditions) -> bool:
        """Whether steps took more CPU time than those of another job while other programs used cores."""
        if not (self.cpu_ms and other.cpu_ms and self.cores and self.foreign_cores):
            return False
        company = self.foreign_cores >= COMPANY * self.cores
        # A step that mostly waits takes no longer for a little more CPU time.
        more = self.step_ms is None or self.cpu_ms - other.cpu_ms >= SLOWED * self.step_ms
        return company and more and 1 + SPREAD < self.cpu_ms / other.cpu_ms < HALF

    @property
    def free(self) -> float:
        """Share of the time in which the training did not wait for a core, 0 to 1."""
        return 1.0 - min(self.waited_pct or 0.0, 99.0) / 100

    def causes(self, other: Conditions) -> tuple[Cause, ...]:
        """Return what slowed this job from outside."""
        slower = self.clock is not None and other.clock is not None and self.clock < other.clock * (1 - CLOCK)
        found: dict[Cause, bool] = {
            "cores": self.contended,
            "shared": self.shared(other),
            "quota": (self.throttled_pct or 0.0) >= THROTTLED,
            "gpu": (self.gpu_slowed_pct or 0.0) >= GPU_SLOWED,
            "clock": slower,
            "unread": self.unread and other.waited_pct is not None,
        }
        return tuple(cause for cause, there in found.items() if there)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The conditions of a baseline and of another job, at least one of which was slowed from outside."""

    before: Conditions
    after: Conditions

    @property
    def causes(self) -> tuple[tuple[Cause, ...], tuple[Cause, ...]]:
        """What slowed the baseline, and what slowed the other job."""
        return self.before.causes(self.after), self.after.causes(self.before)

    @property
    def alike(self) -> bool:
        """Whether both jobs ran under the same known load, so that their steps can be compared."""
        one, other = self.before, self.after
        pairs = (
            (one.waited_pct, other.waited_pct),
            (one.throttled_pct, other.throttled_pct),
            (one.gpu_slowed_pct, other.gpu_slowed_pct),
        )
        near = all(abs((old or 0.0) - (new or 0.0)) <= ALIKE for old, new in pairs)
        heavy = max(one.waited_pct or 0.0, other.waited_pct or 0.0) > HEAVY
        return (
            near and not heavy and self.causes[0] == self.causes[1] and not (_hidden(one) or _hidden(other))
        )

    @property
    def cpu_ratio(self) -> float | None:
        """CPU time for a step over that of the baseline."""
        old, new = self.before.cpu_ms, self.after.cpu_ms
        return new / old if old and new else None

    @property
    def free_ratio(self) -> float | None:
        """Mean step without the wait for a core over that of the baseline."""
        old, new = self.before.step_ms, self.after.step_ms
        return new * self.after.free / (old * self.before.free) if old and new else None

    def judge(self, low: float, high: float, most: float) -> Result:
        """Judge as `comparison.judge`; `disturbed` if the result may come from the disturbance.

        A disturbance makes a job slower, never faster: a job that is not slower although it was disturbed
        passes, and a job that is slower than a disturbed baseline is a regression.
        """
        by_wall, free = judge(low, high, most), self.free_ratio
        ours, theirs = self.causes
        if by_wall == "regression":
            slower = self.alike and free is not None and free > (1 + most) * (1 + LOADED)
            return by_wall if slower or not theirs else "disturbed"
        if by_wall == "pass":
            # Without its wait, the baseline is faster by no more than this.
            explained = ours == ("cores",) and not _hidden(self.before)
            equal = self.alike and free is not None and free <= 1 + most
            still = explained and high / self.before.free <= 1 + most
            return by_wall if equal or still or not ours else "disturbed"
        return "disturbed"

    def stands(self, low: float, high: float) -> bool:
        """Return whether a ratio of step times in this interval tells something in spite of this."""
        if low > 1:
            return self.judge(low, high, 0.0) == "regression"
        if high < 1:
            return Disturbance(self.after, self.before).judge(1 / high, 1 / low, 0.0) == "regression"
        return self.alike


def _hidden(job: Conditions) -> bool:
    """Return whether a part of the job's wait for a core is unknown, or not that of the main thread."""
    return job.contended and (job.several_threads or (job.workers_waited_pct or 0.0) >= WAITS)


def conditions(
    steps: Table,
    samples: Callable[[int, int], Table],
    nodes: Mapping[str, Mapping[str, object]],
    interval_ms: int | None = None,
) -> Conditions:
    """Return what the steady steps of a job ran under.

    Args:
        steps: Table `steps`.
        samples: Returns the rows of table `samples` between two times with the metrics in `READ`.
        nodes: Node → its facts; `cpus` and `cpu_quota` are used.
        interval_ms: Time between two readings; None for an import, which has none.
    """
    used = steps.where(steady(steps))
    if not used.rows:
        return Conditions()
    begin, end = int(used["time"].min()), int((used["time"] + used["duration"]).max())
    read = between(samples(begin, end), begin, end)
    found = loads(_whole(read), nodes, begin, end)
    step_ms = float(used["duration"].mean()) / 1e6
    unread = interval_ms is not None and _misses(read, (end - begin) / (interval_ms * 1e6))
    if not found:
        return Conditions(step_ms=step_ms, unread=unread)
    # Ranks step together: the node that waits longest slows all.
    slow = max(found, key=lambda load: max(load.trainer_delay or 0.0, load.worker_delay or 0.0))
    own, foreign = slow.trainer_core_mean, slow.foreign_core

    def largest(values: list[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    return Conditions(
        step_ms=step_ms,
        cpu_ms=_cpu_ms(read, used),
        waited_pct=slow.trainer_delay,
        workers_waited_pct=slow.worker_delay,
        several_threads=(own or 0.0) + (slow.trainer_delay or 0.0) > _ONE_THREAD,
        foreign_cores=None if foreign is None else foreign / 100,
        cores=slow.cores,
        programs=tuple(slow.others)[:3],
        throttled_pct=largest([load.quota_ran_out_pct for load in found]),
        gpu_slowed_pct=largest([load.throttled_pct for load in found]),
        clock=min((load.clock for load in found if load.clock is not None), default=None),
        unread=unread and slow.trainer_delay is None,
    )


def _whole(samples: Table) -> Table:
    """Leave out the first readings, which also cover time before, where there are others."""
    keep = np.ones(samples.rows, dtype=bool)
    for rows in groups(samples["node"], samples["metric"]).values():
        time = samples["time"][rows]
        keep[rows] = (time > time.min()) | (time.max() == time.min())
    return samples.where(keep)


def _cpu_ms(samples: Table, steps: Table) -> float | None:
    """Return the CPU time of a process for a step, from the steps that the readings cover."""
    found = []
    trainers = samples.where(samples["device"] == "trainer")
    for rows in groups(trainers["node"]).values():
        here = trainers.where(rows).sorted("time")
        cpu, count = (here.where(here["metric"] == name) for name in ("proc.cpu", "proc.count"))
        if cpu.rows < 2 or not count.rows:
            continue
        time, ended = cpu["time"], steps["time"] + steps["duration"]
        within = (steps["time"] >= time[0]) & (ended <= time[-1])
        if within.any():
            core = np.average(cpu["value"][1:], weights=np.diff(time)) / count["value"].mean()
            found.append(float(core * steps["duration"][within].mean()) / 1e8)
    return sum(found) / len(found) if found else None


def _misses(samples: Table, expected: float) -> bool:
    """Return whether a job has far fewer moments with readings than expected."""
    moments = len(np.unique(samples["time"]))
    return moments < _FEW_READINGS and expected >= _FEW_READINGS * max(moments, 1)


def disturbance(before: Conditions, after: Conditions) -> Disturbance | None:
    """Return what slowed one of two jobs from outside; None where nothing is known to have."""
    found = Disturbance(before, after)
    return found if any(found.causes) else None
