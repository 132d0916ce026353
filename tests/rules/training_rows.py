"""Numbers and tensors of made-up trainings, and a rule that judges them in one window or several."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
from tests.rules.tables import SECOND, START

from holter.evaluation.status import RuleRun
from holter.rules import Issue, Job, Rule, Window
from holter.schema.table import Table


def scalars(*, rank: int = 0, every: int = 1, first: int = 0, mode: str = "train", **series: Any) -> Table:
    """Make scalars of one rank: name → one value a step; None is left out. `__` in a name stands for `/`."""
    rows = [
        {
            "time": START + (first + i * every) * SECOND + rank,
            "rank": rank,
            "step": first + i * every,
            "mode": mode,
            "name": name.replace("__", "/"),
            "value": float(value),
        }
        for name, values in series.items()
        for i, value in enumerate(values)
        if value is not None
    ]
    return Table.of("scalars", rows)


def spans(phase: str, steps: Any, *, rank: int = 0, name: str = "") -> Table:
    """Make instants of one phase, one at each of the steps."""
    rows = [
        {
            "time": START + step * SECOND,
            "rank": rank,
            "worker": -1,
            "step": step,
            "phase": phase,
            "name": name,
        }
        for step in steps
    ]
    return Table.of("spans", rows)


def tensor(name: str, step: int, *, rank: int = 0, at: int = 0, **statistics: Any) -> dict[str, Any]:
    """Make one row of tensors; `at` are ns after the step's time."""
    row = {
        "time": START + step * SECOND + rank + at,
        "rank": rank,
        "step": step,
        "mode": "train",
        "name": name,
    }
    given = {"count": 1000, "std": 1.0, "mean": 0.0, **statistics}
    role = "grad" if name.startswith("gradient/") else "weight"
    return {**row, "role": role, **given}


def values(name: str, step: int, kind: str, elements: Any, *, rank: int = 0) -> list[dict[str, Any]]:
    """Make the rows that hold one tensor's elements."""
    row = {"time": START + step * SECOND + rank, "rank": rank, "step": step, "mode": "train", "name": name}
    listed = np.asarray(elements, dtype=float).ravel().tolist()
    return [{**row, "kind": kind, "position": i, "value": value} for i, value in enumerate(listed)]


def judged(rule: Rule, *, cuts: int = 1, ended: bool = True, **tables: Table) -> list[Issue]:
    """Evaluate a rule on a training in several windows; JSON carries its state, and repeats are merged."""
    return list(run(rule, cuts=cuts, ended=ended, **tables).issues.values())


def run(rule: Rule, *, cuts: int = 1, ended: bool = True, **tables: Table) -> RuleRun:
    """Evaluate a rule on a training; return the result."""
    ends = [t["time"] + _duration(t) for t in tables.values() if t.rows]
    last = max((int(end.max()) for end in ends), default=START)
    edges = [START - 1, *np.linspace(START, last, cuts + 1).astype(np.int64).tolist()[1:]]
    made = RuleRun(rule.__class__.__name__, rule)
    for low, high in itertools.pairwise(edges):
        made.state = json.loads(json.dumps(made.state))
        part = {}
        for name, table in tables.items():
            end = table["time"] + _duration(table)
            part[name] = table.where((end > low) & (end <= high))
        job = Job(start=START, ended=ended and high == edges[-1])
        made.evaluate(Window.of(rule.lookback, job=job, start=low, end=high, state=made.state, **part))
        assert not made.failures, made.error
    return made


def _duration(table: Table) -> Any:
    return table.columns.get("duration", 0)


def same_in_pieces(rule: Rule, **tables: Table) -> list[Issue]:
    """Return what a rule finds, and check that windows and the order of rows do not matter."""
    whole = [dataclasses.asdict(issue) for issue in judged(rule, **tables)]
    for cuts in (3, 17):
        shuffled = {
            n: t.where(np.random.default_rng(cuts).permutation(t.rows)) if t.rows else t
            for n, t in tables.items()
        }
        pieces = [dataclasses.asdict(issue) for issue in judged(rule, cuts=cuts, **shuffled)]
        assert sorted(map(str, pieces)) == sorted(map(str, whole))
    return judged(rule, **tables)
