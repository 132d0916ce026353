"""EvaluationInTrainMode: a model evaluates in training mode, so dropout drops and batch norm learns."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.sentinel import events_of, mode_layers, times


@rule_class
class EvaluationInTrainMode(Rule):
    """Losses or whole passes are computed without gradients, while dropout or batch norm are active."""

    reads = ("events/sentinel",)
    formula = (
        "a model with dropout or batch norm that an optimizer trains is called without gradients and in "
        "training mode, and gives a loss: warning, note if it is called more than once for one loss (Monte "
        "Carlo dropout); or it takes 3 batches without a loss: warning at the second such pass or at the "
        "end, unless the model also evaluates in evaluation mode (recalibrated batch norm)"
    )
    advice = "Call model.eval() before the evaluation and model.train() after it."
    packs = ("default", "essentials", "convergence")

    def evaluate(self, window: Window) -> Issues:
        """Report each model once."""
        state = window.state
        passes = state.setdefault("passes", {})
        for row, detail in events_of(window):
            if "evaluated" in detail:
                state.setdefault("evaluated", []).append(detail["evaluated"]["model"])
            if "evaluation" in detail:
                one = detail["evaluation"] | {"time": row["time"]}
                if one["loss"]:
                    yield from self._tell(window, one)
                elif not one["averages"]:
                    passes.setdefault(one["model"], []).append(one)
        for model, known in passes.items():
            if (len(known) > 1 or window.job.ended) and model not in state.get("evaluated", ()):
                yield from self._tell(window, known[0])

    def _tell(self, window: Window, one: dict[str, Any]) -> Issues:
        purpose = one["calls"] > 1
        if times(window, f"{one['model']}/{purpose}") > 1:
            return
        again = f", {one['calls']} times for one result" if purpose else ""
        yield self.issue(
            f"{one['model']}, with {mode_layers(one)}, evaluates in training mode at {one['place']} "
            f"(step {one['step']}){again}",
            code="repeated" if purpose else one["model"],
            severity="info" if purpose else "warning",
            step_start=one["step"],
            step_end=one["step"],
            time_start=one["time"],
            time_end=one["time"],
            evidence={key: value for key, value in one.items() if key != "time"},
        )
