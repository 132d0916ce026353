"""Deletes old jobs by age, number or size; never a running one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.store.job import jobs

if TYPE_CHECKING:
    from holter.store.job import JobFolder

DAY_NS = 24 * 3600 * 10**9
ABANDONED_NS = DAY_NS
"""A job without an end whose folder is unchanged for this long is dead."""


@dataclass(frozen=True)
class Pruned:
    """A job that was deleted, or would be in a dry run."""

    name: str
    bytes: int
    why: str


def prune(
    store_url: str,
    *,
    older_than_ns: int | None = None,
    keep: int | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
    now_ns: int | None = None,
) -> list[Pruned]:
    """Delete finished jobs that any of the limits does not allow, oldest first.

    Args:
        store_url: The store.
        older_than_ns: Delete jobs that ended longer ago than this.
        keep: Number of the newest jobs to keep.
        max_bytes: Delete the oldest until the store takes no more than this; running jobs count too.
        dry_run: Delete nothing, and return the jobs that would be deleted.
        now_ns: The time, nanoseconds since the epoch; by default that of the clock.

    Raises:
        ValueError: No limit is given, or one is negative.
        OSError: A job cannot be deleted.
    """
    limits = {"older_than_ns": older_than_ns, "keep": keep, "max_bytes": max_bytes}
    if all(limit is None for limit in limits.values()):
        raise ValueError(f"nothing to prune by; give at least one of: {', '.join(limits)}")
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ValueError(f"{name} is {limit}; it must not be negative")
    now = time.time_ns() if now_ns is None else now_ns
    found = jobs(store_url)
    sizes = {job.name: sum(max(0, e.size) for e in job.place.files()) for job in found}
    total = sum(sizes.values())
    pruned: list[Pruned] = []
    for position in range(len(found) - 1, -1, -1):
        job = found[position]
        ended = _ended(job, now)
        if ended is None:
            continue
        if older_than_ns is not None and now - ended > older_than_ns:
            why = f"ended {(now - ended) / DAY_NS:.1f} days ago"
        elif keep is not None and position >= keep:
            why = f"{keep} newer jobs are kept"
        elif max_bytes is not None and total > max_bytes:
            why = f"the store took {total} bytes of {max_bytes}"
        else:
            continue
        if not dry_run:
            job.place.destroy()
        total -= sizes[job.name]
        pruned.append(Pruned(job.name, sizes[job.name], why))
    return pruned


def _ended(job: JobFolder, now: int) -> int | None:
    """Return when a job ended, `None` while it may run."""
    manifest = job.manifest()
    end = manifest.get("end")
    if isinstance(end, int):
        return end
    changed = job.place.changed_ns()
    return changed if now - changed > ABANDONED_NS else None
