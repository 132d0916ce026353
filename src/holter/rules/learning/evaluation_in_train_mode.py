"""EvaluationInTrainMode: a model evaluates in training mode, so dropout drops and batch norm learns."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.event_details import details_of


@rule_class
class EvaluationInTrainMode(Rule):
    """Losses or whole passes are computed without gradients, while dropout or batch norm are active."""

    reads = ("events/sentinel",)
    formula = (
        "without gradients and in training mode, a model with dropout or batch norm that an optimizer trains "
        "gives a loss: warning, note if it is called more than once for it (Monte Carlo dropout); or it "
        "takes 3 batches: warning at the second such pass or at the end, unless it also evaluates in "
        "evaluation mode (recalibrated batch norm)"
    )
    advice = "Call model.eval() before the evaluation and model.train() after it."
    packs = ("default", "essentials", "convergence")

    def evaluate(self, window: Window) -> Issues:
        """Report each model once."""
        state = window.state
        found = list(details_of(window.new("events"), "sentinel"))
        if not found and not state.get("judged"):
            return window.insufficient("no_input", "no facts of the sentinel")
        state["judged"] = True
        window.judged(len(found))
        passes = state.setdefault("passes", {})
        for row, detail in found:
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
        told = window.state.setdefault("told", [])
        key = f"{one['model']}/{purpose}"
        if key in told:
            return
        told.append(key)
        layers = " and ".join(
            f"{one[kind]} {name}"
            for kind, name in (("dropout", "dropout layers"), ("batch_norm", "batch norm layers"))
            if one[kind]
        )
        again = f", {one['calls']} times for one result" if purpose else ""
        yield self.issue(
            f"{one['model']} evaluates in training mode at {one['place']} (step {one['step']}){again}: its "
            f"{layers} are active",
            code="repeated" if purpose else one["model"],
            severity="info" if purpose else "warning",
            step_start=one["step"],
            step_end=one["step"],
            time_start=one["time"],
            time_end=one["time"],
            evidence={key: value for key, value in one.items() if key != "time"},
        )
