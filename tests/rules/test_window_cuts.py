"""The last finding of a rule does not depend on how its windows are cut."""

from __future__ import annotations

import pytest
from tests.rules.overheads import collecting, compiling, copies, every, last

from holter.rules.framework.checkpoint_stall import CheckpointStall
from holter.rules.framework.eval_overhead import EvalOverhead
from holter.rules.framework.gc_pause import GCPause
from holter.rules.framework.h2d_bound import H2DBound
from holter.rules.framework.recompilation_storm import RecompilationStorm

# --- however the data come


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (RecompilationStorm(), {"steps": compiling(list(range(100, 500, 15)))}),
        (EvalOverhead(), {"steps": every(100, 500, 1.0, 50, "eval")}),
        (H2DBound(), copies(0.3, size=450e6)),
    ],
    ids=["compilation", "evaluation", "copies"],
)
def test_the_last_finding_does_not_depend_on_how_windows_are_cut(rule, tables):
    assert last(rule, tables, 1) == last(rule, tables, 7) == last(rule, tables, 23)
    assert last(rule, tables, 1)


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (GCPause(min_lost_s=0), collecting(8, together=False)),
        (CheckpointStall(), {"steps": every(100, 1000, 1.0, 6, "checkpoint")}),
    ],
    ids=["gc", "checkpoint"],
)
def test_the_last_pause_does_not_depend_on_how_windows_are_cut(rule, tables):
    assert last(rule, tables, 1) == last(rule, tables, 7) == last(rule, tables, 23)
    assert last(rule, tables, 1)
