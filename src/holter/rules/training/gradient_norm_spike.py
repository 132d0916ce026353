"""GradientNormSpike: the gradient norm jumps, vanishes, or is nearly always clipped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holter.rules import Issue, Rule, Severity, Window, parameter
from holter.rules.engine.history import History, periodic
from holter.rules.patterns.logged import MAIN_LOSS, Curve, numbers, pattern
from holter.rules.patterns.loss_watch import LossWatch

_NORM, _CLIPPED = "grad_norm", "grad_norm_clipped"
_RECENT, _HIGH_STEPS, _FOLLOWED, _EARLY, _LOW_STEPS = 1000, 50, 20, 500, 100
_NEEDED, _FEW = 30, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNormSpike(Rule):
    """The global norm of the gradients, before clipping, leaves its usual range."""

    reads = ("scalars",)
    description = "the gradient norm jumps, vanishes, or is nearly always clipped"
    formula = (
        "log norm more than z MADs above the median of the last 128, and norm > factor x that median: note;"
        " 10 x or 3 spikes in 1,000 steps: warning; followed by a jump of the loss within 20 steps, or 3 x "
        "for 50 steps: critical. Over 95 % of 500 steps clipped: note. Below 0.01 x the median of the first"
        " 500 steps for 100 steps while the loss has not fallen: warning"
    )
    advice = "Lower the learning rate, clip gradients, and look at the batches of these steps."
    packs = ("convergence",)

    z: float = parameter(6.0, above=0)
    """Distance above the median, in MADs of the logarithm, from which a norm is a spike."""
    factor: float = parameter(3.0, above=1)
    """A spike must also exceed this multiple of the median."""
    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps of the job, in which no norm counts as a spike."""
    losses: str = parameter(MAIN_LOSS)
    """Pattern of the loss that may follow a spike, anywhere in its name."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        pattern(self, "losses")

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge each step, then whether a jump of the loss follows."""
        state, search = window.state, pattern(self, "losses").search
        found = numbers(
            window,
            state.setdefault("rows", {}),
            lambda name: name in (_NORM, _CLIPPED) or search(name) is not None,
        )
        for attempt in sorted({one.attempt for _, one in found}):
            by_name = {name: one for name, one in found if one.attempt == attempt}
            if state.setdefault("attempt", attempt) != attempt:
                state.update(attempt=attempt, history=[], high=None, low=None)
            jumps = {}
            for name in sorted(set(by_name) - {_NORM, _CLIPPED}):
                one = by_name[name]
                watched = state.setdefault("watched", {}).setdefault(name, {})
                jumps.update({j.evidence["step"]: name for j in LossWatch().jumps(one, [], watched)})
            if (norm := by_name.get(_NORM)) is not None:
                window.judged(len(norm.steps))
                yield from self._walk(norm, by_name.get(_CLIPPED), _one(by_name), state)
            for step, name in sorted(jumps.items()):
                if before := [s for s in state.get("spikes", []) if step - _FOLLOWED <= s <= step]:
                    text = f"the gradient norm jumped at step {before[-1]}, then {name} at step {step}"
                    yield self._told(
                        "followed", text, "critical", before[-1], step, loss=name, loss_step=step
                    )
        if "history" not in state:
            window.insufficient("no_input", "no gradient norm is recorded; record with --save gradients@100")

    def _walk(
        self, norm: Curve, clipped: Curve | None, loss: Curve | None, state: dict[str, Any]
    ) -> Iterator[Issue]:
        after = dict(zip(clipped.steps, clipped.values, strict=True)) if clipped else {}
        losses = dict(zip(loss.steps, loss.values, strict=True)) if loss else {}
        usual = History(state.setdefault("history", []))
        for step, value in zip(norm.steps, norm.values, strict=True):
            first = state.setdefault("first", step)
            if not math.isfinite(value):  # NonFiniteGradient reports it
                continue
            if value > 0:
                yield from self._judge(step, value, usual, state, started=step - first >= self.start_steps)
            if step in after:
                yield from self._clipped(step, after[step] < 0.999 * value, state)
            yield from self._vanished(step, value, losses.get(step), state)

    def _judge(
        self, step: int, value: float, usual: History, state: dict[str, Any], *, started: bool
    ) -> Iterator[Issue]:
        high = state.get("high")
        if not started or len(usual) < _NEEDED:
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
                yield self._told(
                    "high", text, "critical", high["step"], step, usual=high["usual"], value=value
                )
                usual.clear()  # the new level is the usual one from now on
                state["high"], out = None, False
        else:
            high = {"step": step, "usual": math.exp(middle), "count": 1}
            state["high"] = high if times > 3 else None
        if not out:
            usual.add(math.log(value))
        elif state.get("out", -2) != 1:
            spikes = state.setdefault("spikes", [])
            spikes.append(step)
            spikes[:] = [s for s in spikes if s > step - _RECENT]
            often = len(spikes) >= 3 and not periodic(spikes)
            severity: Severity = "warning" if often or times > 10 else "info"
            text = (
                f"the gradient norm jumped to {value:.3g} at step {step}, {times:.3g} times its usual value"
            )
            yield self._told(
                "spike", text, severity, step, step,
                value=value, usual=math.exp(middle), times=times, spikes=list(spikes),
            )  # fmt: skip
        state["out"] = int(out)

    def _clipped(self, step: int, clipped: bool, state: dict[str, Any]) -> Iterator[Issue]:
        last: list[int] = state.setdefault("clipped", [])
        last.append(int(clipped))
        del last[:-_EARLY]
        always = len(last) == _EARLY and sum(last) > 0.95 * _EARLY
        if always and not state.get("always"):
            text = f"gradients were clipped at {sum(last)} of the last {_EARLY} steps"
            yield self._told("always_clipped", text, "info", step - _EARLY + 1, step, clipped=sum(last))
        state["always"] = always

    def _vanished(
        self, step: int, value: float, loss: float | None, state: dict[str, Any]
    ) -> Iterator[Issue]:
        """Compare norm and loss with their first 500 steps, because a loss near 0 has small gradients."""
        early, tail = state.setdefault("early", {"norm": [], "loss": []}), state.setdefault("tail", [])
        if loss is not None and math.isfinite(loss):
            tail.append(loss)
            del tail[:-20]
        if isinstance(early["norm"], list):
            early["norm"].append(value)
            if loss is not None and math.isfinite(loss):
                early["loss"].append(loss)
            if len(early["norm"]) == _EARLY:
                early["norm"] = float(np.median(early["norm"]))
                early["loss"] = float(np.median(early["loss"])) if early["loss"] else None
            return
        if value >= 0.01 * early["norm"]:
            state["low"] = None
            return
        low = state.get("low") or {"step": step, "count": 0, "reported": False}
        state["low"] = low
        low["count"] += 1
        if low["reported"] or step - low["step"] < _LOW_STEPS or low["count"] < _FEW:
            return
        low["reported"] = True
        known = early["loss"] is not None and bool(tail)
        now = float(np.median(tail)) if tail else None
        if known and abs(now or 0.0) < 0.1 * abs(early["loss"]):
            return
        text = (
            f"the gradient norm has been below 1 % of its early {early['norm']:.3g} since step {low['step']}"
        )
        yield self._told(
            "vanishing_norm", text, "warning" if known else "info", low["step"], step,
            value=value, early=early["norm"], early_loss=early["loss"], loss=now,
        )  # fmt: skip

    def _told(
        self, code: str, summary: str, severity: Severity, start: int, end: int, **evidence: Any
    ) -> Issue:
        return self.issue(
            summary, code=code, severity=severity, step_start=start, step_end=end, evidence=evidence
        )


def _one(by_name: dict[str, Curve]) -> Curve | None:
    """Return the first loss by name."""
    return next((by_name[name] for name in sorted(set(by_name) - {_NORM, _CLIPPED})), None)
