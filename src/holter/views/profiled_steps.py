"""The steps that a profiling window looked at last: rows for the verdict, numbers for documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.analysis.critical_path import critical_path, path_shares
from holter.analysis.kernel_statistics import activity, kernel_precision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.closer_look import Look
    from holter.schema.table import Table
    from holter.store.trial import Trial

TABLES = {
    "kernels": None,
    "launches": None,
    "memory_operations": None,
    "syncs": None,
    "operators": ("time", "duration", "rank", "thread", "step", "name", "kind"),
}
MOST_ROWS = 400_000
"""So many operators and kernels are looked at, those of the newest steps; of one step in any case."""


def profiled_steps(trial: Trial) -> dict[str, Table] | None:
    """Read the newest steps in a row that were profiled, as `closer_look` asks for them; None without any."""
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
    first, left = numbers[0], MOST_ROWS - rows[0]
    for number, more in zip(numbers[1:], rows[1:], strict=True):
        left -= more
        if number != first - 1 or left < 0:
            break
        first = number
    where = f"step BETWEEN {int(first)} AND {int(numbers[0])}"
    read = {name: trial.table(name, columns=columns, where=where) for name, columns in TABLES.items()}
    columns = ("time", "duration", "rank", "step", "phase")
    spans = trial.table("spans", columns=columns, where=f"{where} AND phase = 'step' AND worker = -1")
    return {**read, "spans": spans}


def operators(look: Look) -> dict[str, Any]:
    """Return a description's `operators`."""
    return {"cpu": list(look.operators.to_rows()), "gpu": list(look.gpu.to_rows())}


def window(look: Look, read: Mapping[str, Table]) -> dict[str, Any]:
    """Return a description's `window`: which steps, and what accelerators did in them."""
    device = look.device
    return {
        "step_start": look.first_step,
        "step_end": look.last_step,
        "ranks": list(look.ranks),
        "breakdown": device.breakdown if device else None,
        "activity": activity(read) if device else None,
        "precision": kernel_precision(read) if device else None,
        "critical_path": path_shares(critical_path(read)) if device else None,
    }
