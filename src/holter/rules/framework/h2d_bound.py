"""H2DBound: copies from host to device are exposed: computation does not hide them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.intervals import union
from holter.rules import Issue, Lookback, Rule, Window, parameter
from holter.rules.engine import last_hour as _hour
from holter.rules.engine.levels import severity_of, worth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.table import Table

_LARGE = 10e6


@dataclass(frozen=True, slots=True, kw_only=True)
class H2DBound(Rule):
    """Exposed copies from host to device take too large a share of the time.

    Where kernels were recorded, what counts is the time of copies in which no kernel ran. Elsewhere it is the
    host's time in copies; a copy first waits for the work that is queued before it, so what takes longer than
    its bytes could take at `slowest_gb_s` is not counted.
    """

    reads = ("steps", "spans/h2d", "scalars", "memory_operations", "kernels")
    description = "copies from host to device are exposed: computation does not hide them"
    formula = "time in exposed host-to-device copies / step time >= info, warning, or critical"
    advice = (
        "Pin memory, copy with non_blocking=True while the previous batch is computed, and send smaller "
        "data types."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(5.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the time from which the rule reports a note."""
    warning: float | None = parameter(10.0, low=0, high=100, unit="%")
    """Share of the time that is a warning."""
    critical: float | None = parameter(20.0, low=0, high=100, unit="%")
    """Share of the time that is critical."""
    slowest_gb_s: float = parameter(1.0, above=0, unit="GB/s")
    """No link is slower than this; a longer copy waited for something else."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; fewer are not judged by the host's clock."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total loss is a note at most; below a fifth of it nothing is reported."""

    @property
    def lookback(self) -> Lookback:
        """The recent accelerator trace, if there is one."""
        return Lookback(seconds=60.0)

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge by the trace where there is one, else by the last hour of the host's time."""
        sums = self._learn(window)
        traced = _exposed(window.memory_operations, window.kernels)
        if window.unchanged("steps") and traced is None:
            return
        trained = (window.end - (window.job.first_step or window.job.start)) / 1e9
        size = sums.get("bytes", 0) / sums["samples"] if sums.get("samples") else None
        about: dict[str, Any] = {"bytes_per_sample": size, "bytes": sums.get("bytes", 0)}
        if traced is not None:
            window.judged(window.memory_operations.rows)
            share, about["seen_by"] = traced, "trace"
        else:
            if not sums.get("steps"):
                return window.insufficient("no_input", "no step after warm-up")
            if sums["steps"] < self.min_steps:
                text = "too few steps after warm-up"
                return window.insufficient("too_few_points", text, have=sums["steps"], need=self.min_steps)
            window.judged(sums["steps"])
            about["host_pct"] = 100.0 * sums.get("host", 0) / max(sums["wall"], 1)
            share, about["seen_by"] = 100.0 * sums.get("harm", 0) / max(sums["wall"], 1), "host"
        severity = worth(
            severity_of(share, self.info, self.warning, self.critical), share / 100 * trained, self.min_lost_s
        )
        if severity is None:
            return
        large = size is not None and size > _LARGE
        yield self.issue(
            f"{share:.0f} % of the time is spent in exposed copies to the GPU"
            + (f"; a sample is {size / 1e6:.0f} MB" if large and size is not None else ""),
            severity=severity,
            time_end=window.end,
            evidence={"share_pct": share, "causes": ["large_input"] if large else [], **about},
        )

    def _learn(self, window: Window) -> dict[str, int]:
        bins: _hour.Bins = window.state.setdefault("sums", {})
        steps = _warm(window, window.new("steps"))
        ends = steps["time"] + steps["duration"]
        wall = np.maximum(steps["duration"] - steps["eval"], 0)
        _hour.add(bins, ends, wall=wall, steps=np.ones(steps.rows, dtype=np.int64))
        spans = _warm(window, window.spans_of("h2d", new=True))
        spans = spans.where((spans["worker"] == -1) & (spans["mode"] != "eval"))
        size = np.nan_to_num(spans["value"], nan=0.0, posinf=0.0, neginf=0.0).clip(0, 2.0**50)
        # A copy of unknown size is ignored, because its waiting time is unknown.
        harm = np.minimum(spans["duration"], np.rint(size / self.slowest_gb_s).astype(np.int64))
        _hour.add(bins, spans["time"], host=spans["duration"], harm=harm, bytes=size.astype(np.int64))
        scalars = _warm(window, window.new("scalars"))
        value = scalars["value"]
        counted = (scalars["name"] == "samples") & np.isfinite(value) & (value > 0) & (value < 2**40)
        scalars = scalars.where(counted)
        _hour.add(bins, scalars["time"], samples=scalars["value"].astype(np.int64))
        return _hour.totals(bins, window.end)


def _warm(window: Window, rows: Table) -> Table:
    since = [window.job.warm.get(rank, 2**62) for rank in rows["rank"].tolist()]
    return rows.where(rows["time"] >= np.array(since, dtype=np.int64))


def _exposed(copies: Table, kernels: Table) -> float | None:
    """Return the percent of the traced time in which a copy ran and no kernel did; None without a trace."""
    copies = copies.where(copies["kind"] == "h2d")
    if not copies.rows or not kernels.rows:
        return None
    lost = wall = 0
    for rank in np.unique(kernels["rank"]).tolist():
        work, moves = kernels.where(kernels["rank"] == rank), copies.where(copies["rank"] == rank)
        begin = np.concatenate([work["time"], moves["time"]])
        end = begin + np.concatenate([work["duration"], moves["duration"]])
        busy = len(work["time"])
        lost += union(begin, end).length - union(begin[:busy], end[:busy]).length
        wall += int(end.max() - begin.min())
    return 100.0 * lost / wall if wall > 0 else None
