"""DropoutInEvaluation: dropout is active while a model evaluates, so results are random."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.sentinel import events_of


@rule_class
class DropoutInEvaluation(Rule):
    """A function of the model calls dropout without the mode of the model."""

    reads = ("events/sentinel",)
    formula = (
        "dropout with a probability above 0 in a call of a model that evaluates: warning, note "
        "for modules in training mode"
    )
    advice = "Write F.dropout(x, p, training=self.training), or use nn.Dropout; call model.eval() first."
    packs = ("default", "essentials", "convergence")

    def evaluate(self, window: Window) -> Issues:
        """Report each place once."""
        for row, detail in events_of(window):
            found = detail.get("dropout")
            if not found:
                continue
            places = window.state.setdefault("places", [])
            if found["place"] in places:
                continue
            places.append(found["place"])
            yield self.issue(
                f"dropout (p={found['p']:g}) is active in evaluation, in {found['function']} at "
                f"{found['place']}: two evaluations of one input differ",
                code=found["place"],
                severity="info" if found["training"] else "warning",
                step_start=found["step"],
                step_end=found["step"],
                time_start=row["time"],
                time_end=row["time"],
                evidence=found,
            )
