"""The tables of a merged timeline, in the order of time: metrics, phases, operators, kernels, arrows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

TABLES: dict[str, str | None] = {
    "samples": None,
    # Scalars are no stretches of time; sampled stacks stand for others' time; steps of a trace are
    # annotations of it already.
    "spans": "phase NOT IN ('scalar', 'stack', 'loop_stack') "
    "AND NOT (phase = 'step' AND name LIKE 'ProfilerStep#%')",
    "operators": None,
    "launches": None,
    "syncs": None,
    "kernels": None,
    "memory_operations": None,
    "counters": None,
    "flows": None,
}
"""The tables, each with the condition for its rows."""

NEEDS = "samples, spans or events of a trace"


def read(trial: Trial, chosen: ExportSelection) -> Iterator[dict[str, Table]]:
    """Read the tables together in time ranges; a call that launched and waited counts as a launch."""
    for tables in chosen.stretches(trial, TABLES):
        launches, syncs = tables["launches"], tables["syncs"]
        if launches.rows and syncs.rows:
            names = ("time", "thread", "rank", "name")
            launched, waited = set(columns(launches, *names)), columns(syncs, *names)
            tables["syncs"] = syncs.where(np.array([call not in launched for call in waited], dtype=bool))
        yield tables


def columns(table: Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return an iterator over the rows of some columns."""
    return zip(*(table[name].tolist() for name in names), strict=True)


def first_ns(trial: Trial, chosen: ExportSelection) -> int:
    """Return the time of the first row according to the files, ns since the epoch; 0 without rows."""
    first = min((group[0] for table in TABLES for group in trial.groups(table)), default=0)
    return max(first, chosen.start_ns or first)


def span_names(spans: Table) -> list[str]:
    """Return the names of spans: the phase and its number."""
    return [f"{phase}: {name}" if name else phase for phase, name in columns(spans, "phase", "name")]


@lru_cache(maxsize=65536)
def details(text: str) -> dict[str, Any]:
    """Return the JSON object that a detail holds; another text stands under the key `detail`."""
    try:
        found = msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"detail": text}
