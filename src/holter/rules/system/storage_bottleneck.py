"""StorageBottleneck: storage is too slow for training."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Place, Rule, Series, Severity, Window, parameter, rule_class

_PRESSURE_S = 60.0
_WINDOW_S = 300.0
_MIN_OPERATIONS = 10.0
"""With fewer operations per second, their duration is not judged."""
_MIN_STEPS = 20


@rule_class
class StorageBottleneck(Rule):
    """Tasks wait for I/O while training waits for data."""

    reads = (
        "samples/psi.io",
        "samples/disk.await",
        "samples/disk.iops",
        "samples/disk.read_bytes",
        "steps",
    )
    formula = (
        "psi.io of the last minute >= pressure and data loading >= data of the steps: warning; both at "
        "twice their limit: critical; 95th percentile of disk.await >= wait_ms: note"
    )
    advice = "Keep data close: use a local cache, larger files, or a sequential format."
    packs = ("performance",)
    every_s = 30.0
    consecutive = 2
    lookback = Lookback(seconds=_WINDOW_S, steps=200)

    pressure: float = parameter(20.0, above=0, high=100, unit="%")
    """I/O pressure that is a warning; twice as much is critical."""
    data: float = parameter(10.0, low=0, high=100, unit="%")
    """Share of the steps that data loading must take; twice as much for a critical finding."""
    wait_ms: float | None = parameter(50.0, above=0, unit="ms")
    """95th percentile of the time of a disk operation from which the rule reports a note."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by its I/O pressure and by its ranks' wait for data."""
        pressure = window.series("psi.io", since=window.end - round(_PRESSURE_S * 1e9))
        waits, operations = window.series("disk.await"), window.series("disk.iops")
        if not pressure and not waits:
            return window.insufficient("no_input", "neither psi.io nor disk.await is read here")
        best: dict[str, float] = window.state.setdefault("best", {})
        for (node, _), series in window.series("disk.read_bytes", new=True).items():
            best[node] = max(best.get(node, 0.0), float(np.median(series.value)))
        loading = self._loading(window)
        for place in sorted(pressure.keys() | waits.keys()):
            node = place[0]
            evidence: dict[str, float | None] = {
                "psi_io_pct": float(pressure[place].value.mean()) if place in pressure else None,
                "data_loading_pct": loading.get(node),
                "await_p95_ms": _await(waits, operations, place),
                "best_read_bytes_per_s": best.get(node),
            }
            if node in loading or evidence["await_p95_ms"] is not None:
                window.judged(1)
            if (found := self._level(evidence)) is not None:
                severity, code, text = found
                about = {"node": node, "evidence": evidence, **window.span}
                yield self.issue(text, severity=severity, code=code, **about)
        if not window.points:
            window.insufficient("too_few_points", "too few steps in steady state")

    def _level(self, here: dict[str, float | None]) -> tuple[Severity, str, str] | None:
        stalled, loading, wait = here["psi_io_pct"], here["data_loading_pct"], here["await_p95_ms"]
        if stalled is not None and loading is not None and stalled >= self.pressure and loading >= self.data:
            much = stalled >= 2 * self.pressure and loading >= 2 * self.data
            text = (
                f"tasks wait for storage {stalled:.0f} % of the time; training waits for data {loading:.0f} %"
            )
            return "critical" if much else "warning", "pressure", text
        if self.wait_ms is not None and wait is not None and wait >= self.wait_ms:
            return "info", "slow_disk", f"a disk operation takes {wait:.0f} ms (95th percentile)"
        return None

    def _loading(self, window: Window) -> dict[str, float]:
        """Return the share of data loading in the recent steps of each node."""
        steps = window.steady
        steps = steps.where(steps["time"] + steps["duration"] > window.end - round(_WINDOW_S * 1e9))
        found = {}
        for node in sorted(set(steps["node"].tolist())):
            here = steps["node"] == node
            if here.sum() >= _MIN_STEPS:
                waited = float(steps["data_loading"][here].sum())
                found[node] = 100.0 * waited / float(steps["duration"][here].sum())
        return found


def _await(waits: dict[Place, Series], operations: dict[Place, Series], place: Place) -> float | None:
    """Return the 95th percentile of the operation times; None if there are too few operations."""
    if place not in waits or place not in operations or len(waits[place].value) < _MIN_STEPS:
        return None
    enough = float(np.median(operations[place].value)) >= _MIN_OPERATIONS
    return float(np.quantile(waits[place].value, 0.95)) if enough else None
