"""Facts of the sentinel, learning rates and losses as a recorder writes them, one step per second."""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from tests.rules.rows import SECOND, START, scalars
from tests.rules.tables import judged

from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.rules import Issue, Rule


WATCHED = (0, 1, 2, 4, 8, 16, 32, 64, 100, 200)
"""The steps that a recorder watches first."""


def _event(kind: str, step: int, detail: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    return {
        "time": START + (step + 1) * SECOND,
        "rank": rank,
        "kind": kind,
        "name": "",
        "detail": json.dumps(detail),
    }


def _hashes(values: Iterable[int]) -> str:
    return b64encode(array("I", map(int, values)).tobytes()).decode()


def optimizer(**facts: Any) -> dict[str, Any]:
    """Return the facts of an optimizer that steps."""
    usual = {"number": 0, "class": "SGD", "lr": None, "parameters": 2, "skipped": False}
    return usual | {"received": 1, "cleared": True} | facts


def watched(
    step: int,
    *,
    rank: int = 0,
    lr: float | None = None,
    received: int = 1,
    gradients: Iterable[int] = (7,),
    values: Iterable[int] = (1, 2),
    **facts: Any,
) -> dict[str, Any]:
    """Return the event of one watched step of a small model without trouble.

    Args:
        step: The step.
        rank: The rank.
        lr: The learning rate of its optimizer.
        received: How many parameters of the optimizer have gradients.
        gradients: A hash of each parameter's gradient, 0 for zeros.
        values: A hash of each parameter.
        facts: Other facts, or others than the usual ones.
    """
    usual = {
        "step": step, "names": ["a.weight", "b.weight"], "constant": "00", "world": 1, "batches": [],
        "optimizers": [optimizer(lr=lr, received=received)], "prints": _hashes(values),
        "gradients": _hashes(gradients), "elements": 20, "trained": {"weight": 20}, "models": [],
        "unused": [], "unused_count": 0, "unused_elements": 0, "unheld": [], "unheld_count": 0,
    }  # fmt: skip
    return _event("sentinel", step, usual | facts, rank)


def between(step: int, **facts: Any) -> dict[str, Any]:
    """Return an event of the sentinel that belongs to no watched step."""
    return _event("sentinel", step, facts)


def of_ranks(**by_rank: Callable[[int, int], Any]) -> list[dict[str, Any]]:
    """Return watched steps of two ranks; functions of rank and step give their facts."""
    exchange = {"world": 2, "ddp": False, "ddp_ranks": None, "unwrapped": False}
    exchange |= {"reductions": 0, "exchanges": 0}
    return [
        watched(step, rank=rank, **exchange | {name: fact(rank, step) for name, fact in by_rank.items()})
        for step in WATCHED
        for rank in range(2)
    ]


def drifted(rank: int, step: int) -> list[int]:
    """Return hashes of parameters that are equal on all ranks at first only."""
    return [step, step + rank * (step > 0)]


def ask(rule: Rule, events: list[dict[str, Any]]) -> list[Issue]:
    """Return what a rule finds in the events of a job that has ended; fails when it could not judge."""
    return judged(rule, {"events": Table.of("events", events)})


def loader(batches: int) -> dict[str, Any]:
    """Return the event of a loader."""
    return _event("loader", 0, {"index": 0, "batches": batches})


def planned(steps: int) -> dict[str, Any]:
    """Return the event of a trainer that knows its steps."""
    return _event("planned", 0, {"trainer": "Trainer", "steps": steps})


def steps(count: int) -> list[dict[str, Any]]:
    """Return rows of steps."""
    return [
        {"time": START + step * SECOND, "duration": SECOND, "step": step, "rank": 0, "mode": "train"}
        for step in range(count)
    ]


def again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a process that was started again, after a day."""
    return [{**row, "time": row["time"] + 86_400 * SECOND} for row in rows]


__all__ = [
    "WATCHED",
    "again",
    "ask",
    "between",
    "drifted",
    "loader",
    "of_ranks",
    "optimizer",
    "planned",
    "scalars",
    "steps",
    "watched",
]
