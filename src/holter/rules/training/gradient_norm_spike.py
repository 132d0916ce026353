"""GradientNormSpike: the gradient norm jumps, vanishes, or is nearly always clipped."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issue, Issues, Severity, Window, parameter, rule_class
from holter.rules.engine.history import History, periodic
from holter.rules.patterns.logged import MAIN_LOSS, PatternRule, numbers
from holter.rules.patterns.loss_watch import LossWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

_NORM, _CLIPPED = "grad_norm", "grad_norm_clipped"
_RECENT, _HIGH_STEPS, _FOLLOWED, _EARLY, _LOW_STEPS = 1000, 50, 20, 500, 100
_NEEDED, _FEW = 30, 10


@rule_class
class GradientNormSpike(PatternRule):
    """The global norm of the gradients, before clipping, leaves its usual range."""

    reads = ("scalars",)
    formula = (
        "log norm more than z MADs above the median of the last 128, and norm > factor x that median: note;"
        " 10 x or 3 spikes in 1,000 steps: warning; followed by a jump of the loss within 20 steps, or 3 x "
        "for 50 steps: critical. Over 95 % of 500 steps clipped: note. Below 0.01 x the median of the first"
        " 500 steps for 100 steps while the loss has not fallen: warning"
    )
    advice = "Lower the learning rate, clip gradients, and look at the batches of these steps."
    packs = ("convergence",)
    patterns = ("losses",)

    z: float = parameter(6.0, above=0)
    """Distance above the median, in MADs of the logarithm, from which a norm is a spike."""
    factor: float = parameter(3.0, above=1)
    """A spike must also exceed this multiple of the median."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps of the job, in which no norm counts as a spike."""
    losses: str = parameter(MAIN_LOSS)
    """Pattern of the loss that may follow a spike, anywhere in its name."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each step, then whether a jump of the loss follows."""
        state, search = window.state, re.compile(self.losses).search
        found = numbers(window, lambda name: name in (_NORM, _CLIPPED) or search(name))
        for attempt in sorted({one.attempt for _, one in found}):
            by_name = {name: one for name, one in found if one.attempt == attempt}
            if state.setdefault("attempt", attempt) != attempt:
                state.update(attempt=attempt, history=[], high=None, low=None)
            losses, jumps = sorted(by_name.keys() - {_NORM, _CLIPPED}), dict[int, str]()
            for name in losses:
                watch = LossWatch(state.setdefault("watched", {}).setdefault(name, {}))
                jumps.update({jump.evidence["step"]: name for jump in watch.jumps(by_name[name], [])})
            if _NORM in by_name:
                norm, clipped, *loss = (
                    dict(zip(one.steps, one.values, strict=True)) if (one := by_name.get(name)) else {}
                    for name in (_NORM, _CLIPPED, *losses[:1])
                )
                window.judged(len(norm))
                yield from self._judge(window, norm, clipped, loss[0] if loss else {})
            for step, name in sorted(jumps.items()):
                if before := [s for s in state.get("spikes", []) if step - _FOLLOWED <= s <= step]:
                    text = f"the gradient norm jumped at step {before[-1]}, then {name} at step {step}"
                    about = {"loss": name, "loss_step": step}
                    yield self._issue("followed", text, "critical", before[-1], step, about)
        if "history" not in state:
            window.insufficient("no_input", "no gradient norm is recorded; record with --save gradients@100")

    def _judge(
        self, window: Window, norm: dict[int, float], clipped: dict[int, float], loss: dict[int, float]
    ) -> Issues:
        """Judge the norms at their steps, with clipped norms and losses at theirs."""
        usual = History(window.state.setdefault("history", []))
        for step, value in norm.items():
            window.state.setdefault("first", step)
            if not math.isfinite(value):  # NonFiniteGradient reports it
                continue
            if value > 0:
                yield from self._jumped(window, step, value, usual)
            if step in clipped:
                yield from self._clipped(window, step, clipped[step] < 0.999 * value)
            yield from self._vanished(window, step, value, loss.get(step, math.nan))

    def _jumped(self, window: Window, step: int, value: float, usual: History) -> Issues:
        state, high = window.state, window.state.get("high")
        if step - state["first"] < self.start_steps or len(usual) < _NEEDED:
            usual.add(math.log(value))
            return
        middle = usual.median
        times = math.exp(math.log(value) - middle)
        out = times > self.factor and (math.log(value) - middle) / max(usual.mad, 0.05) > self.z
        if high is not None and value > 3 * high["usual"]:
            high["count"] += 1
            if step - high["step"] >= _HIGH_STEPS and high["count"] >= _FEW:
                level = f"{high['usual']:.3g}"
                text = f"the gradient norm has been above 3 x its usual {level} since step {high['step']}"
                about = {"usual": high["usual"], "value": value}
                yield self._issue("high", text, "critical", high["step"], step, about)
                usual.clear()  # the new level is the usual one from now on
                state["high"], out = None, False
        else:
            high = {"step": step, "usual": math.exp(middle), "count": 1}
            state["high"] = high if times > 3 else None
        if not out:
            usual.add(math.log(value))
        elif state.get("out", -2) != 1:
            spikes = [*(s for s in state.get("spikes", []) if s > step - _RECENT), step]
            state["spikes"] = spikes
            often = len(spikes) >= 3 and not periodic(spikes)
            severity: Severity = "warning" if often or times > 10 else "info"
            to = f"{value:.3g} at step {step}, {times:.3g} times its usual value"
            about = {"value": value, "usual": math.exp(middle), "times": times, "spikes": list(spikes)}
            yield self._issue("spike", f"the gradient norm jumped to {to}", severity, step, step, about)
        state["out"] = int(out)

    def _clipped(self, window: Window, step: int, clipped: bool) -> Issues:
        last = [*window.state.get("clipped", []), int(clipped)][-_EARLY:]
        always = len(last) == _EARLY and sum(last) > 0.95 * _EARLY
        if always and not window.state.get("always"):
            text = f"gradients were clipped at {sum(last)} of the last {_EARLY} steps"
            yield self._issue("always_clipped", text, "info", step - _EARLY + 1, step, {"clipped": sum(last)})
        window.state.update(clipped=last, always=always)

    def _vanished(self, window: Window, step: int, value: float, loss: float) -> Issues:
        """Compare norm and loss with their first 500 steps, because a loss near 0 has small gradients."""
        state = window.state
        early, tail = state.setdefault("early", {"norm": [], "loss": []}), state.setdefault("tail", [])
        if math.isfinite(loss):
            tail.append(loss)
            del tail[:-20]
        if isinstance(early["norm"], list):
            early["norm"].append(value)
            early["loss"] += [loss] if math.isfinite(loss) else []
            if len(early["norm"]) == _EARLY:
                early["norm"] = float(np.median(early["norm"]))
                early["loss"] = float(np.median(early["loss"])) if early["loss"] else None
            return
        if value >= 0.01 * early["norm"]:
            state["low"] = None
            return
        low = state["low"] = state.get("low") or {"step": step, "count": 0, "reported": False}
        low["count"] += 1
        if low["reported"] or step - low["step"] < _LOW_STEPS or low["count"] < _FEW:
            return
        low["reported"] = True
        known = early["loss"] is not None and bool(tail)
        now = float(np.median(tail)) if tail else None
        if known and abs(now or 0.0) < 0.1 * abs(early["loss"]):
            return
        severity: Severity = "warning" if known else "info"
        text = f"the gradient norm has been below 1 % of its early {early['norm']:.3g} since step "
        about = {"value": value, "early": early["norm"], "early_loss": early["loss"], "loss": now}
        yield self._issue("vanishing_norm", f"{text}{low['step']}", severity, low["step"], step, about)

    def _issue(
        self, code: str, text: str, severity: Severity, start: int, end: int, evidence: Mapping[str, object]
    ) -> Issue:
        return self.issue(
            text, code=code, severity=severity, step_start=start, step_end=end, evidence=evidence
        )
