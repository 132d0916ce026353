"""Says how long steps that all ranks take together would be without one cause of slowness."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.jobs.stragglers import in_step, own_work
from holter.analysis.jobs.what_if import Cause, WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.analysis.jobs.dependencies import Floats
    from holter.schema.table import Table

SENT = """
    SELECT 1 AS found FROM spans
    WHERE phase = 'communication' AND (name LIKE 'send%' OR name LIKE 'recv%') LIMIT 1
"""
"""Finds a row if ranks send tensors to single other ranks: stages of a pipeline do not meet in each step."""
MIN_STEPS = 5
"""All ranks must have this many steps in common."""


def what_if_of_steps(steps: Table, slow: Sequence[int] = ()) -> WhatIf | None:
    """Compute the mean step time without each cause; None unless several ranks communicate.

    In each step the ranks meet at the exchange of gradients: the step takes as long as the rank with the
    most work of its own, and then as long as the exchange. The exchange itself takes as long as the rank
    that comes last is in it. What the other ranks spend in it beyond that is waiting.

    Args:
        steps: Table `steps`, steady state.
        slow: Ranks that are slower than the others.
    """
    ranks = in_step(steps, MIN_STEPS)
    if not ranks:
        return None
    own = np.stack([own_work(rank) for rank in ranks]).astype(float)
    exchange = np.stack([rank["communication"] for rank in ranks]).astype(float)
    if not exchange.any():
        return None
    wall = np.mean([rank["duration"] - rank["eval"] for rank in ranks], axis=0)
    transfer = exchange.min(axis=0)
    rest = np.maximum(wall - own.max(axis=0), 0.0)
    loading = np.stack([rank["data_loading"] for rank in ranks])

    def step_ms(work: Floats, beside: Floats) -> float:
        return float((work.max(axis=0) + beside).mean()) / 1e6

    replayed = step_ms(own, rest)
    equal = np.broadcast_to(own.mean(axis=0), own.shape)
    found = [
        ("unequal_ranks", "", step_ms(equal, rest), 0.0),
        ("data_loading", "", step_ms(own - loading, rest), 0.0),
        ("communication", "", step_ms(own, np.maximum(rest - transfer, 0.0)), 0.0),
    ]
    at = {int(rank["rank"][0]): i for i, rank in enumerate(ranks)}
    some = [[rank] for rank in slow] + ([list(slow)] if len(slow) > 1 else [])
    for removed in some:
        rows = [at[rank] for rank in removed]
        usual = np.median(np.delete(own, [at[rank] for rank in slow], axis=0), axis=0)
        work = own.copy()
        work[rows] = np.minimum(own[rows], usual)
        kind = "rank" if len(removed) == 1 else "ranks"
        name = f"{kind} {', '.join(map(str, removed))}"
        ratio = float(np.median(own[rows[0]]) / max(float(np.median(usual)), 1.0))
        found.append((kind, name, step_ms(work, rest), ratio))
    ideal = step_ms(equal, np.maximum(rest - transfer + np.median(transfer), 0.0))
    causes = [Cause(kind, name, ms, replayed / ms if ms else 1.0, ratio) for kind, name, ms, ratio in found]
    return WhatIf(
        workers=len(ranks),
        recorded_ms=float(wall.mean()) / 1e6,
        step_ms=replayed,
        ideal_ms=ideal,
        slowdown=replayed / ideal if ideal else 1.0,
        causes=sorted(causes, key=lambda cause: cause.step_ms),
        by_operation={},
        by_stage={},
        by_replica={},
    )
