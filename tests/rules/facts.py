"""Facts of the sentinel, learning rates and losses as a recorder writes them, one step per second."""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from tests.rules.rows import SECOND, START, scalars

if TYPE_CHECKING:
    from collections.abc import Sequence


def _event(kind: str, step: int, detail: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    return {
        "time": START + (step + 1) * SECOND,
        "rank": rank,
        "kind": kind,
        "name": "",
        "detail": json.dumps(detail),
    }


def watched(
    step: int, *, lr: float | None = None, received: int = 1, gradients: Sequence[int] = (7,), **facts: Any
) -> dict[str, Any]:
    """Return the event of one watched step; `gradients`: a hash for each parameter, 0 for zeros."""
    optimizer = {"number": 0, "class": "SGD", "lr": lr, "skipped": False, "received": received}
    facts["gradients"] = b64encode(array("I", map(int, gradients)).tobytes()).decode()
    return _event("sentinel", step, {"step": step, "names": ["w"], "optimizers": [optimizer], **facts})


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


__all__ = ["again", "loader", "planned", "scalars", "steps", "watched"]
