"""Steps of ranks that wait for one another."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import START

from holter.rules import Job
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table


def synchronous(own_ms: np.ndarray, *, ranks_per_node: int = 8, skew_ms: dict[str, float] | None = None):
    """Make steps of ranks that wait for the slowest one; `own_ms` is ranks by steps."""
    own = np.round(own_ms * 1e6).astype(np.int64)
    wall = own.max(axis=0) + 1_000_000
    begin = START + np.concatenate([[0], np.cumsum(wall)[:-1]])
    ranks, count = own.shape
    zero = np.zeros(ranks * count, dtype=np.int64)
    node = np.repeat([f"n{r // ranks_per_node}" for r in range(ranks)], count).astype(object)
    shift = np.array([round((skew_ms or {}).get(n, 0.0) * 1e6) for n in node])
    columns = dict.fromkeys(BREAKDOWN, zero) | {
        "time": np.tile(begin, ranks) + shift,
        "duration": np.tile(wall, ranks),
        "rank": np.repeat(np.arange(ranks, dtype=np.int32), count),
        "step": np.tile(np.arange(count, dtype=np.int32), ranks),
        "mode": np.full(ranks * count, "train", dtype=object),
        "forward": own.ravel(),
        "communication": (wall - own).ravel(),
        "compile": zero,
        "node": node,
    }
    return Table(columns)


def noisy(generator, ranks: int, steps: int, noise: float = 0.05) -> np.ndarray:
    return 100 * np.abs(generator.normal(1.0, noise, (ranks, steps)))


WARM = Job(start=START, first_step=START, warm=dict.fromkeys(range(512), START))
