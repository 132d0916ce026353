"""Timelines of workers whose step time follows from a formula."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000
TRANSFER, EXCHANGE, UPDATE = 1 * MS, 8 * MS, 4 * MS

Work = "Callable[[int, int, int, int], float]"


def step_ms(work: float, stages: int, micro: int) -> float:
    """Return the step of equal workers: `work` ms for a forward pass, and twice that for a backward pass."""
    passes = 3 * work * (micro + stages - 1)
    return passes + (2 * (stages - 1) * TRANSFER + EXCHANGE + UPDATE) / MS


def pipeline(
    work: Callable[[int, int, int, int], float],
    *,
    replicas: int = 3,
    stages: int = 3,
    micro: int = 4,
    steps: int = 4,
    raw: bool = False,
) -> tuple[Table, Table]:
    """Return the operators and tracks of a pipeline: all forward passes, all backward passes, one exchange.

    Args:
        work: Milliseconds of a forward pass, by replica, stage, micro-batch and step.
        replicas: Data-parallel ranks.
        stages: Stages of the pipeline.
        micro: Micro-batches per step.
        steps: Steps.
        raw: Transfers begin when the worker asks for them, and contain the wait for the other worker.
    """
    rows: list[dict[str, Any]] = []
    at = 0.0

    def add(replica: int, stage: int, lane: int, name: str, begin: float, end: float, step: int) -> None:
        rows.append(
            {
                "time": round(begin),
                "duration": round(end) - round(begin),
                "rank": 0,
                "thread": (replica * stages + stage) * 3 + lane,
                "step": -1,
                "name": name,
                "kind": "operator",
                "detail": json.dumps({"step": 10 + step}),
            }
        )

    for step in range(steps):
        free = {(r, s): at for r in range(replicas) for s in range(stages)}
        for name, factor, order in (
            ("forward", 1, range(stages)),
            ("backward", 2, range(stages - 1, -1, -1)),
        ):
            first, last = order[0], order[-1]
            for r in range(replicas):
                sent: dict[tuple[int, int], float] = {}
                for s in order:
                    for m in range(micro):
                        ready = free[r, s]
                        if s != first:
                            came = sent[order[list(order).index(s) - 1], m] + TRANSFER
                            begin = min(ready, came - TRANSFER) if raw else came - TRANSFER
                            add(r, s, 1, f"{name}-recv", begin, came, step)
                            ready = max(ready, came)
                        free[r, s] = ready + factor * work(r, s, m, step) * MS
                        add(r, s, 0, f"{name}-compute", ready, free[r, s], step)
                        sent[s, m] = free[r, s]
                        if s != last:
                            add(r, s, 1, f"{name}-send", free[r, s], free[r, s] + TRANSFER, step)
        ends = []
        for s in range(stages):
            together = max(free[r, s] for r in range(replicas)) + EXCHANGE
            for r in range(replicas):
                begin = free[r, s] if raw else together - EXCHANGE
                add(r, s, 2, "grads-all-reduce", begin, together, step)
                add(r, s, 0, "optimizer", together, together + UPDATE, step)
            ends.append(together + UPDATE)
        at = max(ends) + 5 * MS
    tracks = [
        {"rank": 0, "process": r, "thread": -1, "kind": "process", "name": f"DP rank {r}"}
        for r in range(replicas)
    ] + [
        {
            "rank": 0,
            "process": r,
            "thread": (r * stages + s) * 3 + lane,
            "kind": "thread",
            "name": f"PP rank {s}, {word}",
        }
        for r in range(replicas)
        for s in range(stages)
        for lane, word in enumerate(("compute", "pp-comm", "dp-comm"))
    ]
    return Table.of("operators", rows), Table.of("tracks", tracks)
