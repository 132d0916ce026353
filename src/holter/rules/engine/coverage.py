"""Whether a rule could judge a window, and the reason if it could not."""

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
    """Whether a rule could judge, so that "no issues" does not hide missing data."""

    reason: Reason = "ok"
    text: str = ""
    have: float | None = None
    need: float | None = None
