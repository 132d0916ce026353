"""CPUContention: the training waits for a core that other programs use."""

from __future__ import annotations

import numpy as np

from holter.analysis.verdict.machine_suspects import WAITS_FOR_CORE
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.patterns.cores import shares_of_cores, waits_for_core
from holter.rules.patterns.patience import start_of

_MOST = 3


@rule_class
class CPUContention(Rule):
    """Main threads of the trainers are ready to run without a core, because of programs outside of the job.

    CPUOversubscription finds jobs whose own threads and processes compete.
    """

    reads = (
        "samples/proc.cpu.delay",
        "samples/other.cpu",
        "samples/proc.cpu",
        "samples/cpu.util",
        "samples/cpu.core.util",
    )
    formula = (
        "mean of the last minute: the time that the training threads wait for a core >= info, "
        "warning or critical, and the job itself uses less than half of the used CPU time"
    )
    advice = (
        "Stop the other programs, or give the job cores of its own (taskset, cgroups, the scheduler of the "
        "cluster)."
    )
    packs = ("default", "performance")
    every_s = 30.0
    consecutive = 2
    lookback = Lookback(seconds=60.0)

    info: float | None = parameter(10.0, above=0, high=100, unit="%")
    """Wait from which the rule reports a note."""
    warning: float | None = parameter(WAITS_FOR_CORE, above=0, high=100, unit="%")
    """Wait that is a warning; the verdict names contention from this share on."""
    critical: float | None = parameter(60.0, above=0, high=100, unit="%")
    """Wait that is critical."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by the mean wait of its trainers."""
        if (since := start_of(window, skip_warmup=True)) is None:
            return
        delays = waits_for_core(window, since)
        if not delays:
            return window.insufficient("no_input", "the wait for a core was not read")
        shares = shares_of_cores(window, since)
        for node, series in sorted(delays.items()):
            window.judged(len(series.value))
            delay = float(series.value.mean())
            severity = grade(delay, info=self.info, warning=self.warning, critical=self.critical)
            if severity is None or node not in shares or shares[node].own >= shares[node].used / 2:
                continue
            cores, others = shares[node].cores, self._others(window, since, node)
            named = f": {', '.join(f'{name} uses {used:.1f}' for name, used in others)}" if others else ""
            yield self.issue(
                f"the training waits for a core {delay:.0f} % of the time; programs outside of the job use "
                f"{shares[node].used - shares[node].own:.1f} of {cores} cores{named}",
                severity=severity,
                node=node,
                **window.span,
                evidence={
                    "waits_pct": delay,
                    "cores": cores,
                    "cores_of_the_job": shares[node].own,
                    "cores_used": shares[node].used,
                    "cores_by_program": dict(others),
                },
            )

    def _others(self, window: Window, since: int, node: str) -> list[tuple[str, float]]:
        """Return the other programs that use the cores most, with their mean number of cores."""
        found = {
            device: series
            for (where, device), series in window.series("other.cpu", since=since).items()
            if where == node
        }
        looks = max((len(series.value) for series in found.values()), default=1)
        used = {name: float(np.sum(series.value)) / looks / 100 for name, series in found.items()}
        return sorted(used.items(), key=lambda item: -item[1])[:_MOST]
