"""Compares imported traces by name: the kernels and operators that appeared, disappeared or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast

import numpy as np

from holter.analysis.device.startup import without_startup
from holter.analysis.device.time_breakdown import time_breakdown
from holter.analysis.device.trace_diff import trace_diff
from holter.analysis.device.work import COPIES, matching
from holter.analysis.verdict.evidence import short_name
from holter.schema.table import NameCodes, Table
from holter.views.document.trace_description import is_trace
from holter.views.wording import milliseconds, plain_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.schema.table import Row
    from holter.store.trial import Trial

MOST = 50
"""Names of each side in the document, those with the largest difference of time."""
_NAMED = 3
"""Names in a sentence."""
_WORTH = 0.005
"""A sentence names what differs by at least this share of the device's busy time."""
_COLUMNS = {
    "kernels": ("time", "duration", "rank", "device", "stream", "name", "kind", "correlation"),
    "memory_operations": ("time", "duration", "rank", "device", "stream", "kind", "correlation"),
    "operators": ("time", "duration", "rank", "name", "kind"),
    "spans": ("time", "duration", "rank", "phase"),
}
_WHERE = {"operators": "kind IN ('operator', 'annotation')", "spans": "phase = 'step'"}
_Change = Literal["added", "deleted", "increased", "decreased", "unchanged"]


class ComparedName(TypedDict):
    """A kernel, copy or operator before and after; calls and time are per step if both traces have steps."""

    name: str
    side: Literal["device", "host"]
    change: _Change
    """By the number of calls."""
    calls_before: float
    calls_after: float
    ms_before: float
    ms_after: float


class TraceChange(TypedDict):
    """The change of the work that two traces hold; of several ranks the mean."""

    per: Literal["step", "trace"]
    busy_ms_before: float | None
    """Time in which a device worked; None without work of a device."""
    busy_ms_after: float | None
    names: list[ComparedName]
    """The largest difference of time first."""


class TraceWork(NamedTuple):
    """What a comparison needs of a trace: its steady steps, or all of it without steps."""

    tables: dict[str, Table]
    steps: int


def trace_work(trial: Trial) -> TraceWork | None:
    """Read the work of an imported trace; None for a recorded job."""
    if not is_trace(trial):
        return None
    read = {
        name: trial.table(name, columns=columns, where=_WHERE.get(name)) for name, columns in _COLUMNS.items()
    }
    tables, _ = without_startup(read)
    steps = tables["spans"]
    bounds: dict[int, tuple[int, int]] = {}
    for rank in np.unique(steps["rank"]).tolist():
        mine = steps.where(steps["rank"] == rank)
        bounds[rank] = int(mine["time"].min()), int((mine["time"] + mine["duration"]).max())
    most = int(np.unique(steps["rank"], return_counts=True)[1].max()) if steps.rows else 0
    return TraceWork({name: _plain(name, _within(table, bounds)) for name, table in tables.items()}, most)


def _within(rows: Table, bounds: Mapping[int, tuple[int, int]]) -> Table:
    """Keep what begins in the steps of its rank; all of a rank without steps."""
    keep = np.ones(rows.rows, bool)
    for rank, (begin, end) in bounds.items():
        keep &= (rows["rank"] != rank) | ((rows["time"] >= begin) & (rows["time"] < end))
    return rows.where(keep)


def _plain(table: str, rows: Table) -> Table:
    """Write names as people read them, and leave the marks of steps out."""
    if table == "operators":
        return rows.where(~matching(rows["name"], lambda name: name.startswith("ProfilerStep")))
    if table != "kernels":
        return rows
    names = NameCodes()
    codes = names.codes(rows["name"])
    plain = np.array([plain_kernel(name) for name in names], object)
    return Table({**rows.columns, "name": plain[codes] if len(plain) else rows["name"]})


def trace_change(before: TraceWork | None, after: TraceWork | None) -> TraceChange | None:
    """Compare two traces; None unless both jobs are traces."""
    if before is None or after is None:
        return None
    steps = (before.steps, after.steps) if before.steps and after.steps else (1, 1)
    names: list[ComparedName] = []
    for side in ("device", "host"):
        found = [
            _compared(row, steps) for row in trace_diff(before.tables, after.tables, side=side).to_rows()
        ]
        names += sorted(found, key=lambda one: -abs(_extra(one)))[:MOST]
    return {
        "per": "step" if before.steps and after.steps else "trace",
        "busy_ms_before": _busy_ms(before, steps[0]),
        "busy_ms_after": _busy_ms(after, steps[1]),
        "names": names,
    }


def _compared(row: Row, steps: tuple[int, int]) -> ComparedName:
    calls = row["calls_before"] / steps[0], row["calls_after"] / steps[1]
    more = "increased" if calls[1] > calls[0] else "decreased" if calls[1] < calls[0] else "unchanged"
    return {
        "name": row["name"],
        "side": row["side"],
        "change": row["change"] if row["change"] in ("added", "deleted") else cast("_Change", more),
        "calls_before": calls[0],
        "calls_after": calls[1],
        "ms_before": row["ns_before"] / steps[0] / 1e6,
        "ms_after": row["ns_after"] / steps[1] / 1e6,
    }


def _extra(one: ComparedName) -> float:
    return one["ms_after"] - one["ms_before"]


def _busy_ms(work: TraceWork, steps: int) -> float | None:
    parts = time_breakdown(work.tables)
    return sum(part.busy_ns for part in parts) / len(parts) / steps / 1e6 if parts else None


def trace_lines(change: TraceChange) -> Iterator[str]:
    """Describe the change in a few lines: the device's busy time, then kernels, then operators."""
    before, after = change["busy_ms_before"], change["busy_ms_after"]
    whole = "step" if change["per"] == "step" else "trace"
    if before is not None and after is not None:
        yield f"accelerator busy: {milliseconds(before)} per {whole} before, {milliseconds(after)} after"
    for side, noun in (("device", "kernels"), ("host", "operators")):
        rows = [one for one in change["names"] if one["side"] == side]
        least = (
            _WORTH * max(sum(one[key] for one in rows) for key in ("ms_before", "ms_after")) if rows else 0.0
        )
        rows = [one for one in rows if abs(_extra(one)) >= least]
        for verb, which in (
            ("disappeared", [one for one in rows if one["change"] == "deleted"]),
            ("appeared", [one for one in rows if one["change"] == "added"]),
            ("changed", [one for one in rows if one["change"] not in ("added", "deleted")]),
        ):
            if which:
                more = f", and {len(which) - _NAMED} more" if len(which) > _NAMED else ""
                yield f"{noun} {verb}: {'; '.join(map(_name_text, which[:_NAMED]))}{more}"


def _name_text(one: ComparedName) -> str:
    before, after = (f"{calls:,.4g}" for calls in (one["calls_before"], one["calls_after"]))
    times = milliseconds(one["ms_before"]), milliseconds(one["ms_after"])
    if one["change"] == "deleted":
        told = f"{before} x, {times[0]}"
    elif one["change"] == "added":
        told = f"{after} x, {times[1]}"
    else:
        calls = f"{before} x" if before == after else f"{before} → {after} x"
        told = f"{calls}, {times[0]} → {times[1]}"
    return f"{short_name(COPIES.get(one['name'], one['name']))} ({told})"
