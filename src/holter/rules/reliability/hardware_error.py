"""HardwareError: a GPU or a link reports hardware errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from holter.analysis.steps.spread import median
from holter.rules import Issue, Issues, Lookback, Place, Rule, Series, Severity, Window, parameter, rule_class
from holter.rules.patterns.gpu_owners import READS, ours, owners

_XIDS: dict[int, tuple[Severity, str]] = {
    13: ("info", "a fault of a kernel, mostly of the application"),
    31: ("info", "a memory page fault, mostly of the application"),
    43: ("info", "an application's context was stopped"),
    45: ("info", "work was cleaned up before its time, mostly after another error"),
    48: ("critical", "a memory error that could not be corrected"),
    61: ("critical", "an error of the internal microcontroller"),
    62: ("critical", "an error of the internal microcontroller"),
    63: ("warning", "a row or page of memory was marked for replacement"),
    64: ("critical", "a row or page of memory could not be marked for replacement"),
    74: ("critical", "an error of NVLink"),
    79: ("critical", "the GPU has fallen off the bus"),
    92: ("warning", "many memory errors were corrected"),
    94: ("critical", "a memory error that was contained"),
    95: ("critical", "a memory error that was not contained"),
    119: ("critical", "the GPU's system processor does not answer"),
    120: ("critical", "an error of the GPU's system processor"),
}
"""Severity and meaning of the Xid codes, as NVIDIA publishes them."""
_ROWS: tuple[tuple[str, Severity, str], ...] = (
    ("gpu.remap_failed", "critical", "a row of memory could not be replaced"),
    ("gpu.remap_pending", "warning", "rows of memory wait to be replaced at a reset"),
)
_LINKS = ("gpu.pcie_replays", "gpu.nvlink_errors", "gpu.pcie_gen", "gpu.pcie_width")
_MINUTE_S = 60.0
_BUSY_PCT = 50.0


@rule_class
class HardwareError(Rule):
    """The driver reports an Xid, memory errors, a slow PCIe link, or NVLink errors."""

    reads = (
        "samples/gpu.xid",
        "samples/gpu.ecc_uncorrected",
        "samples/gpu.remap_pending",
        "samples/gpu.remap_failed",
        "samples/gpu.nvlink_errors",
        "samples/gpu.pcie_replays",
        "samples/gpu.pcie_gen",
        "samples/gpu.pcie_gen_max",
        "samples/gpu.pcie_width",
        "samples/gpu.pcie_width_max",
        "samples/gpu.util",
        READS,
    )
    severity = "critical"
    formula = (
        "an Xid; uncorrected memory errors; a row remapping that is pending or failed; PCIe replays > "
        "replays_per_min; NVLink errors > nvlink_per_s; or a PCIe link below its best speed for a busy "
        "minute"
    )
    advice = "Drain the node and restart from the last checkpoint."
    packs = ("default", "essentials")
    tells_once = True  # an Xid is reported once; silence does not mean that the device is healthy
    lookback = Lookback(seconds=_MINUTE_S)

    replays_per_min: float = parameter(10.0, low=0, unit="replays/min")
    """More PCIe replays than this are a warning."""
    nvlink_per_s: float = parameter(1.0, low=0, unit="errors/s")
    """More NVLink errors than this are a warning."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each GPU's new errors, and its links over the last minute."""
        known = owners(window)
        read = {place for text in self.reads[:-2] for place in window.series(text.partition("/")[2])}
        places = ours(read, known)
        if not places:
            return window.insufficient("no_input", "no GPU reports its errors")
        window.judged(len(places))
        # Most jobs lack most of these series: only those that exist are asked for, GPU by GPU.
        xids, memory = window.series("gpu.xid", new=True), window.series("gpu.ecc_uncorrected", new=True)
        rows = {metric: found for metric, _, _ in _ROWS if (found := window.series(metric, new=True))}
        links = any(window.series(metric) for metric in _LINKS)
        for place in places:
            if place in xids:
                yield from self._xids(xids[place], place)
            if place in memory or any(place in found for found in rows.values()):
                yield from self._memory(window, place)
            if links:
                yield from self._links(window, place)

    def _xids(self, series: Series, place: Place) -> Issues:
        for value in np.unique(series.value).tolist():
            number = int(value)
            severity, meaning = _XIDS.get(number, ("info", "see NVIDIA's list of Xid errors"))
            times = series.time[series.value == value]
            yield self._issue(
                place,
                f"xid_{number}",
                f"{place[1]} reports Xid {number}: {meaning}",
                severity,
                time_start=int(times[0]),
                time_end=int(times[-1]),
                count=len(times),
                evidence={"xid": number},
                advice="Look at the application's own error first." if severity == "info" else self.advice,
            )

    def _memory(self, window: Window, place: Place) -> Issues:
        first: dict[str, float] = window.state.setdefault("ecc", {})
        errors = window.series("gpu.ecc_uncorrected", new=True).get(place)
        if errors is not None:
            before = first.setdefault("/".join(place), float(errors.value[0]))
            now = float(errors.value.max())
            evidence = {"errors": now, "before_the_job": before}
            if now > before:
                text = f"{place[1]} had {now - before:.0f} uncorrected memory errors"
                yield self._issue(place, "ecc", text, "critical", evidence=evidence, **errors.span)
            elif before > 0:
                text = f"{place[1]} had memory errors before this job: {before:.0f} not corrected"
                yield self._issue(place, "ecc_before", text, "warning", evidence=evidence, **errors.span)
        for metric, severity, text in _ROWS:
            flag = window.series(metric, new=True).get(place)
            if flag is not None and flag.value.max() > 0:
                code = metric.removeprefix("gpu.")
                yield self._issue(place, code, f"{place[1]}: {text}", severity, time_end=int(flag.time[-1]))

    def _links(self, window: Window, place: Place) -> Issues:
        for metric, per_s, limit, code, unit in (
            ("gpu.pcie_replays", 1 / 60, self.replays_per_min, "pcie_replays", "PCIe replays a minute"),
            ("gpu.nvlink_errors", 1.0, self.nvlink_per_s, "nvlink", "NVLink errors a second"),
        ):
            counter = window.series(metric).get(place)
            if counter is None or counter.time[-1] - counter.time[0] < 0.5e9 * _MINUTE_S:
                continue
            seconds = (int(counter.time[-1]) - int(counter.time[0])) / 1e9
            rate = float(counter.value[-1] - counter.value[0]) / seconds / per_s
            if rate > limit:
                text = f"{place[1]} has {rate:.0f} {unit}"
                yield self._issue(place, code, text, "warning", evidence={"rate": rate, "limit": limit})
        util = window.series("gpu.util").get(place)
        # An idle GPU lowers its link to save power.
        if util is None or median(util.value) < _BUSY_PCT:
            return
        for metric, unit in (("gpu.pcie_gen", "generation"), ("gpu.pcie_width", "lanes")):
            now, best = window.series(metric).get(place), window.series(f"{metric}_max").get(place)
            if now is None or best is None or now.time[-1] - now.time[0] < 0.5e9 * _MINUTE_S:
                continue
            if now.value.max() < best.value[-1]:
                have, could = float(now.value.max()), float(best.value[-1])
                text = f"the PCIe link of {place[1]} runs at {unit} {have:.0f} of {could:.0f} under load"
                evidence = {unit: have, f"{unit}_max": could}
                yield self._issue(place, metric.partition(".")[2], text, "warning", evidence=evidence)

    def _issue(self, place: Place, code: str, text: str, severity: Severity, **about: Any) -> Issue:
        node, device = place
        return self.issue(text, code=code, severity=severity, node=node, device=device, **about)
