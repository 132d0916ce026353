"""Judging a training of many fast steps takes no more memory after a million steps than after the first."""

from __future__ import annotations

import tracemalloc

import numpy as np

from holter.evaluation.evaluator import Evaluator
from holter.evaluation.facts import FactsTracker
from holter.evaluation.selection import choose
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table, repeated

START = 1_780_000_000 * 10**9
STEP_NS = 1_000_000
AT_ONCE = 50_000
MOST_GROWTH = 20 << 20


def rows(first: int, phase: str | None = None) -> Table:
    """Return so many steps from `first` on, or one span of each."""
    number = np.arange(first, first + AT_ONCE)
    columns = {
        "time": START + number * STEP_NS,
        "duration": np.full(AT_ONCE, STEP_NS // 4 if phase else STEP_NS),
        "rank": np.zeros(AT_ONCE, np.int32),
        "step": number.astype(np.int32),
        "mode": repeated("train", AT_ONCE),
        "node": repeated("node", AT_ONCE),
    }
    if phase is None:
        parts = {part: np.full(AT_ONCE, STEP_NS // len(BREAKDOWN)) for part in BREAKDOWN}
        return Table({**columns, **parts, "compile": np.zeros(AT_ONCE, np.int64)})
    worker, thread = np.zeros(AT_ONCE, np.int16), np.zeros(AT_ONCE, np.int16)
    more = {"worker": worker, "thread": thread, "phase": repeated(phase, AT_ONCE)}
    return Table({**columns, **more, "name": repeated("", AT_ONCE), "value": np.full(AT_ONCE, np.nan)})


def test_memory_does_not_grow_with_the_number_of_steps():
    facts = FactsTracker(start=START, interval_ms=500, nodes={"node": {"cpus": 4}})
    evaluator = Evaluator(choose(["pack:default"]), facts)
    tracemalloc.start()
    held = {}
    try:
        for first in range(0, 1_000_000, AT_ONCE):
            evaluator.take("steps", rows(first))
            evaluator.take("spans", rows(first, "fetch"))
            evaluator.advance(START + (first + AT_ONCE) * STEP_NS)
            held[first + AT_ONCE] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert evaluator.evaluated > 100
    assert max(held.values()) - held[200_000] < MOST_GROWTH, held
