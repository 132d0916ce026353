"""Compares the step times of two jobs: the ratio and its confidence interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from holter.analysis.steps.warmup import steady
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

FEWEST = 20
"""Steady steps that each job needs for a comparison."""
_MOST = 5000
"""Longer series are averaged down to about this many values."""
_DRAWS = 2000
TIMED = ("time", "duration", "rank", "step", "compile")
"""Columns of table `steps` that `step_times` reads."""
Statistic = Literal["median", "mean"]


@dataclass(frozen=True, slots=True)
class StepTimeChange:
    """Step time of one job over that of another; `low` to `high` is its 95 % interval."""

    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float
    steps: tuple[int, int]
    """Steady steps of each."""

    @property
    def certain(self) -> bool:
        """Whether the interval excludes equal step times."""
        return self.low > 1 or self.high < 1


def judge(low: float, high: float, most: float) -> Literal["pass", "regression", "inconclusive"]:
    """Judge whether steps are slower by more than a share (0.05 = 5 %).

    Args:
        low: Low end of the ratio's interval.
        high: High end of it.
        most: The share.
    """
    if low > 1 + most:
        return "regression"
    return "pass" if high <= 1 + most else "inconclusive"


def step_times(steps: Table) -> NDArray[np.float64]:
    """Return the duration of each steady step, ms, in order: the mean of its ranks, which step together."""
    used = steps.where(steady(steps))
    if not used.rows:
        return np.empty(0)
    order = np.argsort(used["time"], kind="stable")
    # Step numbers repeat in another attempt: number and occurrence together identify a step.
    number, rank = used["step"][order].astype(np.int64), used["rank"][order].astype(np.int64)
    key = _occurrence(rank * (number.max() + 2) + number) * (number.max() + 2) + number
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    mean = np.bincount(group, used["duration"][order] / 1e6) / np.bincount(group)
    times: NDArray[np.float64] = mean[np.argsort(first, kind="stable")]
    return times


def _occurrence(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number equal keys 0, 1, 2 … in the order in which they come."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order][0] - 1))
    sizes = np.diff(np.append(starts, len(keys)))
    counted = np.empty(len(keys), np.int64)
    counted[order] = np.arange(len(keys)) - np.repeat(starts, sizes)
    return counted


def step_change(
    before: NDArray[np.float64], after: NDArray[np.float64], statistic: Statistic = "median"
) -> StepTimeChange | None:
    """Compare two series of step times; None when either has fewer than `FEWEST` steps.

    The interval is that of a moving-block bootstrap (Künsch 1989, blocks of about the cube root of the
    number of steps): neighboring steps resemble one another, and single draws would promise too much.

    Args:
        before: Durations of steady steps in order, ms.
        after: The same of the other job.
        statistic: What is compared; the mean counts rare long steps, the median does not.
    """
    if min(len(before), len(after)) < FEWEST:
        return None
    whole = np.median if statistic == "median" else np.mean
    old, new = float(whole(before)), float(whole(after))
    random = np.random.default_rng(0)
    ratios = _draws(after, statistic, random) / _draws(before, statistic, random)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return StepTimeChange(old, new, new / old, float(low), float(high), (len(before), len(after)))


def _draws(times: NDArray[np.float64], statistic: Statistic, random: np.random.Generator) -> NDArray[Any]:
    merged = -(-len(times) // _MOST)
    whole = np.median if statistic == "median" else np.mean
    if merged > 1:
        times = whole(times[: len(times) // merged * merged].reshape(-1, merged), axis=1)
    count = len(times)
    size = max(1, round(count ** (1 / 3)))
    found = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        starts = random.integers(0, count - size + 1, -(-count // size))
        found[draw] = whole(times[(starts[:, None] + np.arange(size)).ravel()[:count]])
    return found


def parts_ms(steps: Table) -> dict[str, float]:
    """Return the mean time of a steady step in each exclusive part, ms; empty without steady steps."""
    mask = steady(steps)
    return {part: float(steps[part][mask].mean()) / 1e6 for part in BREAKDOWN} if mask.any() else {}
