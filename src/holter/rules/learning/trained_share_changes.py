"""TrainedShareChanges: parameters become trainable or frozen during the training."""

from __future__ import annotations

from holter.analysis.verdict.evidence import pct
from holter.rules import Issues, Rule, Window, rule_class
from holter.rules.patterns.layers import listed
from holter.rules.patterns.sentinel import facts, times


@rule_class
class TrainedShareChanges(Rule):
    """The set of trainable parameters differs from that at the watched step before."""

    reads = ("events/sentinel",)
    formula = (
        "requires_grad of a parameter differs between two watched steps: warning if train() or eval() of a "
        "class of the model sets it, else note (gradual unfreezing)"
    )
    advice = (
        "Set requires_grad once, before the optimizer is made. Call train() of a module that freezes itself "
        "there before the first step; remove the line that unfreezes in train()."
    )
    packs = ("default", "essentials", "convergence")

    def evaluate(self, window: Window) -> Issues:
        """Compare what trains at each watched step with the step before."""
        for at in facts(window):
            state = window.state
            now = sum(at.first["trained"].values())
            before, state["trained"] = state.get("trained", now), now
            last, state["step"] = state.get("step", at.step), at.step
            changed = at.first.get("changed")
            if changed is None:
                continue
            code = "mode" if changed["functions"] else "changed"
            if times(window, code) > 1:
                continue
            total = at.first["elements"]
            parts = [
                f"{changed[f'{kind}_count']} parameters {text} ({listed(changed[kind])})"
                for kind, text in (("thawed", "became trainable"), ("frozen", "were frozen"))
                if changed[f"{kind}_count"]
            ]
            by = f"; {listed(changed['functions'])} sets requires_grad" if changed["functions"] else ""
            yield self.issue(
                f"{' and '.join(parts)} between steps {last} and {at.step}: {pct(100 * before / total)} of "
                f"the elements trained before, {pct(100 * now / total)} after{by}",
                code=code,
                severity="warning" if changed["functions"] else "info",
                step_start=last,
                step_end=at.step,
                evidence={**changed, "trained_before": before, "trained_after": now, "total": total},
            )
