"""ObserverOverhead: holter itself takes too much time or CPU."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of, worth
from holter.rules.patterns.event_details import details_of

_BUSY = 80.0
"""Below this CPU utilization the agent does not take CPU time from the training."""


@rule_class
class ObserverOverhead(Rule):
    """Holter's agent takes CPU that training needs, or its recorder takes time of the training loop."""

    reads = ("steps", "samples/agent.cpu", "samples/cpu.util", "events/end")
    formula = (
        "mean CPU of the agent over 10 min / the node's cores (a note while the CPUs are less than 80 % "
        "busy), or the recorder's own time / training loop >= info, warning, or critical"
    )
    advice = (
        "Increase the sampling interval with `holter configure`, then turn off the recording of tensors and"
        " profiling windows."
    )
    packs = ("performance",)
    every_s = 60.0
    tells_once = ("recorder",)
    lookback = Lookback(seconds=600.0)

    info: float | None = parameter(1.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Share from which the rule reports a note."""
    warning: float | None = parameter(3.0, low=0, high=100, unit="%")
    """Share that is a warning."""
    critical: float | None = parameter(8.0, low=0, high=100, unit="%")
    """Share that is critical."""
    skip_s: float = parameter(60.0, low=0, unit="s")
    """Start-up time of the agent that is ignored."""
    patience_s: float = parameter(120.0, low=0, unit="s")
    """Readings that cover a shorter time are not judged."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total of the recorder is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node's agent, and each rank's recorder once its cost is known."""
        yield from self._recorders(window)
        since = window.job.start + round(self.skip_s * 1e9)
        agents, loads = window.series("agent.cpu", since=since), window.series("cpu.util", since=since)
        if not agents and not window.points:
            if window.end <= since:
                return window.insufficient("patience_not_reached", "start-up has not ended")
            return window.insufficient("no_input", "no reading of the agent's CPU after start-up")
        for (node, device), series in sorted(agents.items()):
            length = (int(series.time[-1]) - int(series.time[0])) / 1e9
            cores = float(window.job.nodes.get(node, {}).get("cpus") or 0)
            if length < self.patience_s:
                text = f"the agent of {node} was observed for too short a time"
                window.insufficient("patience_not_reached", text, have=length, need=self.patience_s)
                continue
            if cores <= 0:
                window.insufficient("no_input", f"the number of cores of {node} is unknown")
                continue
            window.judged(len(series.value))
            used = float(np.mean(series.value))
            share = min(max(used / cores, 0.0), 100.0)
            severity = severity_of(share, self.info, self.warning, self.critical)
            load = loads.get((node, device))
            busy = float(np.median(load.value)) if load is not None else None
            if severity is not None:
                yield self.issue(
                    f"holter's agent takes {share:.1f} % of the CPUs of {node}",
                    severity=severity if busy is None or busy >= _BUSY else "info",
                    code="agent",
                    node=node,
                    **series.span,
                    evidence={"share_pct": share, "cores_used": used / 100, "cores": cores, "cpu_pct": busy},
                )

    def _recorders(self, window: Window) -> Issues:
        first = window.job.first_step
        for row, detail in details_of(window.new("events"), "end"):
            cost, loop = detail.get("cost_ns"), (row["time"] - first) / 1e9 if first is not None else 0.0
            if not isinstance(cost, int | float) or not 0 < cost < 2**62 or loop <= 0:
                continue
            spent = cost / 1e9
            window.judged(1)
            share = min(100.0 * spent / loop, 100.0)
            severity = worth(
                severity_of(share, self.info, self.warning, self.critical), spent, self.min_lost_s
            )
            if severity is not None:
                yield self.issue(
                    f"holter's recorder took {share:.1f} % of the training loop of rank {row['rank']}",
                    severity=severity,
                    code="recorder",
                    rank=row["rank"],
                    node=row["node"] or None,
                    time_start=first,
                    time_end=row["time"],
                    evidence={"share_pct": share, "recorder_s": spent, "loop_s": loop},
                )
