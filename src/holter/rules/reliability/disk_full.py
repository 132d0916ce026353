"""DiskFull: the disk that holds the store runs full."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Series, Severity, Window, parameter, rule_class
from holter.rules.engine.levels import worst
from holter.rules.engine.trend import rising

_MINUTE_NS = 60_000_000_000
_MINUTES = 30
_MIN_MINUTES = 15
_GIB = 2**30


@rule_class
class DiskFull(Rule):
    """The disk of the store has little free space, or fills so steadily that it is soon full."""

    reads = ("samples/disk.free_pct", "samples/disk.free")
    formula = (
        "free space < warning_pct and < enough_gib, or used up in < warning_h at the steady pace of the "
        "last 30 minutes: warning; free space < critical_pct and < enough_gib: critical"
    )
    advice = "Free space or keep fewer checkpoints; the next checkpoint may not fit."
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(seconds=(_MINUTES + 1) * 60.0)

    warning_pct: float = parameter(10.0, low=0, high=100, unit="%")
    """Less free space than this is a warning."""
    critical_pct: float = parameter(2.0, low=0, high=100, unit="%")
    """Less free space than this is critical."""
    enough_gib: float = parameter(100.0, low=0, unit="GiB")
    """More free space than this is always enough, because a tenth of a large disk is much."""
    warning_h: float = parameter(2.0, low=0, unit="h")
    """A disk that fills within this time is a warning."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node's disk by itself."""
        shares, sizes = window.series("disk.free_pct"), window.series("disk.free")
        if not shares:
            return window.insufficient(
                "no_input", "free space is not recorded: the store is not on a local disk"
            )
        for place, share in shares.items():
            window.judged(len(share.value))
            now, size = float(share.value[-1]), sizes.get(place)
            free = None if size is None else float(size.value[-1])
            short = free is None or free < self.enough_gib * _GIB
            severity: Severity | None = None
            if short and now < self.warning_pct:
                severity = "critical" if now < self.critical_pct else "warning"
            hours = _hours_left(share, window.end)
            soon = hours is not None and hours < self.warning_h
            severity = worst(severity, "warning" if soon else None)
            if severity is not None:
                when = f", and it fills up in {hours:.1f} h at this pace" if soon else ""
                yield self.issue(
                    f"{now:.1f} % of the disk is free{when}",
                    severity=severity,
                    node=place[0],
                    **share.span,
                    evidence={"free_pct": now, "free_bytes": free, "hours_left": hours},
                )


def _hours_left(share: Series, end: int) -> float | None:
    """Return the hours until the disk is full at this pace; None if its use does not rise steadily."""
    minute = share.time // _MINUTE_NS
    whole = (minute > end // _MINUTE_NS - _MINUTES) & (minute < end // _MINUTE_NS)
    medians = [float(np.median(share.value[minute == m])) for m in np.unique(minute[whole])]
    if len(medians) < _MIN_MINUTES:
        return None
    pace = rising(-np.array(medians))
    return None if pace is None else medians[-1] / pace / 60
