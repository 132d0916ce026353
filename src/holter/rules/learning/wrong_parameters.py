"""WrongParameters: an optimizer holds parameters without gradients, or lacks those that receive them."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.layers import listed
from holter.rules.patterns.sentinel import StepFacts, facts


@rule_class
class WrongParameters(Rule):
    """The optimizer holds another model's parameters, or not all of those that train."""

    reads = ("events/sentinel",)
    formula = (
        "no parameter of an optimizer has a gradient at `steps` watched steps: critical; parameters receive "
        "gradients and no optimizer holds them: note"
    )
    advice = (
        "Create the optimizer after the model has its final parameters, from model.parameters(); set "
        "requires_grad=False for what should not train."
    )
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(3, low=1, unit="watched steps")
    """Number of watched steps, from the first step of the optimizer on."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the parameters of optimizers with those that receive gradients."""
        for at in facts(window):
            yield from self._without(window, at)
            yield from self._unheld(window, at)

    def _without(self, window: Window, at: StepFacts) -> Issues:
        seen = window.state.setdefault("optimizers", {})
        for one in at.first["optimizers"]:
            known = seen.setdefault(str(one["number"]), {"steps": 0, "received": False})
            known["steps"] += not one["skipped"]
            known["received"] = known["received"] or one["received"] > 0
            if known["steps"] == self.steps and not known["received"] and not one["skipped"]:
                yield self.issue(
                    f"{one['class']} steps, but none of its {one['parameters']} parameters has a gradient: "
                    "it holds another model's parameters, or the graph of the loss is cut",
                    code="without_gradients",
                    severity="critical",
                    step_start=0,
                    step_end=at.step,
                    evidence={"optimizer": one["class"], "parameters": one["parameters"]},
                )

    def _unheld(self, window: Window, at: StepFacts) -> Issues:
        count, names = at.first["unheld_count"], at.first["unheld"]
        state = window.state
        state["unheld"] = state.get("unheld", 0) + 1 if count else 0
        if state["unheld"] == self.steps:
            yield self.issue(
                f"{count} parameters receive gradients, but no optimizer holds them: {listed(names)}",
                code="not_held",
                severity="info",
                step_end=at.step,
                evidence={"parameters": names, "count": count},
            )
