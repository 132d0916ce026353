"""ValidationNotRun: validation does not run."""

from __future__ import annotations

import re

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.patterns.collections import tested
from holter.rules.patterns.logged import PatternRule

_ONE_EVALUATION = 5
"""Signs of evaluation within this number of steps belong to one evaluation."""


@rule_class
class ValidationNotRun(PatternRule):
    """No evaluation runs in the first part of the planned steps, or evaluations stop."""

    reads = ("steps", "scalars")
    severity = "info"
    formula = (
        "no evaluation within `share` of planned_steps; or, after three evaluations, none for `times` x the"
        " longest interval so far"
    )
    advice = "Check when the evaluation is called, and that its data loader is passed on."
    packs = ("convergence",)

    planned_steps: int | None = parameter(None, low=1, unit="steps")
    """Planned number of steps; without it the rule reports only evaluations that stop."""
    share: float = parameter(0.25, low=0, high=1)
    """Share of the planned steps within which an evaluation must run."""
    times: float = parameter(4.0, above=1)
    """Largest allowed interval, as a multiple of the longest interval so far."""
    names: str = parameter(r"(?i)^(val|valid|validation|eval|dev|test)([^a-z]|$)")
    """Pattern of the scalars that an evaluation logs, anywhere in their names."""

    def evaluate(self, window: Window) -> Issues:
        """Iterate over the evaluations, then compare the last one with the current step."""
        state, steps, scalars = window.state, window.new("steps"), window.new("scalars")
        by_name = tested(scalars["name"], re.compile(self.names).search)
        marks = np.concatenate(
            [
                steps["step"][(steps["eval"] > 0) | (steps["mode"] == "eval")],
                scalars["step"][by_name | (scalars["mode"] == "eval")],
            ]
        )
        trained = np.concatenate([steps["step"][steps["mode"] != "eval"], scalars["step"]])
        if len(trained):
            state["first"] = min(int(trained.min()), state.get("first", 2**62))
            state["newest"] = max(int(trained.max()), state.get("newest", -1))
            window.judged(len(trained))
        if "newest" not in state:
            return window.insufficient("no_input", "no step and no number is recorded")
        if self.planned_steps is None and not state.get("last") and not len(marks):
            window.insufficient("no_input", "no evaluation ran, and planned_steps is not set")
            window.points = 0
        for mark in np.unique(marks).tolist():
            yield from self._gap(int(mark), window)
            last = state.get("last")
            if last is None or mark - last > _ONE_EVALUATION:
                if last is not None:
                    state["longest"] = max(mark - last, state.get("longest", 0))
                state["count"] = state.get("count", 0) + 1
            state["last"] = max(mark, last or 0)
        yield from self._gap(state["newest"], window)

    def _gap(self, step: int, window: Window) -> Issues:
        state, last = window.state, window.state.get("last")
        if last is None:
            due = state["first"] + int(self.share * self.planned_steps) if self.planned_steps else None
            if due is not None and step > due and not state.get("told_none"):
                state["told_none"] = True
                within = due - state["first"]
                yield self.issue(
                    f"no evaluation in the first {within} of {self.planned_steps} planned steps",
                    code="never",
                    step_start=state["first"],
                    step_end=due,
                    evidence={"planned_steps": self.planned_steps},
                )
            return
        due = last + int(self.times * state.get("longest", 0))
        if state.get("count", 0) >= 3 and step > due and state.get("reported") != last:
            state["reported"] = last
            yield self.issue(
                f"no evaluation has run since step {last}; before, one ran at least every "
                f"{counted(state['longest'], 'step')}",
                code="stopped",
                step_start=last,
                step_end=due,
                evidence={"evaluations": state["count"], "longest_stretch_steps": state["longest"]},
            )
