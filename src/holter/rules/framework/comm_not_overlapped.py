"""CommNotOverlapped: communication is exposed: computation does not hide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.intervals import difference, union
from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.patterns.profiled import LOOKBACK_S, Profiled, profiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MIB = 2**20
_MANY = 50
_BUS = {"allreduce": 2.0, "allgather": 1.0, "reducescatter": 1.0}
"""Times (n - 1) / n, the bytes over a link for each byte of the result, of `n` ranks in a ring."""


class _Exposed(NamedTuple):
    one: Profiled
    transfer_pct: float
    overlap_pct: float
    waiting: float
    """Share of the exposed time that is waiting for other ranks."""
    exposed_ms: float


@rule_class
class CommNotOverlapped(Rule):
    """Data moves between ranks while a device computes nothing, for a large share of the step time."""

    reads = ("kernels", "memory_operations", "steps")
    formula = (
        "median over steps of (communication outside computation - waiting for slower ranks) / step >= "
        "info, warning, or critical"
    )
    advice = (
        "Use larger gradient buckets, FSDP prefetching, gradient accumulation, or hierarchical or "
        "compressed collectives."
    )
    packs = ("deep_trace", "distributed")
    lookback = Lookback(seconds=LOOKBACK_S)

    info: float | None = parameter(5.0, above=0, high=100, unit="%")
    """Share of the step from which the rule reports a note."""
    warning: float | None = parameter(10.0, above=0, high=100, unit="%")
    """Share of the step that is a warning."""
    critical: float | None = parameter(25.0, above=0, high=100, unit="%")
    """Share of the step that is critical."""
    min_steps: int = parameter(5, low=1, unit="steps")
    """Minimum number of profiled steps; fewer are not judged."""
    link_gb_s: float | None = parameter(None, above=0, unit="GB/s")
    """Bandwidth of a link; when it is set and less than half is reached, the link is named as the cause."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each device, and report the worst."""
        found = profiled(window, self.min_steps)
        if not found:
            return
        collectives = [one.kernels.where(one.kernels["kind"] == "communication") for one in found]
        if not any(rows.rows for rows in collectives):
            return window.insufficient("no_match", "no collective ran in the profiled steps")
        waits = waiting(collectives)
        measured = []
        for one, rows, wait in zip(found, collectives, waits, strict=True):
            if rows.rows:
                window.judged(len(one.begin))
                measured.append(_exposed(one, rows, wait))
        window.details = {
            "ranks": {
                str(m.one.rank): {"transfer_pct": m.transfer_pct, "overlap_pct": m.overlap_pct}
                for m in measured[:64]
            }
        }
        # StragglerRank judges kernels that wait for a slower rank.
        guilty = [m for m in measured if m.waiting <= 0.5]
        if not guilty:
            return
        worst = max(guilty, key=lambda m: (m.transfer_pct, -m.one.rank))
        severity = grade(worst.transfer_pct, info=self.info, warning=self.warning, critical=self.critical)
        if severity is not None:
            rows = collectives[found.index(worst.one)]
            code, facts = self._cause(worst.one, rows)
            yield self.issue(
                f"exposed communication takes {worst.transfer_pct:.0f} % of the steps of rank "
                f"{worst.one.rank}",
                severity=severity,
                code=code,
                time_start=int(worst.one.begin[0]),
                time_end=int(worst.one.end[-1]),
                evidence={
                    "rank": worst.one.rank,
                    "transfer_pct": worst.transfer_pct,
                    "overlap_pct": worst.overlap_pct,
                    "exposed_ms_per_step": worst.exposed_ms,
                    "waiting_share_of_exposed": worst.waiting,
                    "profiled_steps": len(worst.one.begin),
                    **facts,
                },
            )

    def _cause(self, one: Profiled, rows: Table) -> tuple[str, dict[str, float]]:
        known = rows.where((rows["bytes"] > 0) & (rows["duration"] > 0))
        per_step = rows.rows / len(one.begin)
        facts = {"collectives_per_step": per_step}
        if not known.rows:
            return "exposed", facts
        facts["median_bytes"] = float(np.median(known["bytes"]))
        size = np.maximum(2, known["group_size"])
        rings = np.array([_BUS.get(_word(name), 0.0) for name in known["collective"].tolist()])
        factors = np.where(rings > 0, rings * (size - 1) / size, 1.0)
        # Bytes per ns are GB/s.
        facts["bus_gb_s"] = float(np.median(known["bytes"] / known["duration"] * factors))
        if facts["median_bytes"] < _MIB and per_step > _MANY:
            return "small_messages", facts
        slow = self.link_gb_s is not None and facts["bus_gb_s"] < 0.5 * self.link_gb_s
        return "slow_link" if slow else "exposed", facts


def _exposed(one: Profiled, rows: Table, wait: NDArray[np.int64]) -> _Exposed:
    all_ = union(rows["time"], rows["time"] + rows["duration"])
    open_ = difference(all_, one.kind("compute"))
    # A rank that enters early waits first and transfers last.
    moving = difference(open_, union(rows["time"], rows["time"] + wait))
    exposed, transfer = one.within(open_), one.within(moving)
    total, every = int(exposed.sum()), int(one.within(all_).sum())
    return _Exposed(
        one,
        100.0 * float(np.median(transfer / one.wall)),
        100.0 * (1.0 - total / every) if every else 100.0,
        1.0 - int(transfer.sum()) / total if total else 0.0,
        float(np.median(exposed)) / 1e6,
    )


def _word(collective: str) -> str:
    return collective.casefold().replace("_", "").replace("-", "")


def waiting(collectives: list[Table]) -> list[NDArray[np.int64]]:
    """Return how long each member waited for the others in each collective, in ns.

    The member that enters last only transfers, so its time is the transfer time of all: differences of times
    need no common clock. A collective recorded by one member only has no waiting time.

    Args:
        collectives: The kernels of kind communication of each member, a device of a rank.
    """
    member = np.concatenate([np.full(rows.rows, i) for i, rows in enumerate(collectives)])
    columns = {
        name: np.concatenate([rows[name] for rows in collectives])
        for name in ("time", "duration", "step", "process_group", "collective")
    }
    texts = [
        np.unique(columns[name].astype(str), return_inverse=True)[1]
        for name in ("process_group", "collective")
    ]
    kind = np.unique(np.stack([columns["step"], *texts]), axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((columns["time"], kind, member))
    same = np.zeros(len(order), dtype=bool)
    same[1:] = (kind[order][1:] == kind[order][:-1]) & (member[order][1:] == member[order][:-1])
    place = np.arange(len(order))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = place - np.maximum.accumulate(np.where(same, 0, place))
    which = np.unique(np.stack([kind, number]), axis=1, return_inverse=True)[1].reshape(-1)
    least = np.full(int(which.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, which, columns["duration"])
    wait = columns["duration"] - least[which]
    edges = np.cumsum([rows.rows for rows in collectives])[:-1]
    return [np.asarray(part, dtype=np.int64) for part in np.split(wait, edges)]
