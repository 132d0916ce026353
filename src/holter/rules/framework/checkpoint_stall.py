"""CheckpointStall: training waits while checkpoints are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holter.analysis.verdict.result import CHECKPOINT_SHARE
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.engine import last_hour as _hour
from holter.rules.engine.levels import severity_of, worth

_KEPT = 32
"""Checkpoints of a rank that are remembered."""
_RECENT_NS = 3_600_000_000_000
_LEAST = 5
"""Number of checkpoints that are judged regardless of their age."""
_SMALL_BYTES = 64e6
"""The write rate of a smaller file says nothing about the storage."""
_IDLE_DISK = 10e6


@rule_class
class CheckpointStall(Rule):
    """Steps are blocked by checkpoints for too large a share of the time, or once for too long."""

    reads = (
        "steps",
        "spans/checkpoint",
        "samples/proc.cpu",
        "samples/proc.count",
        "samples/disk.write_bytes",
    )
    formula = (
        "time blocked by checkpoints / time between the first and the last checkpoint of an hour >= info, "
        "warning, or critical; or one checkpoint >= single_s and >= 20 x the median step"
    )
    advice = (
        "Write checkpoints asynchronously, to fast local storage first and from all ranks, and save less "
        "often."
    )
    packs = ("default", "performance")
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(steps=200, seconds=120.0)

    info: float | None = parameter(2.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the time from which the rule reports a note."""
    warning: float | None = parameter(CHECKPOINT_SHARE, low=0, high=100, unit="%")
    """Share of the time that is a warning; the verdict names checkpoints from it on."""
    critical: float | None = parameter(15.0, low=0, high=100, unit="%")
    """Share of the time that is critical."""
    single_s: float = parameter(60.0, above=0, unit="s")
    """A single checkpoint that blocks this long is reported."""
    slow_gb_s: float = parameter(0.5, above=0, unit="GB/s")
    """Storage with a lower write rate is called slow."""
    mtbf_h: float = parameter(24.0, above=0, unit="h")
    """Mean time between failures; it determines how often a checkpoint pays off."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total loss is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the rank that is blocked longest, because the others wait for it."""
        _learn(window)
        if window.unchanged("steps"):
            return
        ranks: dict[str, list[list[int]]] = window.state["ranks"]
        if not window.steps.rows:
            return window.insufficient("no_input", "no step")
        if not ranks:
            return window.insufficient("no_input", "no checkpoint was written yet")
        recent = {rank: _recent(events) for rank, events in ranks.items()}
        shares = {rank: _share(events) for rank, events in recent.items() if len(events) > 1}
        window.judged(sum(len(events) for events in recent.values()))
        if shares:
            rank = max(shares, key=lambda r: (shares[r], -int(r)))
            yield from self._often(window, rank, recent[rank], shares[rank])
        else:
            window.too_few("one checkpoint was written; the rule needs two", 1, 2)
        yield from self._long(window, recent)

    def _often(self, window: Window, rank: str, events: list[list[int]], share: float) -> Issues:
        lost = sum(event[1] for event in window.state["ranks"][rank]) / 1e9
        severity = worth(severity_of(share, self.info, self.warning, self.critical), lost, self.min_lost_s)
        if severity is None:
            return
        blocked = [event[1] / 1e9 for event in events[1:]]
        every = (events[-1][0] - events[0][0]) / 1e9 / len(blocked)
        cost = float(np.mean(blocked))
        best = math.sqrt(2 * cost * self.mtbf_h * 3600)
        sums = _hour.totals(window.state["written"], window.end)
        speed = sums["bytes"] / sums["ns"] if sums.get("ns") else None
        causes = []
        if speed is not None and speed < self.slow_gb_s:
            causes.append("slow_storage")
        if _serialising(window, events[-1]):
            causes.append("serialisation")
        if _alone(window, int(rank), events[-1]):
            causes.append("rank0_only")
        if every < best:
            causes.append("too_frequent")
        yield self.issue(
            f"checkpoints block training for {share:.1f} % of its time: {cost:.2g} s every {every:.0f} s",
            severity=severity,
            code="share",
            step_start=events[0][2],
            step_end=events[-1][2],
            time_start=events[0][0],
            time_end=events[-1][0],
            evidence={
                "share_pct": share,
                "blocked_s": cost,
                "interval_s": every,
                "best_interval_s": best,
                "checkpoints": len(blocked),
                "bandwidth_gb_s": speed,
                "slowest_rank": int(rank),
                "causes": causes,
            },
        )

    def _long(self, window: Window, recent: dict[str, list[list[int]]]) -> Issues:
        steady = window.steady
        if not steady.rows:
            return
        median = float(np.median(steady["duration"])) / 1e9
        limit = max(self.single_s, 20 * median)
        events = [(event[1], -int(rank), event) for rank, found in recent.items() for event in found]
        blocked, rank, event = max(events)
        if blocked / 1e9 < limit:
            return
        # In a job of a day, one minute does not matter.
        loop = event[0] - (window.job.first_step or window.job.start)
        yield self.issue(
            f"one checkpoint blocked training for {blocked / 1e9:.0f} s, {blocked / 1e9 / median:.0f} steps",
            severity="warning" if blocked >= 0.01 * loop else "info",
            code="single",
            step_start=event[2],
            step_end=event[2],
            time_start=event[0] - blocked,
            time_end=event[0],
            evidence={"blocked_s": blocked / 1e9, "median_step_s": median, "slowest_rank": -rank},
        )


def _learn(window: Window) -> None:
    """Keep each rank's last checkpoints as (end, blocked ns, step), and their write rates."""
    ranks: dict[str, list[list[int]]] = window.state.setdefault("ranks", {})
    steps = window.new("steps")
    steps = steps.where(steps["checkpoint"] > 0)
    ends = steps["time"] + steps["duration"]
    for i in np.lexsort((steps["step"], steps["rank"], ends)).tolist():
        events = ranks.setdefault(str(steps["rank"][i]), [])
        events.append([int(ends[i]), int(steps["checkpoint"][i]), int(steps["step"][i])])
        del events[:-_KEPT]
    spans = window.spans_of("checkpoint", new=True)
    size = np.nan_to_num(spans["value"], nan=0.0, posinf=0.0, neginf=0.0)
    known = (size >= _SMALL_BYTES) & (size < 2**60)
    spans, size = spans.where(known), size[known]
    _hour.add(
        window.state.setdefault("written", {}),
        spans["time"],
        bytes=size.astype(np.int64),
        ns=spans["duration"],
    )


def _recent(events: list[list[int]]) -> list[list[int]]:
    late = [event for event in events if event[0] > events[-1][0] - _RECENT_NS]
    return late if len(late) >= _LEAST else events[-_LEAST:]


def _share(events: list[list[int]]) -> float:
    """Return the blocked percent of whole cycles, because a single early checkpoint would look expensive."""
    span = events[-1][0] - events[0][0]
    return min(100.0 * sum(event[1] for event in events[1:]) / span, 100.0) if span > 0 else 0.0


def _serialising(window: Window, event: list[int]) -> bool:
    """Return whether one core was busy and the disk idle during a checkpoint."""
    since, until = event[0] - event[1], event[0]

    def during(metric: str, device: str = "") -> Any:
        found = [s for (_, name), s in window.series(metric).items() if device in ("", name)]
        return np.concatenate([[], *(s.value[(s.time > since) & (s.time <= until)] for s in found)])

    cpu, count = during("proc.cpu", "trainer"), during("proc.count", "trainer")
    written = during("disk.write_bytes")
    if not len(cpu) or not len(count) or not len(written):
        return False
    one = float(np.median(cpu)) / max(float(np.median(count)), 1.0)
    return 90.0 <= one <= 130.0 and float(np.median(written)) < _IDLE_DISK


def _alone(window: Window, rank: int, event: list[int]) -> bool:
    """Return whether the other ranks waited for the one that writes."""
    steps = window.steps
    others = steps.where((steps["rank"] != rank) & (steps["mode"] != "eval"))
    around = others.where((others["step"] == event[2]) | (others["step"] == event[2] + 1))
    if not around.rows or (around["checkpoint"] > 0).any():
        return False
    usual = float(np.median(others["communication"]))
    waits = [
        float((around["communication"][around["rank"] == r] - usual).sum()) for r in np.unique(around["rank"])
    ]
    return float(np.median(waits)) >= 0.9 * event[1]
