"""Computes statistics of a part of a job: utilization, durations, and operators by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from holter.analysis.grouping import coded, of_largest, sums
from holter.analysis.intervals import times_at, times_during
from holter.analysis.jobs.stretches import inside, intervals
from holter.analysis.machine import utilization as utilized
from holter.analysis.machine.utilization import RANGES, Range, in_ranges
from holter.schema.metrics import METRICS
from holter.schema.table import Table
from holter.views.tables import Stretches, utilization_of
from holter.views.wording import meant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from holter.store.trial import Trial
    from holter.views.document.part import Part
    from holter.views.document.types.values import TableRow

_PERCENTS = (50, 95, 99)
_TIMED = "phase NOT IN ('scalar', 'stack', 'loop_stack', 'skipped')"


class RunningTimes(TypedDict):
    """What ran at some time."""

    phases: dict[str, float]
    """Shares of the longest one, which is 1."""
    names: dict[str, int]
    modes: dict[str, int]
    """Operators and modes of steps, ns."""


def utilization(
    trial: Trial, part: Part, *, by_device: bool = False, by_phase: bool = False
) -> list[TableRow]:
    """Return min, percentiles and max of each metric of each node; see `analysis.utilization`.

    `by_device` keeps devices apart. `by_phase` returns a row for each of `phase_intervals`, in column
    `phase`. Percentiles of a long job are those of half-minute stretches that are spread over it; its count
    and its extremes are those of all readings, unless `by_phase` is set.
    """
    where = part.sql("samples")
    stretches = Stretches.of(trial, int(trial.manifest.get("start") or 0), tables=("samples",), where=where)
    chosen = f"{where} AND {stretches.where or 'true'}"
    samples = trial.sql(f"SELECT time, node, metric, device, value FROM samples WHERE {chosen}")  # noqa: S608
    if not by_phase:
        return utilization_of(trial, samples, stretches, by_device=by_device, where=where)
    found = []
    parts = phase_intervals(trial, part)
    for phase in dict.fromkeys(parts["phase"].tolist()):
        mine = inside(samples["time"], parts.where(parts["phase"] == phase))
        rows = utilized.utilization(samples.where(mine), by_device=by_device)
        found += [{"phase": phase, **row} for row in rows]
    return found


def step_statistics(trial: Trial, part: Part, by: str = "mode") -> list[TableRow]:
    """Return mean, extremes and percentiles of durations, ms: of steps by `mode`, or of spans.

    With `by="mode"` a step lasts from the earliest begin of a rank to the latest end. With `phase` or `name`
    the rows are spans; other values raise `ValueError`.
    """
    if by not in ("mode", "phase", "name"):
        raise ValueError(f"by is {by!r}; expected mode, phase or name")
    source, more = f"spans WHERE {_TIMED} AND {part.sql('spans')}", None
    if by == "mode":
        begin, end, modes = _steps(trial, part)
        source, more = "whole_steps", {"whole_steps": Table({"mode": modes, "duration": end - begin})}
    points = ", ".join(f"quantile_cont(duration, {q / 100}) / 1e6 AS p{q}_ms" for q in _PERCENTS)
    found = trial.sql(
        f"SELECT {by}, count(*) AS count, avg(duration) / 1e6 AS mean_ms, min(duration) / 1e6 AS min_ms, "  # noqa: S608
        f"{points}, max(duration) / 1e6 AS max_ms FROM {source} GROUP BY ALL ORDER BY ALL",
        more=more,
    )
    return list(found.to_rows())


def device_usage(trial: Trial, part: Part, ranges: Sequence[Range] = RANGES) -> list[TableRow]:
    """Count the readings of cores and GPUs in each range of percent; a row for each node."""
    in_ranges(np.empty(0), tuple(ranges))  # raises ValueError for an invalid range
    cases = " ".join(
        f"WHEN value >= {float(low)} AND value <= {float(high)} THEN {at}"
        for at, (low, high) in enumerate(ranges)
    )
    counted = f"CASE {cases} ELSE -1 END" if cases else "-1"
    found = []
    for device, metric in (("cpu", "cpu.core.util"), ("gpu", "gpu.util")):
        where = f"metric = '{metric}' AND NOT isnan(value) AND {part.sql('samples')}"
        # The database counts: the readings of all cores of a long job do not fit into memory.
        rows = trial.sql(
            f"SELECT node, {counted} AS at, count(*) AS n FROM samples WHERE {where} GROUP BY ALL"  # noqa: S608
        )
        counts = {(node, at): n for node, at, n in zip(*(rows[c].tolist() for c in rows.names), strict=True)}
        for node in sorted({node for node, _ in counts}):
            told = {f"{low:g}-{high:g}": counts.get((node, at), 0) for at, (low, high) in enumerate(ranges)}
            found.append({"device": device, "node": node, **told})
    return found


def phase_intervals(trial: Trial, part: Part) -> Table:
    """Divide the job into modes of steps and the time before, between and after them; ns."""
    begin, end, modes = _steps(trial, part)
    if not len(modes):
        return intervals(begin, end, modes, 0, 0)
    first, last = part.start_ns, part.end_ns
    if first is None or last is None:
        manifest = trial.manifest
        start = manifest.get("start") or int(begin.min())
        until = manifest.get("end") or int(end.max())
        first, last = first if first is not None else start, last if last is not None else until
    return intervals(begin, end, modes, int(first), int(last))


def running_at(trial: Trial, part: Part, moments: Sequence[int]) -> RunningTimes:
    """Return what ran at moments, ns since the epoch; an event counts with its length, once a moment."""
    spans, operators = _events(trial, part, min(moments, default=0), max(moments, default=0))
    return _times(spans, operators, lambda rows: times_at(rows["time"], _end(rows), moments))


def running_during(trial: Trial, part: Part, stretches: Sequence[tuple[int, int]]) -> RunningTimes:
    """Return what ran during given time ranges, ns since the epoch; see `running_at`."""
    starts, ends = [start for start, _ in stretches], [end for _, end in stretches]
    spans, operators = _events(trial, part, min(starts, default=0), max(ends, default=0))
    return _times(spans, operators, lambda rows: times_during(rows["time"], _end(rows), starts, ends))


def downsampled(trial: Trial, part: Part, metric: str, buckets: int) -> Table:
    """Return mean, least and greatest reading of a metric in equal stretches of time, for each device.

    The columns are `node`, `device`, `time` (begin of the stretch, ns), `mean`, `min` and `max`. An unknown
    metric raises `KeyError`, fewer than one bucket `ValueError`.
    """
    if metric not in METRICS:
        raise KeyError(f"no metric {metric!r}{meant(metric, METRICS)}; there are: {', '.join(METRICS)}")
    if buckets < 1:
        raise ValueError(f"buckets is {buckets}; expected at least 1")
    where = f"metric = '{metric}' AND {part.sql('samples')}"
    low, high = 0, 1
    if part.start_ns is None or part.end_ns is None:
        ends = trial.sql(f"SELECT min(time) AS a, max(time) AS b, count(*) AS n FROM samples WHERE {where}")  # noqa: S608
        if ends["n"][0]:
            low, high = int(ends["a"][0]), int(ends["b"][0]) + 1
    low = low if part.start_ns is None else part.start_ns
    high = high if part.end_ns is None else part.end_ns
    width = max(-(-(high - low) // buckets), 1)
    return trial.sql(
        f"SELECT node, device, {low} + (time - {low}) // {width} * {width} AS time, avg(value) AS mean, "  # noqa: S608
        f"min(value) AS min, max(value) AS max FROM samples "
        f"WHERE {where} AND NOT isnan(value) GROUP BY ALL ORDER BY ALL",
        start_ns=low,
        end_ns=high,
    )


def _steps(trial: Trial, part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return begin, end and mode of each step, of all its ranks together."""
    steps = part.steps(trial, columns=("step", "mode"))
    begin, end = steps["time"], steps["time"] + steps["duration"]
    if not steps.rows:
        return begin, end, steps["mode"]
    names, codes = coded(steps["mode"])
    order = np.lexsort((steps["step"], codes))
    number, code = steps["step"][order], codes[order]
    opens = np.flatnonzero((np.diff(number, prepend=number[0] - 1) != 0) | (np.diff(code, prepend=-1) != 0))
    first, last = np.minimum.reduceat(begin[order], opens), np.maximum.reduceat(end[order], opens)
    return first, last, names[code[opens]]


def _events(trial: Trial, part: Part, first: int, last: int) -> tuple[Table, Table]:
    near = f"time <= {int(last)} AND time + duration >= {int(first)}"
    return (
        part.table(trial, "spans", where=f"{_TIMED} AND worker = -1 AND {near}"),
        part.table(trial, "operators", where=f"kind = 'operator' AND {near}"),
    )


def _times(spans: Table, operators: Table, times: Callable[[Table], NDArray[Any]]) -> RunningTimes:
    amount = spans["duration"] * times(spans)
    own = operators["duration"] * times(operators)
    steps = spans["phase"] == "step"
    phases = sums(spans["phase"][~steps].tolist(), amount[~steps].tolist())
    return {
        "phases": of_largest(phases),
        "names": sums(operators["name"].tolist(), own.tolist()),
        "modes": sums(spans["mode"][steps].tolist(), amount[steps].tolist()),
    }


def _end(rows: Table) -> NDArray[Any]:
    return np.asarray(rows["time"] + rows["duration"])
