"""How often an agent reads its orders and writes its heartbeat: rarely where thousands do in one bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holter.store.place import LocalPlace

if TYPE_CHECKING:
    from holter.store.job import JobFolder
    from holter.store.place import Place

ORDERS_S = 0.4
"""Less than a poll of the spool, because a user who orders a window waits for it."""
HEARTBEAT_S = 4.0
LONGEST_S = 12.0
"""A node counts as lost when it is silent for 30 s."""
MANY_NODES = 64
"""From so many nodes on, the requests of all nodes together stay as many until `LONGEST_S` is reached."""


class Periods(NamedTuple):
    """Seconds from one time to the next."""

    orders_s: float
    heartbeat_s: float


def periods(place: Place, nodes: int | None) -> Periods:
    """Return the periods for one of `nodes` agents of a job; None if their number is unknown."""
    if isinstance(place, LocalPlace) or nodes is None or nodes <= MANY_NODES:
        return Periods(ORDERS_S, HEARTBEAT_S)
    factor = nodes / MANY_NODES
    return Periods(min(factor, LONGEST_S), min(HEARTBEAT_S * factor, LONGEST_S))


def periods_of(folder: JobFolder) -> Periods:
    """Return the periods for an agent of a job, whose manifest says how many nodes there are."""
    if isinstance(folder.place, LocalPlace):
        return periods(folder.place, None)
    nodes = (folder.manifest().get("launch") or {}).get("nodes")
    return periods(folder.place, nodes if isinstance(nodes, int) else None)
