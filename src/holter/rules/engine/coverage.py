"""How much a rule could judge, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "ok",
    "no_input",
    "no_match",
    "too_few_points",
    "patience_not_reached",
    "mode_missing",
    "shape_missing",
    "run_too_short",
]


@dataclass(slots=True)
class Coverage:
    """How much a rule could judge: what keeps "no issues" from being a false assurance."""

    reason: Reason = "ok"
    text: str = ""
    have: float | None = None
    need: float | None = None
