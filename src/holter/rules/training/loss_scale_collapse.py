"""LossScaleCollapse: too many half-precision steps overflow and are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.rules import Issues, Rule, Severity, Window, parameter, rule_class
from holter.rules.patterns.logged import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVERY, _SKIPS_OVER, _HALVINGS_OVER = 50, 500, 100


@rule_class
class LossScaleCollapse(Rule):
    """A gradient scaler skips too many steps, or its scale has become very small."""

    reads = ("scalars", "spans/skipped")
    formula = (
        "after start_steps: share of skipped steps among the last 500 > 0.01 (note), 0.05 (warning), or "
        "0.20 (critical); 4 halvings of the scale in 100 steps: warning; scale < 1: critical; at two "
        "evaluations 50 steps apart"
    )
    advice = (
        "Use bfloat16, or find what overflows: the rules NumericHeadroom and NonFiniteGradient name the "
        "tensors."
    )
    packs = ("convergence",)

    start_steps: int = parameter(100, low=0, unit="steps")
    """First steps, in which a scaler searches for its scale."""
    min_steps: int = parameter(200, low=1, unit="steps")
    """Number of later steps that the share of skipped steps needs."""

    def evaluate(self, window: Window) -> Issues:
        """Judge every 50 steps."""
        state = window.state
        found = numbers(window, "loss_scale".__eq__, with_skips=True)
        for attempt in sorted({one.attempt for _, one in found}):
            mine = {name: one for name, one in found if one.attempt == attempt}
            skipped = set(mine["skipped"].steps) if "skipped" in mine else set()
            scale = mine.get("loss_scale")
            scales = dict(zip(scale.steps, scale.values, strict=True)) if scale else {}
            if state.get("attempt") != attempt:
                state.update(attempt=attempt, count=0, skipped=[], halved=[], held={})
            for step in sorted(skipped | set(scales)):
                state["count"] += 1
                yield from self._step(window, step, step in skipped, scales.get(step))
        if "count" not in state:
            window.insufficient("no_input", "no loss scale is recorded: the training uses no gradient scaler")

    def _step(self, window: Window, step: int, skipped: bool, scale: float | None) -> Issues:
        state = window.state
        before, count = state.get("scale"), state["count"] - self.start_steps
        state["scale"] = before if scale is None else scale
        if count <= 0:
            return
        if skipped:
            state["skipped"].append(count)
        if scale is not None and before is not None and scale < before:
            state["halved"].append(count)
        if count % _EVERY:
            return
        window.judged(_EVERY)
        state["skipped"] = [c for c in state["skipped"] if c > count - _SKIPS_OVER]
        state["halved"] = [c for c in state["halved"] if c > count - _HALVINGS_OVER]
        held = state["held"]
        state["held"] = {}
        over = min(count, _SKIPS_OVER)
        share, halvings, least = len(state["skipped"]) / over, len(state["halved"]), state["scale"]
        evidence = {"skipped_share": share, "steps": over, "halvings": halvings, "loss_scale": least}
        for code, severity, text in self._wrong(over, share, halvings, least):
            state["held"][code] = held.get(code, 0) + 1
            if state["held"][code] >= 2:
                yield self.issue(
                    f"{text} at step {step}", code=code, severity=severity,
                    step_start=step - _EVERY, step_end=step, evidence=evidence,
                )  # fmt: skip

    def _wrong(
        self, over: int, share: float, halvings: int, scale: float | None
    ) -> Iterator[tuple[str, Severity, str]]:
        if over >= self.min_steps and share > 0.01:
            severity: Severity = "critical" if share > 0.20 else "warning" if share > 0.05 else "info"
            yield "skips", severity, f"{100 * share:.3g} % of the last {over} steps were skipped"
        if halvings >= 4:
            yield "halvings", "warning", f"the loss scale fell {halvings} times in {_HALVINGS_OVER} steps"
        if scale is not None and scale < 1:
            yield "scale", "critical", f"the loss scale is {scale:.3g}"
