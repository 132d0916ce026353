"""Computes shares of phases, passes, operators and kernels at given moments or in given steps."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow

MOST = 200
"""Limit on the number of moments; the last ones count."""
LONGEST_NS = 600_000_000_000
"""Longer spans are not phases of a step."""
_PASSES = {"forward": "Forward pass", "backward": "Backward pass"}
_LEAST_PCT = 2.0


def at_moments(trial: Trial, moments: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return the shares at moments, ns since the epoch; each span or operator counts with its duration."""
    when = sorted(moments)[-MOST:]
    if not when:
        return {}
    joined = f"(VALUES {', '.join(f'({int(at)})' for at in when)}) moments(moment)"
    near = (
        f"time BETWEEN {when[0] - LONGEST_NS} AND {when[-1]} AND time <= moment AND time + duration >= moment"
    )
    return _shares(trial, f"{{table}}, {joined} WHERE {near}", when[0] - LONGEST_NS, when[-1] + 1)


def in_steps(trial: Trial, steps: Mapping[int, Sequence[int]]) -> dict[str, dict[str, float]]:
    """Return the shares in the given steps of each rank."""
    of = [
        f"(rank = {int(rank)} AND step IN ({', '.join(str(int(n)) for n in numbers)}))"
        for rank, numbers in steps.items()
        if numbers
    ]
    return _shares(trial, f"{{table}} WHERE ({' OR '.join(of)})", None, None) if of else {}


def _shares(trial: Trial, from_: str, start: int | None, end: int | None) -> dict[str, dict[str, float]]:
    def asked(table: str, columns: str, more: str = "") -> list[TableRow]:
        # The query contains our names and whole numbers, never a user's text.
        chosen = from_.format(table=table) + more
        query = f"SELECT {columns}, sum(duration)::DOUBLE AS ns FROM {chosen} GROUP BY ALL"  # noqa: S608
        return list(trial.sql(query, start_ns=start, end_ns=end).to_rows())

    spans = asked("spans", "phase, mode", " AND worker = -1")
    modes = {f"Step:ModeKeys.{row['mode'].upper()}": row["ns"] for row in spans if row["phase"] == "step"}
    parts: dict[str, float] = defaultdict(float)
    for row in spans:
        if row["phase"] in BREAKDOWN and row["phase"] != "other":
            parts[row["phase"]] += row["ns"]
    cpu = {row["name"]: row["ns"] for row in asked("operators", "name", " AND kind = 'operator'")}
    gpu: dict[str, float] = defaultdict(float)
    devices: dict[str, float] = defaultdict(float)
    for row in asked("kernels", "name, device"):
        gpu[row["name"]] += row["ns"]
        devices[f"gpu_functions-dev:{row['device']}"] += row["ns"]
    found = {
        "phase": _percent(modes),
        "forward_backward": _percent({_PASSES[name]: ns for name, ns in parts.items() if name in _PASSES}),
        "general": _percent(parts),
        "CPU": _percent(_largest(cpu)),
        "GPU": _percent(_largest(gpu)),
        "ratio": _percent({**({"cpu_functions": sum(cpu.values())} if cpu else {}), **devices}),
    }
    return {name: shares for name, shares in found.items() if shares}


def _largest(times: dict[str, float]) -> dict[str, float]:
    total = sum(times.values())
    return {name: ns for name, ns in times.items() if ns > 0 and 100 * ns >= _LEAST_PCT * total}


def _percent(times: dict[str, float]) -> dict[str, float]:
    total = sum(times.values())
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return {name: 100.0 * ns / total for name, ns in ordered} if total > 0 else {}
