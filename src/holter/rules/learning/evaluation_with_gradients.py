"""EvaluationWithGradients: a model evaluates without `torch.no_grad`, so its calls record graphs."""

from __future__ import annotations

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import events_of


@rule_class
class EvaluationWithGradients(Rule):
    """A model in evaluation mode records graphs that nothing uses before it trains again."""

    reads = ("events/sentinel",)
    formula = (
        "calls of a model in evaluation mode whose outputs require gradients, without a backward pass or "
        "`autograd.grad` until the end of the step in which the model trains again: `calls` of one line"
    )
    advice = (
        "Run the loop of the evaluation that the issue names under `with torch.no_grad():`, or decorate its "
        "function with `@torch.no_grad()`: it takes less memory and time."
    )
    packs = ("default", "essentials", "performance")

    calls: int = parameter(2, low=1, unit="calls")
    """Number of such calls of one line."""

    def evaluate(self, window: Window) -> Issues:
        """Report each line once."""
        counts = window.state.setdefault("calls", {})
        for row, detail in events_of(window):
            found = detail.get("graphs")
            if not found:
                continue
            before, place = counts.get(found["place"], 0), found["place"]
            counts[place] = before + found["calls"]
            if before >= self.calls or counts[place] < self.calls:
                continue
            yield self.issue(
                f"the evaluation in {found['function']} at {place} runs without torch.no_grad(): "
                f"at least {counts[place]} calls of {found['model']} recorded graphs that nothing used",
                code=place,
                step_start=found["step"],
                step_end=found["step"],
                time_start=row["time"],
                time_end=row["time"],
                evidence={**found, "calls": counts[place]},
            )
