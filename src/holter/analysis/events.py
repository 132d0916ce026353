"""Reads the details of table `events`, which are JSON texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.schema.table import Table


class EventRow(TypedDict):
    """One row of table `events`."""

    time: int
    rank: int
    kind: str


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


def framework(events: Table | None) -> Mapping[str, Any] | None:
    """Return the facts of the framework that trains: the trainer that counts the steps, else the first.

    The device is the first that a framework reports, because a trainer on top of another one knows none.
    """
    found = [detail for _, detail in details(events, "framework")]
    if not found:
        return None
    owner = next((one for one in found if one.get("owns_steps")), {})
    device = next((str(one["device"]) for one in found if one.get("device")), None)
    return {**found[0], **owner, "device": device}
