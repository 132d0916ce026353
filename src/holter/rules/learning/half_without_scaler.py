"""HalfWithoutScaler: a training computes in float16 and does not scale its loss."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts, times

_ADVICE = {
    "weights": "Keep float32 weights and compute under autocast with a GradScaler, or use bfloat16.",
    "autocast": "Scale the loss with torch.amp.GradScaler, or use bfloat16.",
}


@rule_class
class HalfWithoutScaler(Rule):
    """Small gradients become 0 in float16, and small updates of float16 weights are lost."""

    reads = ("events/sentinel",)
    formula = (
        "at `steps` watched steps an optimizer holds float16 parameters, or autocast computes in float16, "
        "and the loss is not scaled"
    )
    advice = _ADVICE["autocast"]
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps at which the loss is not scaled."""

    def evaluate(self, window: Window) -> Issues:
        """Count the watched steps in float16 without a scaled loss."""
        for at in facts(window):
            if (problem := _problem(at.first)) is None:
                continue
            code, text = problem
            if times(window, code) == self.steps:
                yield self.issue(
                    text,
                    code=code,
                    step_end=at.step,
                    advice=_ADVICE[code],
                    evidence=at.first["precision"],
                )


def _problem(detail: dict[str, Any]) -> tuple[str, str] | None:
    found = detail.get("precision")
    scaled = found and (found["scaled"] or detail.get("loss", ["Mul"])[:1] == ["Mul"])  # by hand
    if not found or scaled:
        return None
    if found["half"]:
        return (
            "weights",
            f"{found['half']} of {found['held']} parameters are float16, and the loss is not scaled: small "
            "gradients and updates become 0",
        )
    if found["asked"] == "float16" and found["low"]:
        return (
            "autocast",
            "autocast computes in float16, and the loss is not scaled: small gradients become 0",
        )
    return None
