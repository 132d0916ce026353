"""GradientsNotExchanged: several ranks train, but nothing exchanges their gradients."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import LOCAL_STEPS, StepFacts, facts, independent, prints, replicas


@rule_class
class GradientsNotExchanged(Rule):
    """No rank has reduced gradients, so each trains a model of its own."""

    reads = ("events/sentinel",)
    severity = "critical"
    formula = (
        "the training calls the module inside DDP at `steps` watched steps; or, without DDP and without any "
        "reduction, all ranks still hold equal parameters at the third watched step, or began with different "
        "ones more than 16 steps ago. Ranks that exchange other tensors, which may average their models now "
        "and then, are judged from 100 steps on"
    )
    advice = (
        "Wrap the model in DistributedDataParallel and call the wrapper in the training loop, not the module "
        "inside it."
    )
    packs = ("default", "essentials", "distributed")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps at which the module inside DDP is called."""

    def evaluate(self, window: Window) -> Issues:
        """Look at what ranks exchange until replicas differ."""
        for at in facts(window):
            if "told" not in window.state and (details := replicas(at)):
                yield from self._judge(window, at, details)

    def _judge(self, window: Window, at: StepFacts, details: list[dict[str, Any]]) -> Issues:
        state = window.state
        state.setdefault("first", at.step)
        state["seen"] = state.get("seen", 0) + 1
        equal = len({tuple(prints(one)) for one in details}) == 1
        state.setdefault("began_equal", equal)
        steps = at.step - state["first"] + 1
        # A loss that is averaged at every step looks the same; then ReplicasDiffer finds the difference.
        unwrapped = all(one["unwrapped"] and one["reductions"] < steps for one in details)
        state["unwrapped"] = state.get("unwrapped", 0) + unwrapped
        if unwrapped:
            if state["unwrapped"] >= self.steps:
                yield self._issue(state, at, "the training calls the model inside DDP")
            return
        if any(one["ddp"] or one["reductions"] for one in details) or independent(details):
            return
        exchanges = any(one["exchanges"] for one in details)
        if exchanges and steps < LOCAL_STEPS[True]:
            return
        if state["began_equal"] and equal and state["seen"] >= 3:
            yield self._issue(state, at, "all compute the same on the same data")
        elif not state["began_equal"] and steps > LOCAL_STEPS[exchanges]:
            yield self._issue(state, at, "they began with different parameters")

    def _issue(self, state: dict[str, Any], at: StepFacts, cause: str) -> Any:
        state["told"] = at.step
        return self.issue(
            f"{at.first['world']} ranks have exchanged no gradients until step {at.step}: {cause}",
            step_start=state["first"],
            step_end=at.step,
            evidence={key: at.first[key] for key in ("world", "ddp", "reductions", "exchanges", "unwrapped")},
        )
