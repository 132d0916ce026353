"""Tests of the rule RecompilationStorm."""

from __future__ import annotations

import pytest
from tests.rules.overheads import compiling
from tests.rules.tables import SECOND, found

from holter.rules.framework.recompilation_storm import RecompilationStorm
from holter.schema.table import Table

HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("at", "severity"),
    [
        ([0, 5, 19], None),
        ([300], "info"),
        (list(range(100, 160, 10)), "warning"),
        (list(range(100, 500, 15)), "critical"),
    ],
)
def test_recompilation_after_warmup(at, severity):
    issues = found(RecompilationStorm(), steps=compiling(at))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_a_resumed_training_may_compile_again():
    first, second = compiling([0], count=100), compiling([0, 1, 2, 3, 4, 5], count=100)
    later = Table({**second.columns, "time": second["time"] + HOUR})
    assert found(RecompilationStorm(), steps=Table.concat([first, later])) == []
