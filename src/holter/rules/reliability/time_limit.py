"""TimeLimit: the job's time limit ends before its last step."""

from __future__ import annotations

import time

import numpy as np

from holter.rules import Issues, Rule, State, Table, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of


@rule_class
class TimeLimit(Rule):
    """The scheduler ends the job before it has taken its planned steps, at its speed so far."""

    reads = ("steps", "events/planned")
    formula = (
        "end of the time limit < last step + steps that are left x mean time of a step, checkpoints and "
        "evaluations included, by more than margin_min and more than margin_pct of the time that is left"
    )
    advice = (
        "Save a checkpoint before the limit and continue from it in a second job (Slurm: #SBATCH "
        "--signal=B:USR1@120 tells the script two minutes before, --requeue starts it again), or ask for a "
        "longer limit: scontrol update JobId=N TimeLimit=+MINUTES."
    )
    packs = ("default", "essentials")
    every_s = 10.0
    consecutive = 2

    limit_h: float | None = parameter(None, above=0, unit="h")
    """The time limit from the job's start, where the scheduler does not tell it, as on Kubernetes."""
    total_steps: int | None = parameter(None, low=1, unit="steps")
    """Planned steps, where neither a trainer nor --total-steps tells them."""
    min_steps: int = parameter(20, low=1, unit="steps")
    """Steps from which the speed is judged."""
    margin_min: float = parameter(1.0, low=0, unit="min")
    """A shorter delay is not reported."""
    margin_pct: float = parameter(3.0, low=0, high=100, unit="%")
    """A delay that is a smaller part of the time left is not reported: the speed is not known better."""
    critical_min: float = parameter(30.0, low=0, unit="min")
    """Critical when the limit is as near as this: a checkpoint has to be saved now."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the rank that is furthest behind."""
        state, job = window.state, window.job
        _follow(state.setdefault("ranks", {}), window.new("steps"))
        for _, one in details_of(window.new("events"), "planned"):
            state["planned"] = one.get("steps")
        ends = job.ends if self.limit_h is None else job.start + round(self.limit_h * 3600e9)
        if ends is None:
            return window.insufficient("no_input", "the job has no time limit that holter knows of")
        total = self.total_steps or job.total_steps or state.get("planned")
        if not total:
            return window.insufficient("no_input", "the number of planned steps is not known")
        ranks = [one for one in state["ranks"].values() if one["steps"] >= self.min_steps]
        if not ranks:
            return window.insufficient("patience_not_reached", "training has just begun")
        window.judged(len(ranks))
        if job.ended:
            return
        done = min(one["newest"] for one in ranks) + 1
        mean_ns = max((one["end"] - one["begin"]) / one["steps"] for one in ranks)
        newest = max(one["end"] for one in ranks)
        left_ns = max(total - done, 0) * mean_ns
        late_min = (newest + left_ns - ends) / 60e9
        if done >= total or late_min <= max(self.margin_min, self.margin_pct / 100 * left_ns / 60e9):
            return
        reaches = done + int(max(ends - newest, 0) / mean_ns)
        clock = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(ends / 1e9))
        yield self.issue(
            f"the job will not finish in time: its time limit ends on {clock}, {late_min:,.0f} minutes "
            f"before the last step; at this speed it reaches step {reaches:,} of {total:,}",
            severity="critical" if ends - window.end <= self.critical_min * 60e9 else "warning",
            step_start=done - 1,
            time_end=window.end,
            evidence={
                "ends": ends,
                "missing_min": late_min,
                "left_min": left_ns / 60e9,
                "step_ms": mean_ns / 1e6,
                "done_steps": done,
                "total_steps": total,
                "reaches_step": reaches,
            },
        )


def _follow(ranks: dict[str, State], steps: Table) -> None:
    """Keep of each rank since when it trains, how many steps it took, and the newest; restarts begin anew."""
    training = steps.where(steps["mode"] != "eval").sorted("time")
    for rank in np.unique(training["rank"]).tolist():
        mine = training["rank"] == rank
        number, end = training["step"][mine], (training["time"] + training["duration"])[mine]
        known = ranks.get(str(rank), {})
        before = known.get("newest", number[0])
        back = np.flatnonzero(np.diff(number, prepend=before) <= 0)
        if len(back):  # the first step compiles and fills caches, so time counts from its end
            first = int(back[-1])
            known = {"begin": int(end[first]), "first": int(number[first])}
        ranks[str(rank)] = {
            **known,
            "end": int(end[-1]),
            "newest": int(number[-1]),
            "steps": int(number[-1]) - known["first"],
        }
