"""UnsuitableInputs: inputs of a model are not normalized, all equal, or contain NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.patterns.sentinel import StepFacts, facts, times

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIXEL = 255.5
_CONSTANT = 8
"""Elements of a sample that should not all be equal; graphs without features use a single one."""
_ADVICE = {
    "pixels": "Divide pixels by 255, then subtract the mean and divide by the standard deviation of each "
    "channel, for example with transforms.ToTensor and transforms.Normalize.",
    "scale": "Subtract the mean of each feature and divide by its standard deviation, from training data.",
    "constant": "Look at a few samples of the dataset, and at the transforms that they pass.",
    "nan": "Find the samples with NaN in the dataset or its transforms; remove or fill them.",
}


@rule_class
class UnsuitableInputs(Rule):
    """What enters the first layer with parameters has a range that hinders learning, or no content."""

    reads = ("events/sentinel",)
    formula = (
        "floating-point data that enters the first layer at `steps` watched steps: pixels of 0 to 255, or "
        "all elements equal: warning; mean or standard deviation above `scale`: note; NaN: warning, note if "
        "the loss is finite. If the first layer normalizes, only constant data and NaN are judged"
    )
    advice = _ADVICE["scale"]
    packs = ("default", "essentials", "convergence")

    steps: int = parameter(3, low=1, unit="watched steps")
    """Number of watched steps; NaN is reported at the first one."""
    scale: float = parameter(100.0, low=1)
    """Absolute mean or standard deviation above which inputs count as not normalized."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the inputs of each model."""
        for at in facts(window):
            for one in at.first.get("inputs", ()):
                if "sampled" in one:
                    yield from self._judge(window, at, one)

    def _judge(self, window: Window, at: StepFacts, one: dict[str, Any]) -> Issues:
        for code, severity, text in self._problems(one, finite=bool(at.first.get("finite_loss"))):
            if times(window, f"{one['model']}/{code}") == (1 if code == "nan" else self.steps):
                yield self.issue(
                    f"{text}, where data enters {one['layer']} of {one['model']}",
                    code=code,
                    severity=severity,
                    advice=_ADVICE[code],
                    step_end=at.step,
                    evidence=one,
                )

    def _problems(self, one: dict[str, Any], *, finite: bool) -> Iterator[tuple[str, Any, str]]:
        if one["nan"] or one["nonfinite"]:
            text = "inputs contain NaN or infinity"
            yield (
                "nan",
                "info" if finite else "warning",
                text + (", but the loss is finite" if finite else ""),
            )
        if one["constant"] and math.prod(one["shape"][1:]) >= _CONSTANT:
            yield "constant", "warning", f"all elements of the inputs are {one['low']:g}"
        if "Norm" in one["layer"] or one["constant"] or "mean" not in one:
            return
        size = f"{one['low']:g} to {one['high']:g} (mean {one['mean']:.3g})"
        if _are_pixels(one):
            yield "pixels", "warning", f"inputs are pixels of {size}, not normalized"
        elif max(abs(one["mean"]), one["std"]) > self.scale:
            yield "scale", "info", f"inputs are not normalized: {size}"


def _are_pixels(one: dict[str, Any]) -> bool:
    spans = one["low"] >= 0 and 100 < one["high"] <= _PIXEL
    return bool(spans and (one["layer"].startswith("Conv") or (one["whole"] and one["shape"][-1] >= 16)))
