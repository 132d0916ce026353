"""GradientClipping: gradients are clipped after the optimizer's step, or always cut to a small part."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.logged import numbers
from holter.rules.patterns.sentinel import facts

_NORM, _CLIPPED = "grad_norm", "grad_norm_clipped"
_ADVICE = {
    "late": "Clip between backward() and optimizer.step(), with a GradScaler after scaler.unscale_().",
    "hard": "Raise max_norm to the usual norm of the gradients; with a GradScaler, clip after "
    "scaler.unscale_(optimizer).",
}
_SPAN = 100
"""Steps between the first and the last reading at least."""


@rule_class
class GradientClipping(Rule):
    """Clipping has no effect, or decides alone about the length of all steps."""

    reads = ("events/sentinel", "scalars")
    formula = (
        "at `steps` watched steps gradients are clipped, and never between backward pass and optimizer; or "
        "the norm is cut to `share` or less at all of `readings` readings over 100 steps or more"
    )
    advice = _ADVICE["late"]
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps."""
    share: float = parameter(0.01, above=0, high=1)
    """What is left of a norm."""
    readings: int = parameter(8, low=2)
    """Number of readings of the norm, all of which must be cut."""

    def evaluate(self, window: Window) -> Issues:
        """Look at the order of clipping and step, then at norms before and after clipping."""
        state = window.state
        for at in facts(window):
            clips = at.first.get("clips")
            if not clips:
                continue
            state["in_time"] = state.get("in_time", 0) + clips["in_time"]
            state["late"] = state.get("late", 0) + (clips["late"] > 0)
            if state["late"] == self.steps and not state["in_time"] and clips["late"]:
                yield self.issue(
                    f"gradients are clipped after the optimizer's step: at step {at.step} nothing clips "
                    "between backward pass and step",
                    code="late",
                    step_end=at.step,
                    advice=_ADVICE["late"],
                    evidence=clips,
                )
        yield from self._hard(window)

    def _hard(self, window: Window) -> Issues:
        state = window.state
        found = numbers(window, lambda name: name in (_NORM, _CLIPPED))
        for attempt in sorted({one.attempt for _, one in found}):
            norm, clipped = (
                {step: value for name, one in found if (name, one.attempt) == (wanted, attempt)
                 for step, value in zip(one.steps, one.values, strict=True)}
                for wanted in (_NORM, _CLIPPED)
            )  # fmt: skip
            for step in sorted(norm.keys() & clipped.keys()):
                window.judged(1)
                left = clipped[step] / norm[step] if norm[step] else 1.0
                state["cut"] = state.get("cut", True) and left <= self.share
                state["count"] = state.get("count", 0) + 1
                first = state.setdefault("first", step)
                state["largest"] = max(state.get("largest", 0.0), left)
                if not state["cut"] or "told" in state:
                    continue
                if state["count"] >= self.readings and step - first >= _SPAN:
                    state["told"] = step
                    yield self.issue(
                        f"clipping leaves {100 * state['largest']:.2g} % of the gradients or less at all "
                        f"{state['count']} readings: norm {norm[step]:.3g}, limit {clipped[step]:.3g}",
                        code="hard",
                        step_start=first,
                        step_end=step,
                        advice=_ADVICE["hard"],
                        evidence={
                            "grad_norm": norm[step], "limit": clipped[step], "readings": state["count"],
                        },
                    )  # fmt: skip
