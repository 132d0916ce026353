"""MissingZeroGrad: gradients are never cleared, so each step uses the sum of all gradients before it."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts


@rule_class
class MissingZeroGrad(Rule):
    """Backward passes always begin with the gradients that the optimizer has already used."""

    reads = ("events/sentinel",)
    severity = "critical"
    formula = (
        "no backward pass between two steps of an optimizer begins with absent or zero gradients, at "
        "`steps` watched steps; of several optimizers only where every step is watched"
    )
    advice = "Call optimizer.zero_grad() once for each optimizer.step(), before the first backward()."
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps at which the gradients of the step before are left."""

    def evaluate(self, window: Window) -> Issues:
        """Count the watched steps that begin with gradients, for each optimizer."""
        seen = window.state.setdefault("optimizers", {})
        for at in facts(window):
            for one in at.first["optimizers"]:
                known = seen.setdefault(str(one["number"]), {"last": None, "left": [], "cleared": False})
                # Between two watched steps, another step may have cleared the gradients of this optimizer.
                sure = len(at.first["optimizers"]) == 1 or known["last"] == at.step - 1
                known["last"] = at.step
                known["cleared"] = known["cleared"] or one["cleared"] is True
                if one["cleared"] is False and sure:
                    known["left"].append(at.step)
                if len(known["left"]) == self.steps and known["left"][-1] == at.step and not known["cleared"]:
                    yield self.issue(
                        f"gradients are never cleared: at step {at.step} the backward pass adds to the "
                        f"gradients that {one['class']} has already used",
                        step_start=known["left"][0],
                        step_end=at.step,
                        evidence={"optimizer": one["class"], "steps": known["left"]},
                    )
