"""BetweenStepOverhead: training loses time between steps."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.job_facts import steps_span
from holter.rules.engine.levels import severity_of, worth

_PAUSE_NS = 60_000_000_000
"""A longer gap is a restart or a pause, not overhead of each step."""


@rule_class
class BetweenStepOverhead(Rule):
    """Code outside the known parts of a step takes time between the work of one step and the next.

    A step reaches from the end of one optimizer step to the end of the next, so most of what lies between
    two iterations is `other` inside it; what lies between two steps that the user marked is a gap. `other`
    counts only where forward and backward pass were seen: elsewhere it may be the model itself.
    """

    reads = ("steps",)
    formula = (
        "(gaps between steps + unattributed time inside them) / (loop time without evaluation) >= info, "
        "warning, or critical"
    )
    advice = (
        "Mark the code between the steps with holter.annotate to see which part takes the time. Log less "
        "often, and compute metrics without waiting for the GPU."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(5.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the loop from which the rule reports a note."""
    warning: float | None = parameter(15.0, low=0, high=100, unit="%")
    """Share of the loop that is a warning."""
    critical: float | None = parameter(30.0, low=0, high=100, unit="%")
    """Share of the loop that is critical."""
    window: int = parameter(200, low=1, unit="steps")
    """Number of recent steps of each rank that are judged."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; fewer are not judged."""
    min_ms: float = parameter(1.0, low=0, unit="ms")
    """A smaller loss per step is a note at most."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total loss is a note at most; below a fifth of it nothing is reported."""

    @property
    def lookback(self) -> Lookback:
        """The last steps of each rank."""
        return Lookback(steps=self.window)

    def evaluate(self, window: Window) -> Issues:
        """Judge the rank that loses most."""
        if window.unchanged("steps"):
            return
        steps = window.warm
        steps = steps.where((steps["mode"] != "eval") & (steps["duration"] > 0))
        ranks, counts = np.unique(steps["rank"], return_counts=True)
        enough = ranks[counts >= self.min_steps]
        if not len(enough):
            if not window.steps.rows:
                return window.insufficient("no_input", "no step")
            have = int(counts.max(initial=0))
            return window.too_few("too few steps after warm-up", have, self.min_steps)
        window.judged(int(counts[counts >= self.min_steps].sum()))
        found = {int(r): _lost(steps.where(steps["rank"] == r).sorted("time", "step")) for r in enough}
        shares = {
            rank: 100.0 * (gap + other) / loop for rank, (gap, other, loop, _) in found.items() if loop > 0
        }
        if not shares:
            return
        rank = max(shares, key=lambda r: (shares[r], -r))
        gap, other, loop, count = found[rank]
        share = shares[rank]
        trained = (window.end - (window.job.first_step or window.job.start)) / 1e9
        severity = worth(
            severity_of(share, self.info, self.warning, self.critical), share / 100 * trained, self.min_lost_s
        )
        if severity is None:
            return
        each = (gap + other) / count / 1e6
        mine = steps.where(steps["rank"] == rank)
        yield self.issue(
            f"{share:.0f} % of the loop, {each:.3g} ms per step, is spent in code outside the steps",
            severity="info" if each < self.min_ms else severity,
            **steps_span(mine),
            evidence={
                "share_pct": share,
                "gap_pct": 100.0 * gap / loop,
                "other_pct": 100.0 * other / loop,
                "checkpoint_pct": 100.0 * int(mine["checkpoint"].sum()) / loop,
                "lost_ms_per_step": each,
                "steps": count,
                "slowest_rank": rank,
            },
        )


def _lost(steps: Table) -> tuple[int, int, int, int]:
    """Return gaps, unattributed time and loop time without evaluation in ns, and the steps of one rank."""
    end = np.maximum.accumulate(steps["time"] + steps["duration"])
    gaps = np.maximum(steps["time"][1:] - end[:-1], 0)
    # The step number jumps: steps are missing, or the training restarted.
    counted = (np.diff(steps["step"].astype(np.int64)) == 1) & (gaps < _PAUSE_NS)
    gap = int(gaps[counted].sum())
    known = (steps["forward"] > 0) & (steps["backward"] > 0)
    # Garbage collection and annotations inside a gap are also time lost between steps.
    other = int(steps["other"][known].sum())
    return gap, other, int((steps["duration"] - steps["eval"]).sum()) + gap, steps.rows
