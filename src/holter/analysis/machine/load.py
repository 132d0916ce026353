"""Load of each node during the training loop, as a verdict needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.machine.utilization import between, series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table

CROWDED = 1.25
"""A job that wants more than this many times its cores is oversubscribed."""
THERMAL = 0x08 | 0x20 | 0x40 | 0x80
"""Clock event reasons that are faults: hardware slowdown, software and hardware thermal, power brake."""

_IDLE_GPU = 5.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """One node within the training loop. None: never read. Percent unless the name says otherwise."""

    node: str
    cpus: int | None = None
    gpus: int = 0
    """GPUs that did something."""
    gpu_p50: float | None = None
    gpu_p95: float | None = None
    gpu_memory_p95: float | None = None
    cpu_p50: float | None = None
    cpu_p95: float | None = None
    iowait_p95: float | None = None
    busiest_core_p50: float | None = None
    trainer_core_p50: float | None = None
    """CPU of one training process, percent of a core."""
    trainer_core_mean: float | None = None
    """The same as a mean: with the length of a step, the CPU time that a step takes."""
    trainer_delay: float | None = None
    """Mean share of the time that the training is ready to run without a core."""
    others: dict[str, float] = field(default_factory=dict)
    """Program outside of the job → its CPU, percent of a core."""
    worker_delay: float | None = None
    """Mean share of the time that a data-loader worker is ready to run without a core."""
    foreign_core: float | None = None
    """CPU of all that is not the job or holter on the job's cores, percent of a core."""
    clock: float | None = None
    """Clock speed of busy cores, as a multiple of their nominal speed."""
    cpu_quota: float | None = None
    """Cores' worth of time that the control group allows; None without a quota."""
    quota_ran_out_pct: float | None = None
    """Mean share of the scheduling periods in which the quota ran out."""
    trainer_runnable: float | None = None
    """Threads of the training processes that run or wait for a core, mean."""
    worker_runnable: float | None = None
    """The same for data-loader workers."""
    workers: float | None = None
    """Data-loader workers, mean."""
    stopped_pct: float | None = None
    """Mean share of the time that training threads are stopped."""
    major_faults: float | None = None
    """Page faults a second of a training thread that read from a disk, mean."""
    swap_in: float | None = None
    """Memory read back from swap, bytes a second, mean."""
    worker_core_p50: float | None = None
    """CPU of one data-loader worker, percent of a core."""
    memory_p95: float | None = None
    memory_pressure_p50: float | None = None
    swap_growth_bytes: float | None = None
    throttled_gpu: str | None = None
    throttled_pct: float | None = None
    """Share of the readings in which that GPU's clocks were lowered by a fault."""
    ecc_errors: float | None = None

    @property
    def cores(self) -> float | None:
        """Cores' worth of time that the job may use: its cores, or its quota if that is less."""
        known = [float(each) for each in (self.cpus, self.cpu_quota) if each is not None]
        return min(known, default=None)

    @property
    def wanted_cores(self) -> float | None:
        """Threads of the job that run or wait for a core, mean."""
        known = [each for each in (self.trainer_runnable, self.worker_runnable) if each is not None]
        return sum(known) if known else None

    @property
    def crowded(self) -> bool:
        """Whether the job's own threads want more cores than it may use."""
        return bool(self.cores and (self.wanted_cores or 0.0) > CROWDED * self.cores)


def loads(
    samples: Table, nodes: Mapping[str, Mapping[str, object]], start_ns: int | None, end_ns: int | None
) -> list[Load]:
    """Compute the load of each node between two times, the node with the idlest GPUs first.

    Nodes are not mixed: a busy core of one does not explain an idle GPU of another. GPUs that never do
    any work belong to others.
    """
    by_node: dict[str, dict[str, dict[str, NDArray[Any]]]] = {}
    for (node, metric, device), values in series(between(samples, start_ns, end_ns), by_device=True).items():
        values = values[~np.isnan(values)]
        if len(values):
            by_node.setdefault(node, {}).setdefault(metric, {})[device] = values
    found = [_load(node, metrics, nodes.get(node, {})) for node, metrics in by_node.items()]
    return sorted(found, key=lambda x: (x.gpu_p50 is None, x.gpu_p50 or 0.0, -(x.cpu_p95 or 0.0)))


def _load(node: str, metrics: dict[str, dict[str, NDArray[Any]]], facts: Mapping[str, object]) -> Load:
    cpus, quota = facts.get("cpus"), facts.get("cpu_quota")
    gpus = {d: v for d, v in metrics.get("gpu.util", {}).items() if np.percentile(v, 95) >= _IDLE_GPU}
    busy = np.concatenate(list(gpus.values())) if gpus else None
    memory = [v for d, v in metrics.get("gpu.mem.used_pct", {}).items() if d in gpus]
    cores = [float(np.median(v)) for v in metrics.get("cpu.core.util", {}).values()]
    swap = metrics.get("mem.swap_used", {}).get("")
    throttled = {d: _throttled(v) for d, v in metrics.get("gpu.throttle_reasons", {}).items() if d in gpus}
    worst = max(throttled, key=lambda d: throttled[d], default=None)
    ecc = [float(v[-1] - v[0]) for d, v in metrics.get("gpu.ecc_uncorrected", {}).items() if d in gpus]

    def whole(metric: str, percent: float) -> float | None:
        return _percentile(metrics.get(metric, {}).get(""), percent)

    return Load(
        node=node,
        cpus=cpus if isinstance(cpus, int) else None,
        gpus=len(gpus),
        gpu_p50=_percentile(busy, 50),
        gpu_p95=_percentile(busy, 95),
        gpu_memory_p95=_percentile(np.concatenate(memory), 95) if memory else None,
        cpu_p50=whole("cpu.util", 50),
        cpu_p95=whole("cpu.util", 95),
        iowait_p95=whole("cpu.iowait", 95),
        busiest_core_p50=max(cores, default=None),
        trainer_core_p50=_each(metrics, "trainer", np.median),
        trainer_core_mean=_each(metrics, "trainer", np.mean),
        trainer_delay=_mean(metrics.get("proc.cpu.delay", {}).get("trainer")),
        others=_others(metrics.get("other.cpu", {})),
        worker_delay=_mean(metrics.get("proc.cpu.delay", {}).get("worker")),
        foreign_core=_foreign(metrics, cpus, quota),
        clock=_clock(metrics),
        cpu_quota=float(quota) if isinstance(quota, (int, float)) else None,
        quota_ran_out_pct=_mean(metrics.get("cgroup.throttled_pct", {}).get("")),
        trainer_runnable=_mean(metrics.get("proc.runnable", {}).get("trainer")),
        worker_runnable=_mean(metrics.get("proc.runnable", {}).get("worker")),
        workers=_mean(metrics.get("proc.count", {}).get("worker")),
        stopped_pct=_pooled(metrics.get("thread.stopped", {})),
        major_faults=_pooled(metrics.get("thread.major_faults", {})),
        swap_in=_mean(metrics.get("mem.swap_in", {}).get("")),
        worker_core_p50=_each(metrics, "worker", np.median),
        memory_p95=whole("mem.used_pct", 95),
        memory_pressure_p50=whole("psi.mem", 50),
        swap_growth_bytes=float(swap[-1] - swap[0]) if swap is not None else None,
        throttled_gpu=worst,
        throttled_pct=throttled[worst] if worst is not None else None,
        ecc_errors=max(ecc, default=None),
    )


def _percentile(values: NDArray[Any] | None, percent: float) -> float | None:
    return None if values is None or not len(values) else float(np.percentile(values, percent))


def _mean(values: NDArray[Any] | None) -> float | None:
    return None if values is None or not len(values) else float(values.mean())


def _pooled(devices: dict[str, NDArray[Any]]) -> float | None:
    return _mean(np.concatenate(list(devices.values()))) if devices else None


def _others(programs: dict[str, NDArray[Any]]) -> dict[str, float]:
    """Return the mean CPU of other programs; a reading that does not name a program counts as 0."""
    looks = max((len(values) for values in programs.values()), default=1)
    means = {name: float(values.sum()) / looks for name, values in programs.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _foreign(metrics: dict[str, dict[str, NDArray[Any]]], cpus: object, quota: object) -> float | None:
    """Return the busy time of the cores that neither the job nor holter explains."""
    cores = min((one for one in (cpus, quota) if isinstance(one, int | float)), default=None)
    busy, own = _mean(metrics.get("cpu.util", {}).get("")), metrics.get("proc.cpu", {})
    if busy is None or cores is None or not own:
        return None
    readings = max(len(values) for values in own.values())
    mine = sum(float(values.sum()) for values in own.values()) / readings
    return max(busy * cores - mine - (_mean(metrics.get("agent.cpu", {}).get("")) or 0.0), 0.0)


def _clock(metrics: dict[str, dict[str, NDArray[Any]]]) -> float | None:
    cycles, nominal = (
        sum(float(values.sum()) for values in metrics.get(f"cpu.core.{name}", {}).values())
        for name in ("cycles", "ref_cycles")
    )
    return cycles / nominal if cycles and nominal else None


def _each(metrics: dict[str, dict[str, NDArray[Any]]], role: str, typical: Any) -> float | None:
    """Compute the CPU of one process of a role: the typical sum over the typical number of them."""
    total, count = (metrics.get(metric, {}).get(role) for metric in ("proc.cpu", "proc.count"))
    if total is None or count is None or typical(count) <= 0:
        return None
    return float(typical(total)) / float(typical(count))


def _throttled(values: NDArray[Any]) -> float:
    return 100.0 * float(np.mean((values.astype(np.int64) & THERMAL) != 0))
