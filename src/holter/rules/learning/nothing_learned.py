"""NothingLearned: the loss stays at the value of guessing, or gradients or updates are 0 in all steps."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from holter.rules import Issues, Rule, State, Window, parameter, rule_class
from holter.rules.patterns.event_details import details_of
from holter.rules.patterns.logged import MAIN_LOSS, is_rate, numbers
from holter.rules.patterns.sentinel import prints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.rules.patterns.logged import Curve

_NORM, _RATIO = "grad_norm", "update_ratio/"
_SAMPLED = "gradients"
_READINGS = 3
_BLOCK = 50
"""Steps whose losses are one mean."""
_MOST = 100
"""Blocks that are kept."""
_EXACT = 1e-5
"""A constant output has the loss of guessing up to rounding."""
_ADVICE = {
    "guessing": "Check that outputs depend on inputs, that labels belong to them, and the learning rate.",
    "gradient": "Look for dead units before the loss (ReLU), saturated outputs, and a constant loss.",
    "update": "Check the learning rate, its warm-up, and whether low precision loses the updates.",
}


@rule_class
class NothingLearned(Rule):
    """The model guesses after many steps, or nothing moves its weights."""

    reads = ("scalars", "events/sentinel")
    formula = (
        "after warm-up, the mean of each 50 losses is within `band` of log(classes) for `steps` steps, or "
        "half as many at the end, without a trend; or 50 losses in a row equal it up to rounding; or all "
        "gradients, or all update ratios, are 0 at all readings in the first `still` steps or more"
    )
    advice = _ADVICE["guessing"]
    packs = ("default", "essentials", "convergence")

    band: float = parameter(0.02, above=0, high=1)
    """Distance from the value of guessing, as a part of it."""
    steps: int = parameter(1000, low=100, unit="steps")
    """Number of steps after warm-up at the value of guessing."""
    still: int = parameter(50, low=1, unit="steps")
    """Number of steps with gradients or updates of 0, from the first step on."""

    def evaluate(self, window: Window) -> Issues:
        """Collect the classes, then judge losses, gradients and updates."""
        state, main = window.state, re.compile(MAIN_LOSS)
        state.setdefault("zero", {})
        for _, detail in details_of(window.new("events"), "sentinel"):
            if optimizers := detail.get("optimizers"):
                state["classes"] = sorted({*state.get("classes", ()), detail.get("classes") or 0})
                if any(one["received"] for one in optimizers):
                    self._zero(state, _SAMPLED, [(detail["step"], not any(prints(detail, _SAMPLED)))])
        found = numbers(
            window,
            lambda name: is_rate(name) or name == _NORM or name.startswith(_RATIO) or main.search(name),
        )
        for attempt in sorted({one.attempt for _, one in found}):
            mine = {name: one for name, one in found if one.attempt == attempt}
            if state.get("attempt") != attempt:
                state |= {"attempt": attempt, "rise": None, "peak": 0.0, "guess": None}
            window.judged(sum(len(one.steps) for one in mine.values()))
            for name in filter(is_rate, mine):
                self._warm(state, mine[name])
            for name, one in mine.items():
                if name == _NORM or name.startswith(_RATIO):
                    steps = zip(one.steps, one.values, strict=True)
                    self._zero(state, name, [(step, value == 0) for step, value in steps])
            for name in filter(main.search, mine):
                yield from self._losses(state, mine[name])
        if "attempt" not in state:
            window.insufficient("no_input", "no loss, gradient norm or update ratio is recorded")
            return
        yield from self._zeros(state)
        if window.job.ended:
            yield from self._guesses(state, self.steps // 2)

    def _warm(self, state: State, rates: Curve) -> None:
        """Remember when the learning rate rose to its peak."""
        for step, value in zip(rates.steps, rates.values, strict=True):
            if value > 1.01 * state["peak"]:
                state["rise"], state["peak"] = step, value

    def _zero(self, state: State, name: str, zeros: Iterable[tuple[int, bool]]) -> None:
        """Remember for how many steps, from the first one on, something is 0."""
        known = state["zero"].setdefault(name, {"first": None, "last": 0, "count": 0, "zero": True})
        for step, zero in zeros:
            known["first"] = step if known["first"] is None else known["first"]
            known["last"], known["count"] = step, known["count"] + 1
            known["zero"] = known["zero"] and zero

    def _zeros(self, state: State) -> Issues:
        told, zero = state.setdefault("told", []), state["zero"]
        ratios = [one for name, one in zero.items() if name.startswith(_RATIO)]
        gradients = [zero[_SAMPLED], zero[_NORM]] if zero.keys() >= {_SAMPLED, _NORM} else []
        kinds = (
            ("gradient", "gradients are", "the loss does not depend on the weights", gradients),
            ("update", "updates are", "nothing moves the weights", ratios),
        )
        for code, text, meaning, found in kinds:
            if {"gradient", "update"} & set(told) or not found or not all(one["zero"] for one in found):
                continue
            last = max(one["last"] for one in found)
            if found[0]["count"] < _READINGS or last - found[0]["first"] < self.still:
                continue
            told.append(code)
            yield self.issue(
                f"all {text} 0 from step {found[0]['first']} to step {last}: {meaning}",
                code=code,
                step_start=found[0]["first"],
                step_end=last,
                advice=_ADVICE[code],
                evidence={"readings": found[0]["count"]},
            )

    def _losses(self, state: State, losses: Curve) -> Issues:
        """Collect the losses after warm-up in blocks; a later rise of the rate begins anew."""
        empty: State = {"rise": None, "block": [], "blocks": [], "exact": 0, "first": 0, "learned": False}
        known = state["guess"] = state["guess"] or empty
        for step, value in zip(losses.steps, losses.values, strict=True):
            if known["learned"]:
                return
            if known["rise"] != state["rise"]:
                known |= {"rise": state["rise"], "block": [], "blocks": []}
            known["last"] = step
            guess = self._guess(state)
            if guess is None or step < (state["rise"] or 0):
                continue
            known["exact"] = known["exact"] + 1 if abs(value - guess) <= _EXACT * guess else 0
            if known["exact"] == _BLOCK:
                yield from self._issue(state, step + 1 - _BLOCK, step, value, _BLOCK, exact=True)
            if not known["block"]:
                known["first"] = step
            known["block"].append(value)
            if len(known["block"]) == _BLOCK:
                mean = math.fsum(known["block"]) / _BLOCK
                spread = math.fsum((one - mean) ** 2 for one in known["block"]) / _BLOCK
                known["blocks"].append([known["first"], mean, spread])
                known["block"] = []
                known["learned"] = mean < (1 - self.band) * guess
                yield from self._guesses(state, self.steps)

    def _guess(self, state: State) -> float | None:
        """Return the loss of guessing; None unless all watched steps have one number of classes."""
        classes = state.get("classes", [])
        return math.log(classes[0]) if len(classes) == 1 and classes[0] > 1 else None

    def _guesses(self, state: State, least: int) -> Issues:
        known, guess = state["guess"], self._guess(state)
        if not known or guess is None:
            return
        blocks = known["blocks"] = known["blocks"][-_MOST:]
        while blocks and blocks[0][1] > (1 + self.band) * guess:  # it has fallen to that of guessing
            blocks.pop(0)
        if _BLOCK * len(blocks) < least or any(
            abs(mean - guess) > self.band * guess for _, mean, _ in blocks
        ):
            return
        half = len(blocks) // 2
        early, late = blocks[:half], blocks[-half:]
        fell = math.fsum(b[1] for b in early) / half - math.fsum(b[1] for b in late) / half
        error = math.sqrt(2 * math.fsum(b[2] for b in blocks) / len(blocks) / (half * _BLOCK))
        if fell <= 2 * error:
            mean = math.fsum(b[1] for b in blocks) / len(blocks)
            yield from self._issue(
                state, blocks[0][0], known["last"], mean, _BLOCK * len(blocks), exact=False
            )

    def _issue(self, state: State, first: int, last: int, loss: float, steps: int, *, exact: bool) -> Issues:
        told, classes = state.setdefault("told", []), state["classes"][0]
        if "guessing" in told:
            return
        told.append("guessing")
        way = "equals" if exact else "stays at"
        yield self.issue(
            f"the loss {way} the value of guessing for {steps} steps: {loss:.4g}, and log({classes} "
            f"classes) is {math.log(classes):.4g}",
            code="guessing",
            step_start=first,
            step_end=last,
            advice=_ADVICE["guessing"],
            evidence={"loss": loss, "classes": classes, "guessing": math.log(classes), "steps": steps},
        )
