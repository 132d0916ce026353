"""Finds slow ranks of a synchronous training by their own work; all ranks have equally long steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.slow_group import ranks_text, slow_group
from holter.analysis.steps.spread import spread
from holter.analysis.steps.warmup import by_rank
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

EXCESS = 0.10
"""A straggler's own work takes longer than that of the others by at least this share."""
SLOW_SHARE = 0.6
"""A straggler is slower in at least this share of the steps."""
COST = 0.05
"""A straggler costs at least this share of the step."""
MIN_STEPS = 20
MANY_RANKS = 8
"""From so many ranks on, the spread between them is known well enough to ask for more:"""
MIN_DEVIATIONS = 4.0
"""its own work lies so many median absolute deviations above the others'."""

_NOT_OWN = ("communication", "eval", "checkpoint")


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that the others wait for. Times are medians per step, ms."""

    rank: int
    node: str
    own_ms: float
    """Its own work: the step without communication, evaluation and checkpoints."""
    others_ms: float
    """Median own work of the ranks that are not slow."""
    excess: float
    """own / others - 1."""
    slow_share: float
    """Share of the steps in which it is clearly slower than the others."""
    cost: float
    """Share of the step that would be saved if it were as fast as the others."""
    part: str
    """The part of the step that most of its extra time is in."""
    part_ms: float
    """Extra time in that part."""
    waiting_ms: float
    """Extra time of the other ranks in communication."""


def stragglers(steps: Table, *, excess: float = EXCESS, min_steps: int = MIN_STEPS) -> list[Straggler]:
    """Find the ranks whose own work is slower than that of the others, the costliest first.

    A rank is a straggler if its own work exceeds the others' by more than `excess`, clearly so in most steps,
    if that lengthens the step, and if the others spend more time in communication, where they wait for it.
    Up to half of the ranks, such as those of a node, may be slow alike; each is compared with the rest.

    Args:
        steps: Table `steps`, steady state; all ranks must be comparable.
        excess: Least own work beyond the others', as a share of theirs.
        min_steps: Steps that all ranks must have in common.
    """
    ranks = in_step(steps, min_steps)
    if not ranks:
        return []
    own = np.stack([own_work(rank) for rank in ranks]) / 1e6
    waiting = np.stack([rank["communication"] for rank in ranks]) / 1e6
    wall = float(np.median([rank["duration"] for rank in ranks])) / 1e6
    medians = np.median(own, axis=1)
    together = slow_group(medians, excess)
    slow_ones = together.members if together else np.zeros(len(ranks), bool)
    usual_ones = medians[~slow_ones]
    middle = float(np.median(usual_ones))
    deviation = spread(usual_ones, middle)
    found = []
    for i, rank in enumerate(ranks):
        others = ~slow_ones if slow_ones[i] else np.arange(len(ranks)) != i
        usual = float(np.median(medians[others]))
        # Of a thousand ranks hardly one gets further, and what follows looks at all the others' steps.
        if usual > 0 and medians[i] <= (1 + excess) * usual:
            continue
        if len(ranks) >= MANY_RANKS and medians[i] - middle < MIN_DEVIATIONS * deviation:
            continue
        rivals = np.median(own[others], axis=0)
        part, part_ms = _blamed(ranks, i, np.flatnonzero(others).tolist())
        straggler = Straggler(
            rank=int(rank["rank"][0]),
            node=str(rank["node"][0]),
            own_ms=float(medians[i]),
            others_ms=usual,
            excess=float(medians[i]) / usual - 1 if usual > 0 else 0.0,
            slow_share=float(np.mean(own[i] > (1 + excess / 2) * rivals)),
            cost=(float(medians[i]) - usual) / wall if wall > 0 else 0.0,
            waiting_ms=float(np.median(np.median(waiting[others], axis=0) - waiting[i])),
            part=part,
            part_ms=part_ms,
        )
        slow = straggler.excess > excess and straggler.slow_share >= SLOW_SHARE
        if slow and straggler.cost >= COST and straggler.waiting_ms > 0:
            found.append(straggler)
    return sorted(found, key=lambda s: -s.cost)


def slow_together(found: list[Straggler]) -> list[Straggler]:
    """Return the stragglers that cost at least half as much as the first one: a node, a stage, or one."""
    return [one for one in found if 2 * one.cost >= found[0].cost]


def place_text(group: list[Straggler]) -> str:
    """Name ranks, and their node if it is the same: `ranks 4 to 7 on node-b`."""
    nodes = {one.node for one in group}
    ranks = ranks_text([one.rank for one in group])
    return f"{ranks} on {group[0].node}" if len(nodes) == 1 and group[0].node else ranks


def in_step(steps: Table, min_steps: int) -> list[Table]:
    """Return the rows of each rank for the steps that all ranks have; empty for too few ranks or steps."""
    ranks = [_last_of_each(steps.where(rows)) for rows in by_rank(steps)]
    if len(ranks) < 2:
        return []
    common = set(ranks[0]["step"].tolist()).intersection(*(r["step"].tolist() for r in ranks[1:]))
    if len(common) < min_steps:
        return []
    numbers = np.array(sorted(common))
    return [rank.where(np.isin(rank["step"], numbers)) for rank in ranks]


def _last_of_each(rank: Table) -> Table:
    """Keep the newest row of each step number: a resumed training repeats some."""
    _, at = np.unique(rank["step"][::-1], return_index=True)
    return rank.where(rank.rows - 1 - at)


def own_work(rank: Table) -> NDArray[np.int64]:
    """Return a rank's own work in each step, ns."""
    return np.asarray(rank["duration"] - np.sum([rank[part] for part in _NOT_OWN], axis=0))


def _blamed(ranks: list[Table], i: int, others: list[int]) -> tuple[str, float]:
    """Find the part of the step in which rank number `i` exceeds the others most."""
    extra = {}
    for part in BREAKDOWN:
        if part not in _NOT_OWN:
            usual = float(np.median([float(np.median(ranks[k][part])) for k in others]))
            extra[part] = (float(np.median(ranks[i][part])) - usual) / 1e6
    part = max(extra, key=lambda name: extra[name])
    return part, extra[part]
