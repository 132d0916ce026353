"""MemoryRunsOut: host memory grows so fast that it is full within the hour."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class

_BINS = 6
_MIN_READINGS = 3
"""Readings in each of the bins."""


@rule_class
class MemoryRunsOut(Rule):
    """The memory of the job's processes grows steadily and reaches the machine's limit soon.

    HostMemoryLeak finds slow leaks after half an hour; this rule finds fast ones after a minute.
    """

    reads = ("samples/proc.private", "samples/mem.available")
    formula = (
        "6 medians over the last window_s, which begin skip_s after the first step: each is larger than the "
        "one before, the smallest increase >= even x the mean increase, and available / growth < within_h"
    )
    advice = (
        "Look for what each step keeps: lists of losses or outputs that were not detached, caches, and "
        "batches in closures."
    )
    packs = ("default", "essentials")
    every_s = 10.0
    consecutive = 2
    lookback = Lookback(seconds=90.0)

    skip_s: float = parameter(10.0, low=0, unit="s")
    """Time after the first step that is ignored: buffers and caches fill."""
    window_s: float = parameter(45.0, low=5, high=80, unit="s")
    """Length of the judged time."""
    even: float = parameter(0.4, low=0, high=1)
    """Growth that levels off is not judged: the smallest increase as a share of the mean increase."""
    within_h: float = parameter(1.0, above=0, unit="h")
    """Memory that lasts longer is not judged."""
    critical_min: float = parameter(10.0, low=0, unit="min")
    """Critical when the memory lasts no longer than this; otherwise the growth may be a cache that fills."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the sum of all roles of each node."""
        first = window.job.first_step
        since = window.end - round(self.window_s * 1e9)
        if first is None or since < first + self.skip_s * 1e9:
            return window.insufficient("patience_not_reached", "training has just begun")
        series = window.series("proc.private", since=since)
        if not series:
            return window.insufficient("no_input", "no memory of processes was read")
        available = window.series("mem.available")
        for node in sorted({node for node, _ in series}):
            roles = [one for (where, _), one in series.items() if where == node]
            edges = np.linspace(since, window.end, _BINS + 1)
            bins = [np.searchsorted(one.time, edges) for one in roles]
            if all((np.diff(at) < _MIN_READINGS).any() for at in bins):
                window.insufficient("patience_not_reached", f"{node} has too few readings")
                continue
            medians = np.zeros(_BINS)
            for one, at in zip(roles, bins, strict=True):
                parts = [one.value[at[i] : at[i + 1]] for i in range(_BINS)]
                medians += [float(np.median(part)) if len(part) else 0.0 for part in parts]
            window.judged(_BINS)
            grown = np.diff(medians)
            free = available.get((node, ""))
            mean = float(grown.mean())
            if free is None or not len(free.value) or mean <= 0 or grown.min() < self.even * mean:
                continue
            per_s = mean / (self.window_s / _BINS)
            left_s = float(free.value[-1]) / per_s
            if left_s >= self.within_h * 3600:
                continue
            yield self.issue(
                f"the job's memory on {node} grows by {per_s / 1e6:.3g} MB per second; at this rate it is "
                f"full in {max(left_s / 60, 0.0):.0f} minutes",
                severity="critical" if left_s <= 60 * self.critical_min else "warning",
                node=node,
                time_start=since,
                time_end=window.end,
                evidence={
                    "growth_bytes_per_s": per_s,
                    "available_bytes": float(free.value[-1]),
                    "full_in_s": left_s,
                },
            )
