"""SaturatedActivation: tanh or sigmoid units are stuck in the flat region."""

from __future__ import annotations

from holter.rules import BadRule, parameter, rule_class
from holter.rules.patterns.units import UnitRule

RECORDED = {"tanh": (-3.8, 3.8), "sigmoid": (-6.0, 6.0)}
"""Between which inputs the recorder counts a unit as active."""


@rule_class
class SaturatedActivation(UnitRule):
    """Too many inputs of a tanh or sigmoid layer lie in its flat region, which passes no gradient."""

    reads = ("tensors", "tensor_values")
    formula = (
        "a unit is saturated when its input lies between the limits in less than threshold_inactivity of "
        "the samples; the rule fires when more than threshold_layer of a layer's units are saturated"
    )
    advice = (
        "Normalise the inputs of the listed layers, initialise the weights before them with smaller values,"
        " or use another activation."
    )
    packs = ("sagemaker",)
    roles = ("act_in:tanh", "act_in:sigmoid")
    save = "activations@100"

    tensor_regex: tuple[str, ...] | None = parameter(None, classic=(".*tanh_input", ".*sigmoid_input"))
    """Patterns that find inputs of tanh and sigmoid; none = by the role they were recorded with."""
    threshold_tanh_min: float = parameter(-3.8, classic=-9.4999)
    """Tanh is flat below this input."""
    threshold_tanh_max: float = parameter(3.8, classic=9.4999)
    """Tanh is flat above this input."""
    threshold_sigmoid_min: float = parameter(-6.0, classic=-23.0)
    """Sigmoid is flat below this input."""
    threshold_sigmoid_max: float = parameter(6.0, classic=16.99999)
    """Sigmoid is flat above this input."""
    threshold_inactivity: float = parameter(5.0, classic=1.0, low=0, high=100, unit="%")
    """A unit that leaves the flat region in a smaller share of the samples is saturated."""

    def __post_init__(self) -> None:
        UnitRule.__post_init__(self)
        for function in RECORDED:
            low, high = self._between(function)
            if low >= high:
                name = f"threshold_{function}_min"
                text = f"{type(self).__name__}: {name}={low!r} is not valid; it takes a number below {high!r}"
                raise BadRule(text)

    def limits(self, name: str, role: str) -> tuple[float, float] | None:
        """Return the limits of the function that the role or, without one, the name indicates."""
        function = _function(name, role)
        return None if function is None else self._between(function)

    def counted(self, name: str, role: str) -> bool:
        """Return whether the recorder counts with the same limits."""
        function = _function(name, role)
        return function is not None and self._between(function) == RECORDED[function]

    def _between(self, function: str) -> tuple[float, float]:
        if function == "tanh":
            return (self.threshold_tanh_min, self.threshold_tanh_max)
        return (self.threshold_sigmoid_min, self.threshold_sigmoid_max)


def _function(name: str, role: str) -> str | None:
    text = role if role.startswith("act_in:") else name.casefold()
    return next((function for function in RECORDED if function in text), None)
