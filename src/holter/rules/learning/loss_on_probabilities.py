"""LossOnProbabilities: a loss that expects logits receives probabilities, or its targets are broadcast."""

from __future__ import annotations

import itertools

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import facts, times

_PROBABILITIES = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_PASSED = ("View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "Transpose", "T", "ToCopy", "Permute")
_LOSSES = {
    ("NllLoss", "LogSoftmax"): "cross_entropy",
    ("NllLoss2D", "LogSoftmax"): "cross_entropy",
    ("BinaryCrossEntropyWithLogits",): "binary_cross_entropy_with_logits",
    ("NllLoss",): "nll_loss",
}
"""The operations of each loss that expects logits or, `nll_loss`, logarithms."""
_ADVICE = {
    "broadcast": "Give outputs and targets one shape: squeeze(-1) the output or unsqueeze(-1) the target.",
    "probabilities": "Remove the softmax or sigmoid before the loss; the loss computes it itself.",
}


@rule_class
class LossOnProbabilities(Rule):
    """The graph of the loss has a softmax or sigmoid where the loss expects logits."""

    reads = ("events/sentinel",)
    formula = (
        "softmax or sigmoid directly before cross_entropy, binary_cross_entropy_with_logits or nll_loss, or "
        "the output of the model expanded directly before a squared error, at `steps` watched steps"
    )
    advice = _ADVICE["probabilities"]
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(2, low=1, unit="watched steps")
    """Number of watched steps."""

    def evaluate(self, window: Window) -> Issues:
        """Look at the last operations of each loss."""
        for at in facts(window):
            found = _problem([name for name in at.first.get("loss", ()) if name not in _PASSED])
            if found is None:
                continue
            code, text = found
            if times(window, code) == self.steps:
                yield self.issue(
                    text,
                    code=code,
                    step_end=at.step,
                    advice=_ADVICE[code],
                    evidence={"operations": at.first["loss"]},
                )


def _problem(names: list[str]) -> tuple[str, str] | None:
    for operations, loss in _LOSSES.items():
        for at in range(len(names) - len(operations)):
            after = names[at + len(operations)]
            if tuple(names[at : at + len(operations)]) == operations and after in _PROBABILITIES:
                before = _PROBABILITIES[after]
                return "probabilities", f"{loss} receives probabilities: {before} comes before it"
    for name, after in itertools.pairwise(names):
        if name in ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss") and after == "Expand":
            return "broadcast", f"the output is broadcast to the targets' shape before {name}"
    return None
