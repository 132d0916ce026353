"""FirstStepSlow: the first step is much slower than the later ones."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.schema.phases import BREAKDOWN


@rule_class
class FirstStepSlow(Rule):
    """The first step takes many times as long as the later ones: autotuning, compiling, cold caches."""

    reads = ("steps",)
    severity = "info"
    formula = "first step > ratio x the median of the later steps, and > min_s"
    advice = (
        "Keep compiled code and tuned kernels in a cache between jobs, and warm up file caches before the "
        "start."
    )
    packs = ("performance",)
    every_s = 60.0
    tells_once = True
    lookback = Lookback(steps=200)

    ratio: float = parameter(50.0, above=1, aliases=("threshold",))
    """Largest allowed first step, as a multiple of the median."""
    min_s: float = parameter(60.0, low=0, unit="s")
    """A shorter first step is not reported."""
    min_steps: int = parameter(20, low=1, unit="steps")
    """Number of later steps that the median needs."""

    def evaluate(self, window: Window) -> Issues:
        """Judge once, when enough later steps are known: the slowest first step of any rank."""
        state = window.state
        first = state.setdefault("first", {})
        if window.unchanged("steps"):
            return
        if state.get("reported"):
            return window.judged(len(first))
        steps = window.new("steps").sorted("rank", "time", "duration", "step")
        for row in steps.where(np.unique(steps["rank"], return_index=True)[1]).to_rows():
            known = first.setdefault(str(row["rank"]), row)
            if row["time"] < known["time"]:
                first[str(row["rank"])] = row
        if not first:
            return window.insufficient("no_input", "no step")
        steady = window.steady
        if steady.rows < self.min_steps:
            return window.too_few("too few steps after the first", steady.rows, self.min_steps)
        window.judged(len(first))
        state["reported"] = True
        median = float(np.median(steady["duration"]))
        slow = max(first.values(), key=lambda row: (row["duration"], -row["rank"]))
        if slow["duration"] <= self.ratio * median or slow["duration"] <= self.min_s * 1e9:
            return
        parts = {part: slow[part] / 1e9 for part in (*BREAKDOWN, "compile") if slow[part] > 0}
        parts = dict(sorted(parts.items(), key=lambda item: -item[1]))
        yield self.issue(
            f"the first step took {slow['duration'] / 1e9:.0f} s, {slow['duration'] / median:.0f} times the "
            f"median of {median / 1e6:.3g} ms; most of it in {next(iter(parts), 'other')}",
            step_start=slow["step"],
            step_end=slow["step"],
            time_start=slow["time"],
            time_end=slow["time"] + slow["duration"],
            evidence={
                "first_step_s": slow["duration"] / 1e9,
                "median_ms": median / 1e6,
                "parts_s": parts,
                "slowest_rank": slow["rank"],
            },
        )
