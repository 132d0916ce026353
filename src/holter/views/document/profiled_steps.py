"""Reads the newest profiled steps: tables for the verdict, numbers for the description."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holter.analysis.device.critical_path import critical_path, path_shares
from holter.analysis.device.kernel_statistics import activity, kernel_precision
from holter.views.document.cost import details
from holter.views.document.trace_detail import detail, mfu, with_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.profiled_steps import ProfiledSteps
    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types import Description
    from holter.views.document.types.profiled import ProfiledWindow, WindowExtras
    from holter.views.document.types.training import OperatorShare, OperatorTables

OPERATOR_COLUMNS = ("time", "duration", "rank", "thread", "step", "name", "kind")
TABLES = ("kernels", "launches", "memory_operations", "syncs")
MOST_DETAILS = 100_000
"""The shapes of operators are read up to so many operators and kernels."""
_AROUND_NS = 3_000_000_000
"""A look samples stacks at most this long before and after its steps."""
MOST_ROWS = 400_000
"""Limit on the rows of operators and kernels, newest steps first; at least one step is read."""


def read(trial: Trial) -> dict[str, Table] | None:
    """Read the newest steps in a row that were profiled, as the verdict asks for them; None without any."""
    if not any(trial.rows(name) for name in ("operators", "kernels")):
        return None
    counted = trial.sql(
        "SELECT step, sum(rows)::BIGINT AS rows FROM ("
        "SELECT step, count(*) AS rows FROM operators WHERE step >= 0 GROUP BY step UNION ALL "
        "SELECT step, count(*) AS rows FROM kernels WHERE step >= 0 GROUP BY step"
        ") GROUP BY step ORDER BY step DESC"
    )
    if not counted.rows:
        return None
    numbers, rows = counted["step"].tolist(), counted["rows"].tolist()
    first, count = numbers[0], rows[0]
    for number, more in zip(numbers[1:], rows[1:], strict=True):
        if number != first - 1 or count + more > MOST_ROWS:
            break
        first, count = number, count + more
    shapes = ("detail",) if count <= MOST_DETAILS else ()
    found = _read(trial, _condition(first, numbers[0]), shapes)
    steps = found["spans"]
    if not steps.rows:
        return found
    begin, end = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    sampled = "phase = 'loop_stack' AND NOT isnan(value) AND value >= 0"
    first, last = begin - _AROUND_NS, end + _AROUND_NS
    return {**found, "stacks": trial.table("spans", where=sampled, start_ns=first, end_ns=last)}


def _condition(first: int, last: int) -> str:
    return f"step BETWEEN {int(first)} AND {int(last)}"


def _read(trial: Trial, where: str, more: tuple[str, ...] = ()) -> dict[str, Table]:
    """Read the tables of profiled steps; `more` are further columns of operators."""
    found = {name: trial.table(name, where=where) for name in TABLES}
    operators = trial.table("operators", columns=(*OPERATOR_COLUMNS, *more), where=where)
    columns = ("time", "duration", "rank", "step", "phase")
    spans = trial.table("spans", columns=columns, where=f"{where} AND phase = 'step' AND worker = -1")
    return {**found, "operators": operators, "spans": spans}


def operators(look: ProfiledSteps) -> OperatorTables:
    """Return a description's `operators`."""
    cpu, gpu = (cast("list[OperatorShare]", list(one.to_rows())) for one in (look.operators, look.gpu))
    return {"cpu": cpu, "gpu": gpu}


def window(look: ProfiledSteps, tables: Mapping[str, Table]) -> ProfiledWindow:
    """Return a description's `window`: its steps, and the work of the accelerators in them."""
    device = look.device
    return {
        "step_start": look.first_step,
        "step_end": look.last_step,
        "step_ms": device.step_ms if device else None,
        "ranks": list(look.ranks),
        "breakdown": device.breakdown if device else None,
        "activity": activity(tables) if device else None,
        "precision": kernel_precision(tables) if device else None,
        "critical_path": path_shares(critical_path(tables)) if device else None,
    }


def in_detail(trial: Trial, told: Description, seen: ProfiledWindow) -> WindowExtras:
    """Return what `holter diagnose --detail` adds to `seen`, a description's `window`: `mfu` and `detail`."""
    where = _condition(seen["step_start"], seen["step_end"])
    tables = with_shapes(trial, _read(trial, where), where)
    spans = tables["spans"]
    begin, end = int(spans["time"].min()), int((spans["time"] + spans["duration"]).max())
    more = {name: trial.table(name, start_ns=begin, end_ns=end) for name in ("flows", "counters")}
    said = details(trial.table("events"), "framework", "window")
    trained_on = {str(one["device"]) for one in said if one.get("device")}
    on_host = trained_on == {"cpu"}
    gpus = () if on_host else (gpu for node in told["nodes"] for gpu in node["gpus"] or ())
    devices = sorted({str(gpu["name"]) for gpu in gpus if gpu.get("name")})
    steps = seen["step_end"] - seen["step_start"] + 1
    window_ns = int(seen["step_ms"] * 1e6 * steps) if seen["step_ms"] else None
    return {
        "devices": devices,
        "mfu": mfu(tables, devices, window_ns),
        "detail": detail({**tables, **more}, devices, on_host=on_host),
    }
