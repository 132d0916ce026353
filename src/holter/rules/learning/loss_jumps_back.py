"""LossJumpsBack: after a restart or a checkpoint, the loss is back where the training began."""

from __future__ import annotations

import math
import re
from statistics import median
from typing import TYPE_CHECKING

from holter.rules import Issues, Rule, State, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of
from holter.rules.patterns.logged import MAIN_LOSS, numbers

if TYPE_CHECKING:
    from holter.rules.patterns.logged import Curve

_LEARNED = 0.05
"""Least fall of the loss before, as a part of the first loss."""


@rule_class
class LossJumpsBack(Rule):
    """A training that goes on has lost what it had learned."""

    reads = ("scalars", "events/sentinel")
    formula = (
        "the loss had fallen by 5 % or more, and after a process was started again, or an optimizer took its "
        "state from a checkpoint, the median of `losses` losses is back by `share` or more of that fall"
    )
    advice = (
        "Check that the weights of the model are loaded, into the model that trains, and that the newest "
        "checkpoint is found."
    )
    packs = ("default", "essentials", "convergence")

    losses: int = parameter(10, low=3)
    """Number of losses at the beginning, before and after."""
    share: float = parameter(0.5, above=0, high=1)
    """Part of the fall that is lost."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the losses after each restart with those before."""
        state, main = window.state, re.compile(MAIN_LOSS)
        for _, detail in details_of(window.new("events"), "sentinel"):
            found = detail.get("resumed")
            if found and found["optimizers_loaded"] and found["step"] > 0:
                loads = state.setdefault("loads", {})
                loads.setdefault(str(found["step"]), found["file"])
        for name, curve in numbers(window, main.search):
            window.judged(len(curve.steps))
            yield from self._follow(state, state.setdefault("series", {}).setdefault(name, {}), name, curve)
        if "series" not in state:
            window.insufficient("no_input", "no loss is recorded")

    def _follow(self, state: State, known: State, name: str, curve: Curve) -> Issues:
        if known.setdefault("attempt", curve.attempt) != curve.attempt:
            known["attempt"] = curve.attempt
            self._restart(known, "the process was started again")
        loads = state.get("loads", {})
        for step, value in zip(curve.steps, curve.values, strict=True):
            if not math.isfinite(value):
                continue
            if str(step) in loads and loads[str(step)] is not None:
                self._restart(known, f"{loads[str(step)] or 'a checkpoint'} was loaded at step {step}")
                loads[str(step)] = None
            first = known.setdefault("first", [])
            if len(first) < self.losses:
                first.append(value)
            known["recent"] = [*known.get("recent", [])[1 - self.losses :], value]
            if (then := known.get("then")) is None:
                continue
            then["after"].append(value)
            if len(then["after"]) == self.losses:
                known["then"] = None
                yield from self._judge(name, known["first"], then, step)

    def _restart(self, known: State, text: str) -> None:
        recent = known.get("recent", [])
        known["then"] = {"text": text, "before": recent, "after": []} if len(recent) == self.losses else None
        known["recent"] = []

    def _judge(self, name: str, first: list[float], then: State, step: int) -> Issues:
        began, before, after = median(first), median(then["before"]), median(then["after"])
        if began - before < _LEARNED * abs(began) or after - before < self.share * (began - before):
            return
        yield self.issue(
            f"{name} is back at {after:.4g} after {then['text']}: it had fallen from {began:.4g} to "
            f"{before:.4g}",
            tensor=name,
            step_end=step,
            evidence={"first": began, "before": before, "after": after},
        )
