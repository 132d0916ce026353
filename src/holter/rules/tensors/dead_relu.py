"""DeadRelu: ReLU units never activate."""

from __future__ import annotations

import math

from holter.rules import parameter, rule_class
from holter.rules.patterns.units import UnitRule


@rule_class
class DeadRelu(UnitRule):
    """Too many units of a ReLU layer always output zero."""

    reads = ("tensors", "tensor_values")
    formula = (
        "a unit is dead when its output is > 0 in less than threshold_inactivity of the samples; the rule "
        "fires when more than threshold_layer of a layer's units are dead"
    )
    advice = (
        "Lower the learning rate, check the initialisation and the biases of the layers before the listed "
        "ones, or use a leaky ReLU or GELU, which cannot die."
    )
    packs = ("sagemaker",)
    roles = ("act_out:relu",)
    save = "activations@100"

    tensor_regex: tuple[str, ...] | None = parameter(None, classic=(".*relu_output",))
    """Patterns that find outputs of ReLU; none = by the role they were recorded with."""
    threshold_inactivity: float = parameter(0.1, classic=1.0, low=0, high=100, unit="%")
    """A unit that is active in a smaller share of the samples is dead."""
    min_samples: int = parameter(4096, classic=0, low=0)
    """Samples per unit to collect over saved steps before judging; 0 = judge each step alone."""
    successive: int = parameter(3, classic=1, low=1, aliases=("consecutive",))
    """At how many evaluations of the same tensor in a row the condition must hold."""

    def limits(self, name: str, role: str) -> tuple[float, float] | None:
        """Return the limits of an active unit: any output above zero."""
        return (0.0, math.inf)
