"""The details of events, which are JSON that a recorder or an agent wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules import Table


def details_of(events: Table, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the events of a kind in the order of time, each with its details; invalid ones are left out."""
    for row in events.where(events["kind"] == kind).sorted("time", "rank", "detail").to_rows():
        try:
            detail = json.loads(row["detail"] or "{}")
        except ValueError:
            continue
        if isinstance(detail, dict):
            yield row, detail
