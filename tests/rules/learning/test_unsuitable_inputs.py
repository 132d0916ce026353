"""UnsuitableInputs judges what enters the first layer by what that layer is."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, watched
from tests.rules.tables import codes

from holter.rules import UnsuitableInputs

PIXELS = {"low": 0, "high": 255, "mean": 120, "std": 60}
CONSTANT = {"constant": True, "low": 1, "high": 1, "mean": 1, "std": 0}


@pytest.mark.parametrize(
    ("inputs", "finite", "found"),
    [
        ({"layer": "Conv2d", **PIXELS}, True, [("pixels", "warning")]),
        ({"whole": True, **PIXELS}, True, [("pixels", "warning")]),
        ({"mean": 3000.0}, True, [("scale", "info")]),
        ({"layer": "BatchNorm2d", **PIXELS}, True, []),
        ({"nan": True}, True, [("nan", "info")]),
        ({"nan": True}, False, [("nan", "warning")]),
        (CONSTANT, True, [("constant", "warning")]),
        ({"shape": [8, 1], **CONSTANT}, True, []),
    ],
)
def test_inputs_are_judged_by_what_the_first_layer_is(inputs, finite, found):
    one = {"model": "Net", "layer": "Linear", "shape": [8, 16], "sampled": 128, "nan": False}
    one |= {"nonfinite": 0, "constant": False, "whole": False, "low": -2, "high": 2, "mean": 0, "std": 1}
    rows = [watched(step, inputs=[one | inputs], finite_loss=finite) for step in WATCHED]
    assert codes(ask(UnsuitableInputs(), rows)) == found
