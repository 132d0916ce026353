"""StalledTraining: a rank hangs, is lost, or makes no progress."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.stalls import LOOKBACK, READS, Stalls


@rule_class
class StalledTraining(Rule):
    """A rank hangs, is lost, or has ended no step for far longer than its steps usually take."""

    reads = READS
    severity = "critical"
    tells_once = True
    formula = (
        "time since a rank's last progress > clamp(factor x p99 of its last 200 steps, min_s, max_s): "
        "warning; > 3 x that limit: critical; the details hold "
        "steps that last, or lasted, longer than 10 s, factor x p99 and 10 % of the loop's time"
    )
    advice = (
        "Read the stacks of all ranks, first those of the ranks that stopped outside the "
        "collective in which the others wait."
    )
    packs = ("default", "essentials")

    factor: float = parameter(10.0, low=1)
    """Allowed silence, as a multiple of the 99th percentile of the last 200 step times."""
    min_s: float = parameter(120.0, classic=1800.0, above=0, unit="s")
    """Lower bound of the limit: shorter silence is never reported."""
    max_s: float = parameter(1800.0, above=0, unit="s", aliases=("threshold",))
    """Upper bound of the limit: longer silence is always reported."""

    lookback = LOOKBACK

    def evaluate(self, window: Window) -> Issues:
        """Judge the reported hangs, then the silence of each rank."""
        limits = Stalls(rule=self, factor=self.factor, min_s=self.min_s, max_s=self.max_s)
        yield from limits.judge(window)
