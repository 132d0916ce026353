"""Steps of which some take longer, spans at given seconds, and a job cut into windows."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
from tests.rules.tables import SECOND, START, steps

from holter.rules import Job, Rule, Window
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

WARM = Job(start=START, first_step=START, warm=dict.fromkeys(range(512), START), nodes={"n0": {"cpus": 4}})


def every(period: int, count: int, usual: float, extra: float, part: str, *, offset: int = 0) -> Table:
    """Make steps of which each `period`-th spends `extra` seconds more, in one part."""
    slow = (np.arange(count) + offset) % period == period - 1
    table = steps(np.where(slow, usual + extra, usual), forward=0.5)
    spent = np.where(slow, round(extra * SECOND), 0)
    forward = np.full(count, round(usual * SECOND / 2))
    parts = {part: spent, "forward": forward, "other": table["duration"] - forward - spent}
    return Table({**table.columns, **parts})


def spans(phase: str, times: np.ndarray, duration: float, **columns: object) -> Table:
    """Make spans of the main thread that begin at so many seconds."""
    rows = [
        {
            "time": START + round(t * SECOND),
            "duration": round(duration * SECOND),
            "phase": phase,
            "worker": -1,
        }
        for t in times.tolist()
    ]
    table = Table.of("spans", [{"rank": 0, "node": "n0", "mode": "train", **row} for row in rows])
    given = {name: np.broadcast_to(np.asarray(v), table.rows).copy() for name, v in columns.items()}
    return Table({**table.columns, **{n: v.astype(table[n].dtype) for n, v in given.items()}})


def last(rule: Rule, tables: Mapping[str, Table], looks: int) -> list[tuple]:
    """Return what a rule finds at the last of so many equal looks, its state kept as JSON in between."""
    end = max(
        int((t["time"] + t["duration"] if "duration" in t else t["time"]).max()) for t in tables.values()
    )
    state: dict = {}
    edges = np.linspace(START - 1, end, looks + 1).astype(np.int64).tolist()
    issues = []
    for since, until in itertools.pairwise(edges):
        window = Window.of(rule.lookback, job=WARM, state=state, start=since, end=until, **tables)
        issues = list(rule.evaluate(window))
        state = json.loads(json.dumps(window.state))
    return [(i.key, i.severity, i.evidence) for i in issues]
