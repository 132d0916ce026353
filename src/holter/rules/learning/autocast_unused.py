"""AutocastUnused: autocast is on, but nothing is computed in low precision."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts


@rule_class
class AutocastUnused(Rule):
    """An autocast region has no effect on the operations that compute the loss."""

    reads = ("events/sentinel",)
    formula = (
        "autocast to 16 bits is on at `steps` watched steps, and no result in the graph of a loss has 16 "
        "bits; not judged where compiled functions hide the operations"
    )
    advice = (
        "Put the forward pass inside the autocast region of the device that computes, remove inner regions "
        "with enabled=False, and convert float64 tensors: autocast leaves these as they are."
    )
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps at which autocast has no effect."""

    def evaluate(self, window: Window) -> Issues:
        """Count the watched steps at which autocast has no effect."""
        state = window.state
        for at in facts(window):
            found = at.first.get("precision")
            if not found or not found["asked"]:
                continue
            if found["low"] is not False:
                state["works"] = True
            state["without"] = state.get("without", 0) + 1
            if state["without"] == self.steps and "works" not in state:
                yield self.issue(
                    f"autocast to {found['asked']} is on, but no operation computes in {found['asked']}",
                    step_end=at.step,
                    evidence={"dtype": found["asked"], "watched_steps": self.steps},
                )
