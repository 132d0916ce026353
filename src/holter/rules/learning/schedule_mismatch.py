"""ScheduleMismatch: a learning rate schedule is stepped per batch and made for epochs, or the reverse."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of
from holter.rules.patterns.sentinel import facts, times

_OSCILLATES = "CosineAnnealingLR"
"""A schedule that rises again after its length. Others that do so are made for it."""
_EVERY = 0.9
"""Calls per step of a schedule that is stepped with each batch."""


@rule_class
class ScheduleMismatch(Rule):
    """The schedule is stepped too often, so that the rate oscillates, or too rarely, so that it stays."""

    reads = ("events/sentinel", "events/loader", "steps")
    formula = (
        "CosineAnnealingLR is stepped with each batch for two T_max or more, and two T_max are less than an "
        "epoch, or than `short` steps where no loader has a length; or at the end the number of steps is "
        "within 2 % of the length of a schedule, `least` or more, which was stepped in at most half of them"
    )
    advice = (
        "Step the schedule once per epoch if its T_max or total_steps counts epochs, and once per batch if "
        "it counts batches."
    )
    packs = ("default", "essentials", "convergence")

    short: int = parameter(200, low=2, unit="steps")
    """Period below which an oscillation is not intended, where the length of an epoch is unknown."""
    least: int = parameter(50, low=2, unit="steps")
    """Least length of a schedule that is judged as stepped too rarely."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the calls of each schedule with steps and with its length."""
        state = window.state
        steps = window.new("steps")["step"]
        state["last"] = max(state.get("last", -1), int(steps.max()) if len(steps) else -1)
        for _, loader in details_of(window.new("events"), "loader"):
            if isinstance(batches := loader.get("batches"), int):
                state["epoch"] = max(state.get("epoch", 0), batches)
        for at in facts(window):
            schedules = at.first.get("schedules", [])
            state["newest"] = [at.step, schedules]
            for number, one in enumerate(schedules):
                yield from self._oscillates(window, number, at.step, one)
        if window.job.ended and "newest" in state:
            step, schedules = state["newest"]
            for number, one in enumerate(schedules):
                yield from self._stays(number, step, one, state["last"] + 1)

    def _oscillates(self, window: Window, number: int, step: int, one: dict[str, Any]) -> Issues:
        length, passed = one["length"], step + 1 - one["since"]
        if one["class"] != _OSCILLATES or not length:
            return
        period = 2 * length
        if one["steps"] < period or one["steps"] < _EVERY * passed:
            return
        if period >= window.state.get("epoch", self.short) or times(window, f"oscillates/{number}") > 1:
            return
        yield self.issue(
            f"the learning rate oscillates with a period of {period} steps: {one['class']} with "
            f"T_max={length} is stepped with each batch",
            code="oscillates",
            tensor=f"schedule{number}" if number else None,
            step_start=one["since"],
            step_end=step,
            evidence={**one, "step": step, "batches_per_epoch": window.state.get("epoch")},
        )

    def _stays(self, number: int, step: int, one: dict[str, Any], total: int) -> Issues:
        length, passed = one["length"], step + 1 - one["since"]
        if not length or length < self.least or abs(total - one["since"] - length) > 0.02 * length:
            return
        if one["steps"] > passed / 2:
            return
        yield self.issue(
            f"{one['class']} is made for {length} steps and was stepped {one['steps']} times in the first "
            f"{passed}: the learning rate has hardly moved along its schedule",
            code="stays",
            tensor=f"schedule{number}" if number else None,
            step_start=one["since"],
            step_end=total - 1,
            evidence={**one, "step": step, "all_steps": total},
        )
