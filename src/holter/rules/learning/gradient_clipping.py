"""GradientClipping: gradients are clipped after the optimizer's step, or always cut to a small part."""

from __future__ import annotations

from holter.analysis.verdict.evidence import pct
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import StepFacts, facts

_ADVICE = {
    "late": "Clip between backward() and optimizer.step(), with a GradScaler after scaler.unscale_().",
    "hard": "Raise max_norm to the usual norm of the gradients; with a GradScaler, clip after "
    "scaler.unscale_(optimizer).",
}


@rule_class
class GradientClipping(Rule):
    """Clipping has no effect, or decides alone about the length of all steps."""

    reads = ("events/sentinel",)
    formula = (
        "gradients are clipped at `steps` watched steps, and never between backward pass and optimizer; or "
        "the norm is cut to `share` or less at all watched steps, for `span` steps"
    )
    advice = _ADVICE["late"]
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps at which gradients are clipped too late."""
    share: float = parameter(0.01, above=0, high=1)
    """What is left of a norm."""
    span: int = parameter(100, low=1, unit="steps")
    """Steps between the first and the last watched step at least."""

    def evaluate(self, window: Window) -> Issues:
        """Look at the order of clipping and step, and at norms before clipping."""
        for at in facts(window):
            yield from self._late(window, at)
            yield from self._hard(window, at)

    def _late(self, window: Window, at: StepFacts) -> Issues:
        state, clips = window.state, at.first.get("clips")
        if not clips:
            return
        state["in_time"] = state.get("in_time", 0) + clips["in_time"]
        state["late"] = state.get("late", 0) + (clips["late"] > 0)
        if state["late"] == self.steps and not state["in_time"] and clips["late"]:
            yield self.issue(
                f"gradients are clipped after the optimizer's step: at step {at.step} nothing clips between "
                "backward pass and step",
                code="late",
                step_end=at.step,
                advice=_ADVICE["late"],
                evidence=clips,
            )

    def _hard(self, window: Window, at: StepFacts) -> Issues:
        state, left = window.state, at.first.get("clips_to")
        if left is None or not at.first.get("clips", {}).get("in_time"):
            return
        known = state.setdefault("hard", {"first": at.step, "largest": 0.0, "count": 0, "told": False})
        known["largest"], known["count"] = max(known["largest"], left), known["count"] + 1
        if known["largest"] > self.share or at.step - known["first"] < self.span or known["told"]:
            return
        known["told"] = True
        yield self.issue(
            f"clipping leaves {pct(100 * known['largest'])} of the gradients or less at all "
            f"{known['count']} watched steps; the limit is {at.first['clips']['limit']}",
            code="hard",
            step_start=known["first"],
            step_end=at.step,
            advice=_ADVICE["hard"],
            evidence={"largest_share": known["largest"], "watched_steps": known["count"]},
        )
