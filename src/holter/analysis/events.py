"""Reads the details of table `events`, which are JSON texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.schema.table import Table


_LEAST_TIMES = 5
"""Fewer steps of which the device was timed say nothing."""


class EventRow(TypedDict):
    """One row of table `events`."""

    time: int
    rank: int
    kind: str
    node: NotRequired[str]


def details(events: Table | None, *kinds: str) -> Iterator[tuple[EventRow, Mapping[str, Any]]]:
    """Yield the events of some kinds by time, each with its details; leaves out unreadable ones."""
    if events is None or not events.rows:
        return
    for row in events.where(np.isin(events["kind"].astype(str), kinds)).sorted("time").to_rows():
        try:
            detail = json.loads(row["detail"])
        except ValueError:
            continue
        if isinstance(detail, dict):
            yield cast("EventRow", row), detail


def device_ns(events: Table | None, *, least: int = 1) -> dict[int, int]:
    """Return how long the device of each rank computes a step, by its completion times.

    Ranks with fewer than `least` of them are left out.
    """
    return {
        row["rank"]: detail["median_ns"]
        for row, detail in details(events, "device_time")
        if detail.get("steps", 0) >= least and isinstance(detail.get("median_ns"), int)
    }


def device_ms(events: Table | None) -> float | None:
    """Return how long a device computes a step; None without enough completion times.

    Of several ranks the slowest counts, because the others wait for it.
    """
    return max((taken / 1e6 for taken in device_ns(events, least=_LEAST_TIMES).values()), default=None)


def framework(events: Table | None) -> Mapping[str, Any] | None:
    """Return the facts of the framework that trains: the one that counts the steps, else the first.

    A trainer on top of another framework knows no device; then it is the first that a framework reports.
    """
    found = [detail for _, detail in details(events, "framework")]
    if not found:
        return None
    owners = [detail.get("owner") for _, detail in details(events, "owner")]
    if owners and not owners[-1]:  # a framework has followed whose steps need no owner
        trains = [one for one in found if one.get("name") not in owners]
    else:
        trains = [one for one in found if one.get("name") in owners[-1:]]
    chosen = (trains or found)[0]
    devices = (str(one["device"]) for one in (chosen, *found) if one.get("device"))
    return {**chosen, "device": next(devices, None)}
