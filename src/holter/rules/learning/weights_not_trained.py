"""WeightsNotTrained: only normalization layers train, or no weight changes although optimizers step."""

from __future__ import annotations

from typing import Any

from holter.analysis.verdict.evidence import pct
from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import StepFacts, facts, prints


@rule_class
class WeightsNotTrained(Rule):
    """Weights are frozen by mistake, or steps of the optimizer change nothing."""

    reads = ("events/sentinel",)
    formula = (
        "all weights are frozen and parameters of normalization layers are not; or all sampled elements "
        "stay the same over `steps` watched steps with gradients and a learning rate above 0"
    )
    advice = (
        "Check requires_grad of the layers that should learn, among them the last one, and that the "
        "optimizer holds the parameters of this model."
    )
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(3, low=2, unit="watched steps")
    """Number of watched steps without any change."""

    def evaluate(self, window: Window) -> Issues:
        """Look at what trains at each watched step, and whether it changes."""
        for at in facts(window):
            yield from self._frozen(window, at)
            yield from self._unchanged(window, at)

    def _frozen(self, window: Window, at: StepFacts) -> Issues:
        trained, total = at.first["trained"], at.first["elements"]
        if set(trained) != {"norm_param"} or total <= 2 * trained["norm_param"] or "frozen" in window.state:
            return
        window.state["frozen"] = at.step
        count = trained["norm_param"]
        yield self.issue(
            f"only normalization layers train: {count:,} of {total:,} elements "
            f"({pct(100 * count / total)}); all weights are frozen, the last layer too",
            code="frozen",
            step_start=at.step,
            step_end=at.step,
            evidence={"trained_elements": count, "elements": total},
        )

    def _unchanged(self, window: Window, at: StepFacts) -> Issues:
        for rank, detail in at.ranks.items():
            known = window.state.setdefault("ranks", {}).setdefault(str(rank), {"still": 0})
            same = known.get("prints") == detail.get("prints") and known.get("moves", False)
            known["still"] = known["still"] + 1 if same else 0
            known["since"] = known.get("since", at.step) if same else at.step
            known |= {"prints": detail.get("prints"), "moves": _moves(detail)}
            if known["still"] + 1 == self.steps and "unchanged" not in window.state:
                window.state["unchanged"] = at.step
                yield self.issue(
                    f"no parameter has changed since step {known['since']}, although the optimizer steps with"
                    " gradients",
                    code="unchanged",
                    severity="critical",
                    step_start=known["since"],
                    step_end=at.step,
                    evidence={"parameters": len(prints(detail)), "watched_steps": self.steps},
                )


def _moves(detail: dict[str, Any]) -> bool:
    """Return whether a step of an optimizer should change something."""
    steps = detail["optimizers"]
    rates = all((one["lr"] is None or one["lr"] > 0) and not one["skipped"] for one in steps)
    return rates and any(prints(detail, "gradients"))
