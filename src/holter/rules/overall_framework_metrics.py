"""Where training spent its time over the whole job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Issue, Rule, Window
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallFrameworkMetrics(Rule):
    """Time in each mode, in each part of the step, and between steps. It never fires."""

    reads = ("steps",)
    category = "framework"
    severity = "info"
    description = "summary of time per phase"
    formula = "never"
    packs = ("default", "performance")
    every_s = 30.0

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Add the new steps up, and hand over the shares of all."""
        ranks = window.state.setdefault("ranks", {})
        steps = window.new("steps")
        for rank in np.unique(steps["rank"]).tolist():
            mine = steps.where(steps["rank"] == rank)
            end = int((mine["time"] + mine["duration"]).max())
            known = ranks.setdefault(
                str(rank), {"begin": int(mine["time"].min()), "end": end, "modes": {}, "parts": {}}
            )
            known["begin"] = min(known["begin"], int(mine["time"].min()))
            known["end"] = max(known["end"], end)
            for mode in np.unique(mine["mode"].astype(str)).tolist():
                spent = int(mine["duration"][mine["mode"] == mode].sum())
                known["modes"][mode] = known["modes"].get(mode, 0) + spent
            for part in (*BREAKDOWN, "compile"):
                known["parts"][part] = known["parts"].get(part, 0) + int(mine[part].sum())
        if not ranks:
            window.insufficient("no_input", "no step")
        window.judged(steps.rows)
        window.details = _shares(list(ranks.values()))
        yield from ()


def _shares(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return percent of the ranks' loops, from their first step's begin to their last one's end."""
    loop = sum(rank["end"] - rank["begin"] for rank in ranks)
    if loop <= 0:
        return {}

    def total(kind: str) -> dict[str, int]:
        names = {name for rank in ranks for name in rank[kind]}
        return {name: sum(rank[kind].get(name, 0) for rank in ranks) for name in sorted(names)}

    modes, parts = total("modes"), total("parts")
    passes = parts["forward"] + parts["backward"]
    between = max(loop - sum(modes.values()), 0)
    return {
        "phase_pct": {**{m: 100.0 * ns / loop for m, ns in modes.items()}, "others": 100.0 * between / loop},
        "phase_s": {**{m: ns / 1e9 for m, ns in modes.items()}, "others": between / 1e9},
        "part_pct": {part: 100.0 * ns / loop for part, ns in parts.items()},
        "forward_pct_of_passes": 100.0 * parts["forward"] / passes if passes else None,
    }
