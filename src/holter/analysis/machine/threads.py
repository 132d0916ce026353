"""How much of the time each training thread runs, waits for a core, or is blocked: in all, and by phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.machine.utilization import between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

LOOP = "training_loop"
MIN_LOOKS = 20
"""With fewer readings inside a phase its shares are unknown."""
_RANK = "rank "
_READ = ("thread.running", "thread.waiting", "thread.blocked")


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """One training thread in one phase. The shares add up to 100."""

    rank: int
    phase: str
    """`training_loop`, or a phase of the step; `other` outside all of them."""
    running_pct: float
    waiting_for_core_pct: float
    blocked_pct: float
    looks: int
    """Readings behind the shares."""


def thread_shares(samples: Table, start_ns: int | None, end_ns: int | None) -> list[ThreadShares]:
    """Return the shares of each rank between two times: of the whole loop first, then of its phases.

    The kernel counts how long a thread runs and waits for a core: that gives the shares of the loop. Those of
    a phase are from readings of the thread's state. The kernel does not say how much of a phase a thread that
    is ready to run waits: it is the part of the interval in which the reading lies.
    """
    mine = between(samples.where(np.isin(samples["metric"], _READ)), start_ns, end_ns)
    metric, device = mine["metric"].astype(str), mine["device"].astype(str)
    ranks = sorted({int(name[len(_RANK) :]) for name in set(device[metric == "thread.running"].tolist())})
    found = []
    for rank in ranks:
        run = _by_time(mine, (metric == "thread.running") & (device == f"{_RANK}{rank}"))
        wait = _by_time(mine, (metric == "thread.waiting") & (device == f"{_RANK}{rank}"))
        both = [(run[at], wait[at]) for at in run.keys() & wait.keys()]
        if not both:
            continue
        running, waiting = (float(np.mean(one)) for one in zip(*both, strict=True))
        found.append(_shares(rank, LOOP, running, waiting, len(both)))
        of_rank = (metric == "thread.blocked") & np.char.startswith(device, f"{_RANK}{rank} ")
        for name in sorted(set(device[of_rank].tolist())):
            looks = _by_time(mine, of_rank & (device == name))
            if len(looks) < MIN_LOOKS:
                continue
            ready = [at for at, blocked in looks.items() if not blocked]
            parts = [wait[at] / (run[at] + wait[at]) for at in ready if run.get(at, 0.0) + wait.get(at, 0.0)]
            share = 100.0 * len(ready) / len(looks)
            waiting = share * float(np.mean(parts)) if parts else 0.0
            phase = name.removeprefix(f"{_RANK}{rank} ")
            found.append(_shares(rank, phase, share - waiting, waiting, len(looks)))
    return found


def _by_time(samples: Table, mask: NDArray[np.bool_]) -> dict[int, float]:
    """Return time → value. All readings of a round have one time."""
    return dict(zip(samples["time"][mask].tolist(), samples["value"][mask].tolist(), strict=True))


def _shares(rank: int, phase: str, running: float, waiting: float, looks: int) -> ThreadShares:
    running = min(running, 100.0)
    waiting = min(waiting, 100.0 - running)
    return ThreadShares(rank, phase, running, waiting, 100.0 - running - waiting, looks)
