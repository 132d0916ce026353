"""Finds ranks that evaluate alone while all others wait for them in a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.jobs.stragglers import in_step

if TYPE_CHECKING:
    from holter.schema.table import Table

LITTLE = 0.1
"""Ranks that evaluate for less than this share of the longest time do not evaluate."""
LEAST_STEPS = 5
"""Steps that all ranks must have in common."""


class LoneEvaluation(NamedTuple):
    """What the other ranks wait for."""

    ranks: list[int]
    """Those that evaluate, not more than half of all."""
    waiting_ms: float
    """Mean over all ranks and steps, like the communication of which it is a part."""


def lone_evaluation(steps: Table) -> LoneEvaluation | None:
    """Return which ranks evaluate alone, and how long the others wait meanwhile; None if all evaluate.

    Args:
        steps: Table `steps`, steady state; all ranks must be comparable.
    """
    ranks = in_step(steps, LEAST_STEPS)
    if not ranks:
        return None
    evaluation = np.stack([rank["eval"] for rank in ranks])
    took = evaluation.sum(axis=1)
    alone = took > LITTLE * took.max()
    if not 0 < alone.sum() <= len(ranks) / 2:
        return None
    longest = evaluation[alone].max(axis=0)
    waits = np.stack([rank["communication"] for rank in ranks])[~alone]
    usual = np.median(waits, axis=1, keepdims=True)
    waited = np.clip(waits - usual, 0, longest).sum() / evaluation.size
    return LoneEvaluation([int(rank["rank"][0]) for rank in np.array(ranks, object)[alone]], waited / 1e6)
