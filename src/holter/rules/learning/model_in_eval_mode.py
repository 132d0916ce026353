"""ModelInEvalMode: a model with dropout or batch normalization trains in evaluation mode."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts, mode_layers


@rule_class
class ModelInEvalMode(Rule):
    """The model is in evaluation mode at the optimizer's steps, so dropout and batch norm do not train."""

    reads = ("events/sentinel",)
    formula = (
        "the whole model is in evaluation mode at `steps` watched steps in a row and has dropout or batch "
        "norm: warning after it trained in training mode or when it has dropout, else note"
    )
    advice = "Call model.train() at the start of each epoch, after each evaluation."
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps in a row."""

    def evaluate(self, window: Window) -> Issues:
        """Count the watched steps in evaluation mode of each model."""
        for at in facts(window):
            for one in at.first["models"]:
                known = window.state.setdefault("models", {}).setdefault(
                    one["model"], {"trained": False, "row": 0, "since": at.step}
                )
                whole = one["eval"] == one["modules"] and (one["dropout"] or one["batch_norm"])
                known["trained"] = known["trained"] or one["training"]
                known["row"] = known["row"] + 1 if whole else 0
                known["since"] = known["since"] if known["row"] > 1 else at.step
                if known["row"] != self.steps:
                    continue
                yield self.issue(
                    f"{one['model']}, with {mode_layers(one)}, trains in evaluation mode since step "
                    f"{known['since']} or earlier",
                    severity="warning" if known["trained"] or one["dropout"] else "info",
                    step_start=known["since"],
                    step_end=at.step,
                    evidence={key: one[key] for key in ("model", "modules", "eval", "dropout", "batch_norm")},
                )
