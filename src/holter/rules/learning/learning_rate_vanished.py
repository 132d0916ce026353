"""LearningRateVanished: the learning rate is next to nothing long before the training ends."""

from __future__ import annotations

import math

from holter.rules import Issues, Rule, State, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of
from holter.rules.patterns.logged import Curve, is_rate, numbers

_MARGIN = 0.99
"""A staircase that ends at just this part of its peak has not vanished; its floats are not exact."""


@rule_class
class LearningRateVanished(Rule):
    """The learning rate falls to a small part of its peak while many steps remain."""

    reads = ("scalars", "steps", "events/sentinel", "events/planned")
    formula = (
        "the learning rate has been below `factor` x its peak for `steps` steps or more; these steps and the "
        "planned ones that are left are more than `share` of all; and no rate of another group is higher"
    )
    advice = (
        "Give the schedule the number of its step() calls: step it once per epoch with a T_max or step_size "
        "in epochs, or once per batch with one in batches."
    )
    packs = ("default", "essentials", "convergence")

    factor: float = parameter(1e-3, above=0, high=1)
    """A learning rate below this part of its peak counts as vanished."""
    share: float = parameter(0.1, above=0, high=1)
    """Share of the steps that may have such a rate: a schedule may end with 0."""
    steps: int = parameter(20, low=1, unit="steps")
    """Least number of steps with such a rate."""

    def evaluate(self, window: Window) -> Issues:
        """Follow each learning rate, and judge it by the steps so far."""
        state = window.state
        steps = window.new("steps")["step"]
        for name, curve in numbers(window, is_rate):
            self._follow(state.setdefault("rates", {}), name, curve)
            window.judged(len(curve.steps))
            state["last"] = max(state.get("last", 0), curve.steps[-1])
        if "rates" not in state:
            window.insufficient("no_input", "no learning rate is recorded")
            return
        state["last"] = max(state["last"], int(steps.max()) if len(steps) else 0)
        for _, one in details_of(window.new("events"), "planned"):
            state["planned"] = one.get("steps")
        self._look_at_groups(window)
        for name, known in sorted(state["rates"].items()):
            yield from self._judge(state, name, known)

    def _follow(self, rates: State, name: str, curve: Curve) -> None:
        known = rates.get(name)
        if known is None or known["attempt"] != curve.attempt:
            known = rates[name] = {"attempt": curve.attempt, "peak": 0.0, "since": None, "value": 0.0}
        for step, value in zip(curve.steps, curve.values, strict=True):
            if math.isfinite(value):
                known["peak"], known["value"] = max(known["peak"], value), value
                small = value < _MARGIN * self.factor * known["peak"]
                known["since"] = (step if known["since"] is None else known["since"]) if small else None

    def _look_at_groups(self, window: Window) -> None:
        """Remember the largest rate of all groups of each optimizer: a rate may be that of one group."""
        groups = window.state.setdefault("groups", {})
        for _, detail in details_of(window.new("events"), "sentinel"):
            for one in detail.get("optimizers", ()):
                if one["lr"] is not None:
                    peak = groups.get(str(one["number"]), {"peak": 0.0})["peak"]
                    groups[str(one["number"])] = {
                        "peak": max(peak, one["lr"]), "value": one["lr"], "step": detail["step"],
                    }  # fmt: skip

    def _judge(self, state: State, name: str, known: State) -> Issues:
        since, last = known["since"], state["last"]
        if since is None or known.get("told"):
            return
        planned = state.get("planned")
        total = max(planned or 0, last + 1)
        idle, left = last + 1 - since, total - since
        if idle < self.steps or left <= self.share * total:
            return
        learn = [
            one for one in state["groups"].values()
            if one["step"] >= since and one["value"] >= _MARGIN * self.factor * one["peak"] > 0
        ]  # fmt: skip
        if learn:
            return
        known["told"] = True
        rest = "planned steps {} were left" if planned else "steps so far {} followed"
        yield self.issue(
            f"{name} has vanished at step {since}: {known['value']:.3g} after a peak of {known['peak']:.3g}; "
            f"of {total} {rest.format(left)}",
            tensor=name,
            step_start=since,
            step_end=last,
            evidence={
                "lr": known["value"], "peak": known["peak"], "steps_since": idle, "steps": last + 1,
                "planned_steps": planned,
            },
        )  # fmt: skip
