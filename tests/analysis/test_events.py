"""The framework of a job is the one that counts its steps."""

from __future__ import annotations

import json

import pytest

from holter.analysis.events import framework
from holter.schema.table import Table

TORCH = {"name": "pytorch", "device": "cuda"}
KERAS = {"name": "keras", "version": "3"}
FIT = {"name": "scikit-learn", "device": "cpu"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([], None),
        ([TORCH], TORCH),
        ([KERAS, TORCH], {**KERAS, "device": "cuda"}),
        ([TORCH, "keras", KERAS], {**KERAS, "device": "cuda"}),
        (["keras", KERAS, TORCH], {**KERAS, "device": "cuda"}),
        ([TORCH, "lightning.Trainer"], TORCH),
        ([TORCH, "script"], TORCH),
        ([FIT, "scikit-learn", "", TORCH], TORCH),
        ([TORCH, FIT, "scikit-learn", ""], TORCH),
    ],
)
def test_the_owner_of_the_steps_is_the_framework(facts, expected):
    rows = [
        {
            "time": at,
            "rank": 0,
            "kind": "framework" if isinstance(fact, dict) else "owner",
            "name": "",
            "node": "",
            "detail": json.dumps(fact if isinstance(fact, dict) else {"owner": fact}),
        }
        for at, fact in enumerate(facts)
    ]
    assert framework(Table.of("events", rows)) == expected
