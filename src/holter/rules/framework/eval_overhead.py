"""EvalOverhead: evaluation takes much of the training time."""

from __future__ import annotations

import numpy as np

from holter.analysis.verdict.loop_suspects import EVALUATION_SHARE
from holter.analysis.verdict.result import SMALLER
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of, worth


@rule_class
class EvalOverhead(Rule):
    """Evaluation takes too large a share of whole cycles of training and evaluation."""

    reads = ("steps",)
    formula = (
        "evaluation time / time from the end of the first evaluation to the end of the last one >= info, "
        "warning, or critical"
    )
    advice = "Evaluate less often, on fewer batches, with larger batches, or in a separate job."
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(SMALLER, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the time from which the rule reports a note."""
    warning: float | None = parameter(EVALUATION_SHARE, low=0, high=100, unit="%")
    """Share of the time that is a warning; the verdict names evaluation from it on."""
    critical: float | None = parameter(50.0, low=0, high=100, unit="%")
    """Share of the time that is critical."""
    min_lost_s: float = parameter(10.0, low=0, unit="s")
    """A smaller total is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Add the new evaluations, and judge the slowest rank, because the others wait for it."""
        ranks = window.state.setdefault("ranks", {})
        if window.unchanged("steps"):
            return
        steps = window.new("steps")
        evaluating = steps.where(steps["eval"] > 0)
        ends = evaluating["time"] + evaluating["duration"]
        for i in np.lexsort((evaluating["step"], evaluating["rank"], ends)).tolist():
            end, step, spent = int(ends[i]), int(evaluating["step"][i]), int(evaluating["eval"][i])
            # Time before the end of the first evaluation is not a whole cycle.
            fresh = {"begin": end, "end": end, "eval": 0, "count": 0, "first": step, "last": step}
            known = ranks.setdefault(str(evaluating["rank"][i]), fresh)
            if known is not fresh:
                known["eval"] += spent
                known["count"] += 1
                known["end"], known["last"] = max(known["end"], end), step
        whole = {rank: known for rank, known in ranks.items() if known["end"] > known["begin"]}
        if not whole:
            if not ranks:
                return window.insufficient("no_input", "no evaluation ran during training")
            return window.too_few("one evaluation; a whole cycle takes two", 1, 2)
        shares = {rank: 100.0 * k["eval"] / (k["end"] - k["begin"]) for rank, k in whole.items()}
        window.judged(sum(known["count"] for known in whole.values()))
        rank = max(shares, key=lambda r: (shares[r], -int(r)))
        known, share = whole[rank], min(shares[rank], 100.0)
        severity = worth(
            severity_of(share, self.info, self.warning, self.critical), known["eval"] / 1e9, self.min_lost_s
        )
        if severity is not None:
            mean = known["eval"] / known["count"] / 1e9
            every = (known["end"] - known["begin"]) / known["count"] / 1e9
            yield self.issue(
                f"evaluation takes {share:.0f} % of the time: {mean:.2g} s every {every:.3g} s",
                severity=severity,
                step_start=known["first"],
                step_end=known["last"],
                time_start=known["begin"],
                time_end=known["end"],
                evidence={
                    "share_pct": share,
                    "evaluations": known["count"],
                    "evaluation_s": mean,
                    "interval_s": every,
                    "slowest_rank": int(rank),
                },
            )
