"""Exports the functions of cProfile as `pstats` files of Python, one per rank and timer."""

from __future__ import annotations

import marshal
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holter.analysis.host.python_functions import place, summed

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

ABOUT = "functions timed by cProfile as files of Python's pstats"
SUFFIX = ""
SHOW = "python -m pstats {output}/rank0-total_time.pstats"
NEEDS = "Python functions (profile some steps: --python cprofile)"


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write `rank<r>-<timer>.pstats` files; returns how many functions are in them.

    Times of different timers are different things, so they never share a file. Functions called as the same
    by `pstats` (file, line, name) are added up.
    """
    functions, calls = (chosen.table(trial, name) for name in ("python_functions", "python_calls"))
    written = 0
    for rank in sorted(set(functions["rank"].tolist())):
        for timer in sorted(set(functions["timer"].tolist())):
            mine, between = (
                table.where((table["rank"] == rank) & (table["timer"] == timer))
                for table in (functions, calls)
            )
            if mine.rows:
                stats = as_stats(mine, between)
                (output / f"rank{rank}-{timer}.pstats").write_bytes(marshal.dumps(stats))
                written += len(stats)
    return written


def as_stats(functions: Table, calls: Table) -> dict[Any, Any]:
    """Return rows of one timer as the dictionary that `pstats` loads: function → counts, seconds, callers."""
    callers: dict[Any, dict[Any, Any]] = defaultdict(dict)
    (above, below), counts = summed(calls, "caller", "function")
    for caller, callee, row in zip(above.tolist(), below.tolist(), counts.tolist(), strict=True):
        known = callers[place(callee)]
        number, primitive, total, own = row
        before = known.get(place(caller), (0, 0, 0.0, 0.0))
        more = (number, primitive, own / 1e9, total / 1e9)
        known[place(caller)] = tuple(a + b for a, b in zip(before, more, strict=True))
    stats: dict[Any, Any] = {}
    (names,), counts = summed(functions, "function")
    for name, (number, primitive, total, own) in zip(names.tolist(), counts.tolist(), strict=True):
        key = place(name)
        before = stats.get(key, (0, 0, 0.0, 0.0))
        more = (primitive, number, own / 1e9, total / 1e9)
        stats[key] = (*(a + b for a, b in zip(before[:4], more, strict=True)), callers.get(key, {}))
    return stats
