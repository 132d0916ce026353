"""RecompilationStorm: code is compiled again and again during training."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Rule, State, Table, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of, worst, worth

_BIN = 50
"""Steps that are counted together."""


@rule_class
class RecompilationStorm(Rule):
    """Code is compiled again and again, long after warm-up."""

    reads = ("steps",)
    formula = (
        "in the last `window` steps after the first skip_steps: number of steps with a compilation >= "
        "recompiles_*, or compile time / step time >= share_*"
    )
    advice = (
        "Mark dynamic dimensions, pad inputs to a few sizes, and do not close over Python numbers that "
        "change."
    )
    packs = ("performance", "deep_trace")
    every_s = 60.0
    consecutive = 2

    recompiles_info: int | None = parameter(1, low=1, unit="steps")
    """Steps with a compilation from which the rule reports a note."""
    recompiles_warning: int | None = parameter(5, low=1, unit="steps")
    """Steps with a compilation that are a warning."""
    recompiles_critical: int | None = parameter(20, low=1, unit="steps")
    """Steps with a compilation that are critical."""
    share_info: float | None = parameter(1.0, low=0, high=100, unit="%")
    """Share of compile time from which the rule reports a note."""
    share_warning: float | None = parameter(3.0, low=0, high=100, unit="%")
    """Share of compile time that is a warning."""
    share_critical: float | None = parameter(15.0, low=0, high=100, unit="%")
    """Share of compile time that is critical."""
    skip_steps: int = parameter(20, low=0, unit="steps")
    """First steps of each attempt, which may compile."""
    window: int = parameter(500, low=_BIN, unit="steps")
    """Number of recent steps that are judged."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps; fewer are not judged."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """A smaller total compile time is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Count the new steps, and judge the rank that compiles most, because the others wait for it."""
        ranks = window.state.setdefault("ranks", {})
        if window.unchanged("steps"):
            return
        steps = window.new("steps")
        for rank in np.unique(steps["rank"]).tolist():
            mine = steps.where(steps["rank"] == rank).sorted("time", "step", "compile", "duration")
            self._count(ranks.setdefault(str(rank), {"last": -1, "seen": 0, "bins": []}), mine)
        totals = {rank: np.sum(known["bins"], axis=0) for rank, known in ranks.items() if known["bins"]}
        have = max((int(total[0]) for total in totals.values()), default=0)
        if not ranks:
            return window.insufficient("no_input", "no step")
        if have < self.min_steps:
            return window.too_few(f"too few steps after the first {self.skip_steps}", have, self.min_steps)
        window.judged(sum(int(total[0]) for total in totals.values()))
        rank_ = max(totals, key=lambda r: (int(totals[r][2]), int(totals[r][1]), -int(r)))
        count, compiled, spent, wall = (int(n) for n in totals[rank_])
        share = 100.0 * spent / wall if wall else 0.0
        reached = worst(
            severity_of(compiled, self.recompiles_info, self.recompiles_warning, self.recompiles_critical),
            severity_of(share, self.share_info, self.share_warning, self.share_critical),
        )
        severity = worth(reached, spent / 1e9, self.min_lost_s)
        if severity is not None:
            yield self.issue(
                f"code was compiled in {compiled} of the last {count} steps, for {share:.1f} % of their time",
                severity=severity,
                step_start=ranks[rank_]["since"],
                step_end=ranks[rank_]["last"],
                time_end=window.end,
                evidence={
                    "compiling_steps": compiled,
                    "steps": count,
                    "compile_s": spent / 1e9,
                    "share_pct": share,
                    "slowest_rank": int(rank_),
                },
            )

    def _count(self, known: State, steps: Table) -> None:
        """Add steps to bins of (steps, compiling steps, compile ns, ns); keep as many as are judged."""
        bins: list[list[int]] = known["bins"]
        number = steps["step"].astype(np.int64)
        # A new attempt has its own warm-up, and may repeat step numbers.
        restart = np.diff(np.concatenate([[known["last"]], number])) <= 0
        row = np.arange(len(number))
        since = np.maximum.accumulate(np.where(restart, row, -1))
        seen = np.where(since >= 0, row - since, row + known["seen"]) + 1
        known["last"], known["seen"] = int(number[-1]), int(seen[-1])
        counted = steps.where(seen > self.skip_steps)
        compiled = np.minimum(counted["compile"], counted["duration"])
        one = np.ones(counted.rows, dtype=np.int64)
        values = np.column_stack([one, compiled > 0, compiled, counted["duration"]])
        at = 0
        while at < len(values):
            if not bins or bins[-1][0] >= _BIN:
                bins.append([0, 0, 0, 0])
            some = values[at : at + _BIN - bins[-1][0]]
            bins[-1] = [int(n) for n in bins[-1] + some.sum(axis=0)]
            at += len(some)
        if counted.rows:
            known.setdefault("since", int(counted["step"][0]))
        # The newest bin is incomplete, so one extra bin keeps at least a whole window.
        del bins[: -(self.window // _BIN + 1)]
