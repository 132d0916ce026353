"""LoaderWorkerImbalance: one data-loader worker is slower than the others."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class


@rule_class
class LoaderWorkerImbalance(Rule):
    """One worker takes far longer per batch than the others; batches keep their order, so all wait for it."""

    reads = ("steps", "spans/fetch")
    formula = (
        "median fetch time of a worker > ratio x the median of all workers' medians, with >= min_fetches "
        "fetches each"
    )
    advice = "Give each worker files of the same size, shard by size, or set in_order=False on the loader."
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(seconds=120.0)

    ratio: float = parameter(2.0, above=1, aliases=("threshold",))
    """Largest allowed fetch time, as a multiple of the other workers' time."""
    min_fetches: int = parameter(20, low=1, unit="fetches")
    """Workers with fewer fetches within two minutes are not judged."""
    min_wait: float = parameter(5.0, low=0, high=100, unit="%")
    """A smaller share of time spent waiting for data is a note at most; below a fifth nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the workers of each rank with one another."""
        if window.unchanged("steps"):
            return
        steps = window.steady
        waits = {int(r): _waited(steps.where(steps["rank"] == r)) for r in np.unique(steps["rank"])}
        waits = {rank: share for rank, share in waits.items() if share >= self.min_wait / 5}
        if steps.rows and not waits:
            # Without a wait, a slow worker does not matter; and there are many fetches.
            return window.judged(steps.rows)
        fetches = window.spans_of("fetch")
        fetches = fetches.where(fetches["worker"] >= 0)
        if not fetches.rows:
            return window.insufficient("no_input", "no data-loader worker was recorded")
        for rank in np.unique(fetches["rank"]).tolist():
            mine = fetches.where(fetches["rank"] == rank)
            workers, counts = np.unique(mine["worker"], return_counts=True)
            workers = workers[counts >= self.min_fetches]
            if len(workers) < 2:
                if counts.size < 2:
                    window.insufficient("no_match", "one worker; the rule compares two or more", 1, 2)
                else:
                    have = int(np.sort(counts)[-2])
                    window.too_few("too few fetches of each worker", have, self.min_fetches)
                continue
            window.judged(int(counts.sum()))
            waited = waits.get(rank, 0.0)
            medians = {int(w): float(np.median(mine["duration"][mine["worker"] == w])) for w in workers}
            usual = float(np.median(list(medians.values())))
            slowest = max(medians, key=lambda w: (medians[w], -w))
            if medians[slowest] <= self.ratio * usual or waited < self.min_wait / 5:
                continue
            yield self.issue(
                f"worker {slowest} of rank {rank} takes {medians[slowest] / 1e6:.3g} ms per batch, the "
                f"others take {usual / 1e6:.3g} ms",
                severity="warning" if waited >= self.min_wait else "info",
                rank=rank,
                node=str(mine["node"][0]) or None,
                time_start=int(mine["time"].min()),
                time_end=int((mine["time"] + mine["duration"]).max()),
                evidence={
                    "worker": slowest,
                    "fetch_ms": medians[slowest] / 1e6,
                    "others_ms": usual / 1e6,
                    "workers": len(medians),
                    "waiting_pct": waited,
                },
            )


def _waited(steps: Table) -> float:
    """Return data loading as percent of the steps; 0 without steps."""
    wall = int(steps["duration"].sum())
    return 100.0 * int(steps["data_loading"].sum()) / wall if wall else 0.0
