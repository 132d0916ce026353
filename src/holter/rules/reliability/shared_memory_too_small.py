"""SharedMemoryTooSmall: /dev/shm, through which workers hand over batches, is nearly full."""

from __future__ import annotations

import re

import numpy as np

from holter.analysis.loading.dataloading import loaders
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of

_MIB = 2**20
_OUT_OF_IT = re.compile(r"out of shared memory|unable to (open|write|allocate) shared memory|bus error", re.I)
"""What PyTorch writes when a worker process finds no space in /dev/shm."""


@rule_class
class SharedMemoryTooSmall(Rule):
    """Worker processes hand over batches through /dev/shm, and it is nearly full, or one died because of it.

    A worker that finds it full is killed by a bus error. Docker and Kubernetes give a container 64 MiB.
    """

    reads = ("samples/shm.used", "events/loader", "events/exception")
    formula = (
        "an exception says that a worker is out of shared memory; or the median use of /dev/shm in the last "
        "minute >= warning_pct (warning) or critical_pct (critical) of its size"
    )
    advice = (
        "Docker: --shm-size=8g, or --ipc=host. Kubernetes: mount an emptyDir of medium Memory at /dev/shm. "
        "Elsewhere: fewer workers, a smaller prefetch_factor, or "
        "torch.multiprocessing.set_sharing_strategy('file_system')."
    )
    packs = ("default", "essentials")
    every_s = 10.0
    tells_once = ("died",)
    lookback = Lookback(seconds=60.0)

    warning_pct: float = parameter(70.0, low=1, high=100, unit="%")
    """A use from this on is a warning."""
    critical_pct: float = parameter(90.0, low=1, high=100, unit="%")
    """A use from this on is critical."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by itself."""
        state, events = window.state, window.new("events")
        for fact in loaders(events):
            state["workers"] = max(state.get("workers", 0), int(fact.get("workers") or 0))
        workers = state.get("workers", 0)
        sizes = {node: size for node, facts in window.job.nodes.items() if (size := facts.get("shm_bytes"))}
        used = window.series("shm.used")
        for row, detail in details_of(events, "exception"):
            size = sizes.get(row["node"])
            if size is None or not _OUT_OF_IT.search(str(detail.get("message"))):
                continue
            window.judged(1)
            yield self.issue(
                f"a worker process of {row['node']} found no space in its shared memory of "
                f"{size / _MIB:,.0f} MiB",
                severity="critical",
                code="died",
                node=row["node"],
                rank=row["rank"] if row["rank"] >= 0 else None,
                time_start=row["time"],
                time_end=row["time"],
                evidence={"shm_bytes": size, "workers": workers},
            )
        for node, size in sorted(sizes.items()):
            readings = used.get((node, ""))
            if readings is None or not len(readings.value):
                continue
            window.judged(len(readings.value))
            share = 100 * float(np.median(readings.value)) / size
            if share < self.warning_pct:
                continue
            yield self.issue(
                f"{share:.0f} % of the shared memory of {node} ({size / _MIB:,.0f} MiB) are in use",
                severity="critical" if share >= self.critical_pct else "warning",
                code="full",
                node=node,
                **readings.span,
                evidence={"shm_bytes": size, "used_pct": share, "workers": workers},
            )
        if not window.points:
            window.insufficient("no_input", "the use of /dev/shm is not recorded")
