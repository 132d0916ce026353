"""UnusedParameters: trainable parameters never receive a gradient: unused layers, or a graph that is cut."""

from __future__ import annotations

from holter.analysis.verdict.evidence import pct
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.layers import EXPERT, listed
from holter.rules.patterns.sentinel import facts


@rule_class
class UnusedParameters(Rule):
    """Trainable parameters of a model that trains have received no gradient at any step."""

    reads = ("events/sentinel",)
    formula = (
        "no gradient at any of the first `steps` watched steps: warning above `share` of the trainable "
        "elements, else note; experts are ignored"
    )
    advice = (
        "Look for detach(), no_grad() or item() between this layer and the loss; set requires_grad=False "
        "for what should not train."
    )
    packs = ("default", "convergence")

    steps: int = parameter(4, low=1, unit="watched steps")
    """Number of watched steps without a gradient."""
    share: float = parameter(0.05, low=0, high=1)
    """Share of the trainable elements above which it is a warning."""

    def evaluate(self, window: Window) -> Issues:
        """Keep the parameters that were without a gradient at every watched step."""
        state = window.state
        for at in facts(window):
            state["seen"] = state.get("seen", 0) + 1
            unused = {name for one in at.ranks.values() for name in one["unused"]}
            now = sorted(name for name in unused if not EXPERT.search(name))
            state["never"] = [name for name in state.get("never", now) if name in now]
            if state["seen"] != self.steps or not state["never"]:
                continue
            trainable = sum(at.first["trained"].values())
            share = at.first["unused_elements"] / max(trainable, 1)
            count = max(at.first["unused_count"], len(state["never"]))
            yield self.issue(
                f"{count} trainable parameters ({pct(100 * share)} of the trainable elements) receive no "
                f"gradient: {listed(state['never'])}",
                severity="warning" if share > self.share else "info",
                step_start=0,
                step_end=at.step,
                evidence={"parameters": state["never"], "count": count, "share": share},
            )
