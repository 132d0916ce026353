"""Facts of the profiled steps of a recorded job: operators, kernels, and what accelerators did.

A profiler slows the host but not the accelerator. So kernel times are those of the profiled steps, and the
idle time between kernels is scaled to the duration of steps without the profiler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.kernel_statistics import kernel_table
from holter.analysis.host.operator_load import OperatorLoad, operator_load
from holter.analysis.host.operator_tree import host, operator_table
from holter.analysis.verdict.device_facts import LEAST_KERNELS, DeviceFacts, device_facts
from holter.analysis.verdict.device_parts import PARTS
from holter.analysis.verdict.evidence import Evidence, pct, short_name, steps_text
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

WORK = PARTS[:3]
"""Parts of an accelerator's time in which it works."""
MOST = 15
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class KernelTimes:
    """Kernel times of a trace, as the test of framework overhead needs them."""

    median_us: float
    idle_pct: float
    """Share of the step in which the GPU idles, without the time of data loading and checkpoints."""
    busy_pct: float | None = None
    """Share of the whole step in which the GPU is busy."""


@dataclass(frozen=True, kw_only=True)
class ProfiledSteps:
    """The newest profiled steps of a job."""

    first_step: int
    last_step: int
    """Inclusive."""
    time_start: int
    time_end: int
    """Nanoseconds since the epoch."""
    ranks: tuple[int, ...]
    operators: Table
    """name, pct (own time as percent of the profiled steps), total_ms (own), count; the longest first."""
    gpu: Table
    """The same for kernels and copies, pct of their summed time; empty without an accelerator."""
    load: OperatorLoad | None = None
    """The operators and the lines that issue them; None with an accelerator."""
    device: DeviceFacts | None
    """Facts of the accelerators, corrected for the profiler's cost; None without kernels."""

    @property
    def steps(self) -> str:
        """The profiled steps for people."""
        return steps_text(self.first_step, self.last_step)

    @property
    def kernels(self) -> KernelTimes | None:
        """The kernel times; None with too few kernels for a verdict."""
        if self.device is None or self.device.kernels < LEAST_KERNELS:
            return None
        parts = self.device.breakdown
        free = 100.0 - parts["data_loading"] - parts["checkpoint"]
        idle = parts["host"] + parts["allocation"] + parts["idle"]
        return KernelTimes(
            median_us=self.device.median_kernel_us,
            idle_pct=100.0 * idle / free if free > 0 else 0.0,
            busy_pct=self.device.busy_pct,
        )

    def evidence(self) -> list[Evidence]:
        """Return evidence for any verdict: accelerator time, top operators and top kernels."""
        found = []
        if self.device is not None:
            named = [f"{n.replace('_', ' ')} {pct(p)}" for n, p in self.device.breakdown.items() if p >= 1]
            text = f"accelerator time in {self.steps}: {', '.join(named)}"
            found.append(Evidence(text, "window.busy", self.device.busy_pct, window=self.window))
        tables = (("operators", "host", self.operators), ("kernels", "accelerator", self.gpu))
        for kind, side, table in tables:
            top = [(row["name"], row["pct"]) for row in table.where(slice(_NAMED)).to_rows()]
            named = [f"{short_name(name)} {pct(share)}" for name, share in top if share >= 1]
            if named:
                text = f"top {kind} of the {side} in {self.steps}: {', '.join(named)}"
                found.append(Evidence(text, f"window.{kind}", top[0][1], window=self.window))
        return found

    @property
    def window(self) -> dict[str, int]:
        """First and last step, and begin and end in ns, as evidence names them."""
        return {
            "step_start": self.first_step,
            "step_end": self.last_step,
            "time_start": self.time_start,
            "time_end": self.time_end,
        }


def profiled_steps(tables: Mapping[str, Table], step_ms: float | None) -> ProfiledSteps | None:
    """Compute the facts of the profiled steps; None if no step was profiled.

    Args:
        tables: `operators`, `kernels`, `launches`, `memory_operations`, `syncs` of the profiled steps, and
            `spans` with these steps.
        step_ms: Duration of a step without the profiler; None if it is unknown.
    """
    steps = tables["spans"]
    if not steps.rows or not (tables["operators"].rows or tables["kernels"].rows):
        return None
    tree = host(tables)
    device = device_facts(tables, tree=tree) if tables["kernels"].rows else None
    whole = float(steps["duration"].sum())
    by_name = operator_table(tables, most=MOST, tree=tree)
    kernels = kernel_table(tables if device else {}, most=MOST)
    return ProfiledSteps(
        first_step=int(steps["step"].min()),
        last_step=int(steps["step"].max()),
        time_start=int(steps["time"].min()),
        time_end=int((steps["time"] + steps["duration"]).max()),
        ranks=tuple(np.unique(steps["rank"]).tolist()),
        operators=Table(
            {
                "name": by_name["name"],
                "pct": np.minimum(100.0 * by_name["own_ns"] / max(whole, 1.0), 100.0),
                "total_ms": by_name["own_ns"] / 1e6,
                "count": by_name["calls"],
            }
        ),
        gpu=Table(
            {
                "name": kernels["name"],
                "pct": kernels["share_pct"],
                "total_ms": kernels["total_ns"] / 1e6,
                "count": kernels["launches"],
            }
        ),
        load=None if device else operator_load(tables),
        device=undisturbed(device, step_ms) if device else None,
    )


def undisturbed(facts: DeviceFacts, step_ms: float | None) -> DeviceFacts:
    """Return the facts as they are without the profiler.

    The accelerator's work stays. Its idle time shrinks so that a step takes `step_ms`; the reasons for the
    idle time keep their proportions.
    """
    if step_ms is None or not facts.steps:
        return facts
    window = step_ms * 1e6 * facts.steps
    if not 0 < window < facts.window_ns:
        return facts
    longer = facts.window_ns / window
    working = sum(facts.breakdown[part] for part in WORK)
    longer = min(longer, 100.0 / working) if working > 0 else longer
    waiting = 100.0 - working
    shorter = (100.0 - longer * working) / waiting if waiting > 0 else 0.0
    return replace(
        facts,
        window_ns=int(window),
        step_ms=step_ms,
        breakdown={
            part: share * (longer if part in WORK else shorter) for part, share in facts.breakdown.items()
        },
        busy_pct=min(facts.busy_pct * longer, 100.0),
        communication_pct=min(facts.communication_pct * longer, 100.0),
        h2d_pct=min(facts.h2d_pct * longer, 100.0),
        loading_pct=facts.loading_pct * shorter,
        after_sync_pct=facts.after_sync_pct * shorter,
    )
