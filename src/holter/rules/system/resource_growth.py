"""ResourceGrowth: open files, threads, processes or shared memory of the job grow steadily."""

from __future__ import annotations

import numpy as np

from holter.analysis.machine.growth import growth
from holter.analysis.verdict.changes import RESOURCES, amount
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class

_ADVICE = {
    "proc.files": "Close what each step opens, such as a file, a memory map or a connection; `ulimit -n` "
    "shows the limit.",
    "proc.threads": "Find what starts threads in each step, such as an executor or a logger; create it once.",
    "proc.count": "Find what starts processes, such as a loader with workers in each epoch; end them or use "
    "persistent_workers.",
    "shm.used": "Find what keeps shared tensors: batches of loader workers that are collected, or files on "
    "/dev/shm that stay.",
}
METRICS = tuple(_ADVICE)


@rule_class
class ResourceGrowth(Rule):
    """Open files, threads, child processes or shared memory grow steadily and do not level off.

    MemoryRunsOut and HostMemoryLeak judge the memory of the processes.
    """

    reads = tuple(f"samples/{metric}" for metric in METRICS)
    formula = (
        "medians of up to 24 equal pieces of the time since the first step, at most half an hour: they rise "
        "in each third by at least 0.4 x the mean rise, for at least a third of the time and until now, by "
        "50 files, 20 threads, 10 processes or 128 MiB; a note below warning_pct"
    )
    advice = "Find what each step opens, starts or shares, and release it."
    packs = ("default", "essentials")
    every_s = 10.0
    consecutive = 2
    lookback = Lookback(seconds=1800.0)

    skip_s: float = parameter(10.0, low=0, unit="s")
    """Time after the first step that is ignored: workers and pools start."""
    min_s: float = parameter(40.0, low=5, unit="s")
    """The rule judges only after so much time."""
    warning_pct: float = parameter(50.0, low=0, unit="%")
    """Growth, as a share of the level before, that is a warning; less is a note."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the sum over the roles of processes, on each node."""
        first = window.job.first_step
        since = None if first is None else first + round(self.skip_s * 1e9)
        # After the loop the resources are released, which says nothing about their growth.
        until = max(window.job.active.values(), default=window.end)
        if since is None or until - since < self.min_s * 1e9:
            return window.insufficient("patience_not_reached", "training has just begun")
        for metric in METRICS:
            readings = window.series(metric, since=since)
            for node in sorted({node for node, _ in readings}):
                roles = [one for (where, _), one in readings.items() if where == node]
                times = np.concatenate([one.time for one in roles])
                counts = np.concatenate([one.value for one in roles])
                within = times <= until
                moments, which = np.unique(times[within], return_inverse=True)
                values = np.bincount(which, counts[within]).astype(np.float64)
                window.judged(1)
                found = growth(moments, values)
                resource = RESOURCES[metric]
                if found is None or found.after - found.before < resource.least:
                    continue
                grown, unit = found.after - found.before, resource.unit
                much = 100 * grown >= self.warning_pct * found.before
                speed, took_s = amount(found.per_s, unit), (until - found.since) / 1e9
                yield self.issue(
                    f"{resource.name} of the job on {node} grew steadily, by {speed} per second, from "
                    f"{amount(found.before, unit)} to {amount(found.after, unit)} in {took_s:.0f} s",
                    severity="warning" if much else "info",
                    code=metric,
                    node=node,
                    time_start=found.since,
                    time_end=until,
                    evidence={"before": found.before, "after": found.after, "per_s": found.per_s},
                    advice=_ADVICE[metric],
                )
        if not window.points:
            window.insufficient("no_input", "no open files, threads, processes or shared memory were read")
