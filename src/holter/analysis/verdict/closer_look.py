"""What profiling windows add to the facts of a recorded job: operators and kernels of a few of its steps.

A profiler slows the host, not the accelerator. Kernels are taken as they were; the time between them is taken
from steps that nobody profiled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.kernel_statistics import kernel_table
from holter.analysis.host.operator_tree import operator_table
from holter.analysis.verdict.device_advice import ADVICE
from holter.analysis.verdict.device_candidates import TESTS, short
from holter.analysis.verdict.device_facts import PARTS, DeviceFacts, device_facts
from holter.analysis.verdict.device_verdict import LEAST_KERNELS
from holter.analysis.verdict.evidence import Evidence, pct
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.advice import Advice
    from holter.analysis.verdict.candidates import Candidate

WORK = PARTS[:3]
"""Parts of an accelerator's time in which it works."""
SUSPECTS = ("communication", "framework_overhead", "memory_pressure")
"""Whom kernels tell better than the host's time does."""
MOST = 15
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What a kernel trace says of the GPU; None where there is no trace."""

    median_us: float
    idle_pct: float
    """Share of the step in which the GPU ran nothing, outside of waiting for batches and of checkpoints."""
    busy_pct: float | None = None
    """Share of the whole step in which it ran something."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The newest profiled steps of a job."""

    first_step: int
    last_step: int
    """Inclusive."""
    time_start: int
    time_end: int
    """Nanoseconds since the epoch."""
    ranks: tuple[int, ...]
    operators: Table
    """name, pct (own time, of the profiled steps' time), total_ms (own), count; the longest first."""
    gpu: Table
    """The same of kernels and copies, pct of their summed time; no rows without an accelerator."""
    device: DeviceFacts | None
    """The accelerators in those steps, as they would be without the profiler; None: there is no kernel."""

    @property
    def steps(self) -> str:
        """The steps, for people."""
        one = self.first_step == self.last_step
        return f"step {self.first_step}" if one else f"steps {self.first_step} to {self.last_step}"

    @property
    def kernels(self) -> Kernels | None:
        """What the verdict asks of a kernel trace."""
        if self.device is None or self.device.kernels < LEAST_KERNELS:
            return None
        parts = self.device.breakdown
        free = 100.0 - parts["data_loading"] - parts["checkpoint"]
        idle = parts["host"] + parts["allocation"] + parts["idle"]
        return Kernels(
            median_us=self.device.median_kernel_us,
            idle_pct=100.0 * idle / free if free > 0 else 0.0,
            busy_pct=self.device.busy_pct,
        )

    def suspect(self, name: str) -> tuple[Candidate, list[Advice]] | None:
        """Test one suspect by what the accelerators did; None where that does not make it guilty."""
        if name not in SUSPECTS or self.device is None or self.device.kernels < LEAST_KERNELS:
            return None
        found = TESTS[name](self.device)
        if not found.guilty:
            return None
        evidence = [replace(item, window=self._window) for item in found.evidence]
        return replace(found, evidence=evidence), ADVICE[name](self.device)

    def evidence(self) -> list[Evidence]:
        """Say what was seen, whatever the verdict."""
        found = []
        if self.device is not None:
            parts = ", ".join(
                f"{name.replace('_', ' ')} {pct(share)}"
                for name, share in self.device.breakdown.items()
                if share >= 1
            )
            text = f"of the accelerator's time in {self.steps}: {parts}"
            found.append(self._seen(text, "window.busy", self.device.busy_pct))
        tables = [
            (self.operators, "operators", "the host spends most on"),
            (self.gpu, "kernels", "the accelerator spends most on"),
        ]
        for table, metric, what in tables:
            shares = table["pct"][:_NAMED].tolist()
            named = [
                f"{short(name)} {pct(share)}"
                for name, share in zip(table["name"][:_NAMED].tolist(), shares, strict=True)
                if share >= 1
            ]
            if named:
                text = f"in {self.steps} {what} {', '.join(named)}"
                found.append(self._seen(text, f"window.{metric}", shares[0]))
        return found

    def _seen(self, text: str, metric: str, value: float) -> Evidence:
        return Evidence(text, metric, value, None, None, self._window)

    @property
    def _window(self) -> dict[str, int]:
        return {
            "step_start": self.first_step,
            "step_end": self.last_step,
            "time_start": self.time_start,
            "time_end": self.time_end,
        }


def closer_look(tables: Mapping[str, Table], step_ms: float | None) -> Look | None:
    """Sum up the profiled steps of a job; None without any.

    Args:
        tables: `operators`, `kernels`, `launches`, `memory_operations`, `syncs` of the profiled steps, and of
            `spans` those steps themselves.
        step_ms: What a step takes that nobody profiles; None where that is not known.
    """
    steps = tables["spans"]
    if not steps.rows or not (tables["operators"].rows or tables["kernels"].rows):
        return None
    device = device_facts(tables) if tables["kernels"].rows else None
    whole = float(steps["duration"].sum())
    host = operator_table(tables, most=MOST)
    kernels = kernel_table(tables, most=MOST) if device else None
    return Look(
        first_step=int(steps["step"].min()),
        last_step=int(steps["step"].max()),
        time_start=int(steps["time"].min()),
        time_end=int((steps["time"] + steps["duration"]).max()),
        ranks=tuple(np.unique(steps["rank"]).tolist()),
        operators=Table(
            {
                "name": host["name"],
                "pct": np.minimum(100.0 * host["own_ns"] / max(whole, 1.0), 100.0),
                "total_ms": host["own_ns"] / 1e6,
                "count": host["calls"],
            }
        ),
        gpu=Table(
            {
                "name": kernels["name"] if kernels else np.empty(0, object),
                "pct": kernels["share_pct"] if kernels else np.empty(0),
                "total_ms": kernels["total_ns"] / 1e6 if kernels else np.empty(0),
                "count": kernels["launches"] if kernels else np.empty(0, np.int64),
            }
        ),
        device=undisturbed(device, step_ms) if device else None,
    )


def undisturbed(facts: DeviceFacts, step_ms: float | None) -> DeviceFacts:
    """Return what the facts of profiled steps would be, had nobody profiled them.

    The accelerator's work stays, its idle time shrinks to what a step without profiler leaves of it; what the
    idle time went to keeps its proportions.
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
