"""Analyzes timelines of Horovod: time of negotiation (waiting for the last rank) and of exchange."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.device.work import matching
from holter.analysis.intervals import union

if TYPE_CHECKING:
    from holter.analysis.host.operator_tree import Host

_NEGOTIATING = re.compile(r"^NEGOTIATE_")
_MOVING = re.compile(
    r"^(NCCL_|MPI_|GLOO_|CCL_|ADASUM_)?(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)$"
)


class Horovod(NamedTuple):
    """Shares of the timeline, percent; tensors that overlap count once."""

    negotiating_pct: float
    """At least one tensor is ready on some rank and not on all."""
    moving_pct: float
    """At least one tensor is being exchanged."""
    tensors: int
    """Negotiations."""


def horovod(tree: Host) -> Horovod | None:
    """Analyze a timeline of Horovod; None for any other trace."""
    names = [tree.names[i] for i in tree.name.tolist()]
    found = []
    for pattern in (_NEGOTIATING, _MOVING):
        rows = matching(names, pattern.match)
        found.append((union(tree.begin[rows], tree.end[rows]).length, int(rows.sum())))
    (negotiating, count), (moving, _) = found
    window = int(tree.end.max() - tree.begin.min()) if len(tree.begin) else 0
    if not count or not window:
        return None
    return Horovod(100.0 * negotiating / window, 100.0 * moving / window, count)
