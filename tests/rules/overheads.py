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
    """Return what a rule finds at the last of several equal evaluations; JSON carries its state."""
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


# --- compilation


def compiling(at: list[int], *, count: int = 600, spent: float = 2.0) -> Table:
    compile_ = np.zeros(count, dtype=np.int64)
    compile_[at] = round(spent * SECOND)
    table = steps(0.5 + compile_ / SECOND)
    return Table({**table.columns, "compile": compile_})


# --- copies to the device


def copies(share: float, *, size: float, count: int = 400) -> dict[str, Table]:
    table = steps([0.5] * count, h2d=share, forward=0.9 - share)
    return {"steps": table, "spans": spans("h2d", np.arange(count) * 0.5, 0.5 * share, value=size)}


# --- garbage collection


def collecting(ranks: int, *, together: bool, count: int = 200) -> dict[str, Table]:
    """Make steps of 0.2 s, on each rank with a pause of 20 ms each 100 steps."""
    phase = np.zeros(ranks) if together else np.random.default_rng(19).integers(0, 100, ranks)
    parts = []
    for rank in range(ranks):
        at = np.flatnonzero(np.arange(count) % 100 == phase[rank])
        parts.append(spans("gc", at * 0.2 + 0.1, 0.02, rank=rank, step=at, value=2))
    one = steps([0.2] * count)
    all_ = Table({n: np.tile(c, ranks) for n, c in one.columns.items()})
    rank_ = np.repeat(np.arange(ranks, dtype=np.int32), count)
    return {"steps": Table({**all_.columns, "rank": rank_}), "spans": Table.concat(parts)}
