"""OverallFrameworkMetrics: summarises the time per phase and operator."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from holter.rules import Issues, Rule, State, Table, Window, rule_class
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = 1000
"""Number of operators with their own entry; later ones share one entry."""


class _Rank(TypedDict):
    """When a rank's steps began and ended, and their time by mode and by part, ns."""

    begin: int
    end: int
    modes: dict[str, int]
    parts: dict[str, int]


@rule_class
class OverallFrameworkMetrics(Rule):
    """Time in each mode, in each part of the step, between steps, and in operators. It never fires."""

    reads = ("steps", "operators", "kernels")
    severity = "info"
    formula = "never"
    packs = ("default", "performance", "sagemaker")
    every_s = 30.0

    def evaluate(self, window: Window) -> Issues:
        """Add the new steps, and hand over the shares of all steps."""
        ranks: dict[str, _Rank] = window.state.setdefault("ranks", {})
        steps = window.new("steps")
        for rank in np.unique(steps["rank"]).tolist():
            mine = steps.where(steps["rank"] == rank)
            end = int((mine["time"] + mine["duration"]).max())
            known = ranks.setdefault(
                str(rank), {"begin": int(mine["time"].min()), "end": end, "modes": {}, "parts": {}}
            )
            known["begin"] = min(known["begin"], int(mine["time"].min()))
            known["end"] = max(known["end"], end)
            for mode in np.unique(mine["mode"].astype(str)).tolist():
                spent = int(mine["duration"][mine["mode"] == mode].sum())
                known["modes"][mode] = known["modes"].get(mode, 0) + spent
            for part in (*BREAKDOWN, "compile"):
                known["parts"][part] = known["parts"].get(part, 0) + int(mine[part].sum())
        if not ranks:
            window.insufficient("no_input", "no step")
        window.judged(steps.rows)
        _count_profiled(window)
        state = window.state
        window.hand_over(lambda: _shares(list(ranks.values())) | _profiled(state))
        yield from ()


def _shares(ranks: list[_Rank]) -> dict[str, object]:
    """Return percent of the ranks' loops, from the start of the first step to the end of the last."""
    loop = sum(rank["end"] - rank["begin"] for rank in ranks)
    if loop <= 0:
        return {}

    modes, parts = _total(rank["modes"] for rank in ranks), _total(rank["parts"] for rank in ranks)
    passes = parts["forward"] + parts["backward"]
    between = max(loop - sum(modes.values()), 0)
    phase = {f"Step:ModeKeys.{mode.upper()}": ns for mode, ns in modes.items()} | {"others": between}
    named = {part: ns for part, ns in parts.items() if part not in ("other", "compile") and ns > 0}
    return {
        # Names of the classic report; times in microseconds.
        "phase": {name: 100.0 * ns / loop for name, ns in phase.items()},
        "phase_time": {name: ns // 1000 for name, ns in phase.items()},
        "general": _percent(named),
        "forward_backward": _percent({part: parts[part] for part in ("forward", "backward")}),
        "phase_pct": {**{m: 100.0 * ns / loop for m, ns in modes.items()}, "others": 100.0 * between / loop},
        "phase_s": {**{m: ns / 1e9 for m, ns in modes.items()}, "others": between / 1e9},
        "part_pct": {part: 100.0 * ns / loop for part, ns in parts.items()},
        "forward_pct_of_passes": 100.0 * parts["forward"] / passes if passes else None,
    }


def _total(several: Iterable[dict[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in several:
        found.update(one)
    return dict(sorted(found.items()))


def _count_profiled(window: Window) -> None:
    """Add up recorded host operators, kernels of each device, and collectives."""
    state = window.state
    operators, kernels = window.new("operators"), window.new("kernels")
    cpu: dict[str, int] = state.setdefault("cpu", {})
    _count(cpu, operators.where(operators["kind"] == "operator"), "name")
    gpu: dict[str, dict[str, int]] = state.setdefault("gpu", {})
    for device in np.unique(kernels["device"]).tolist():
        mine = kernels.where(kernels["device"] == device)
        _count(gpu.setdefault(f"gpu_functions-dev:{device}", {}), mine, "name")
    collectives: dict[str, int] = state.setdefault("collectives", {})
    _count(collectives, kernels.where(kernels["kind"] == "communication"), "collective")


def _profiled(state: State) -> dict[str, object]:
    """Return the shares of these sums."""
    cpu, gpu, collectives = state["cpu"], state["gpu"], state["collectives"]
    if not cpu and not gpu:
        return {}
    totals = {"cpu_functions": sum(cpu.values())} | {name: sum(one.values()) for name, one in gpu.items()}
    every = _total(gpu.values())
    return {
        "ratio": _percent(totals),
        "CPU": _percent(_largest(cpu)),
        "CPU_total": {name: ns // 1000 for name, ns in _largest(cpu).items()},
        "GPU": _percent(_largest(every)),
        "GPU_total": {name: ns // 1000 for name, ns in _largest(every).items()},
        "horovod": _percent(collectives),
    }


def _count(sums: dict[str, int], rows: Table, column: str) -> None:
    for name, ns in zip(rows[column].tolist(), rows["duration"].tolist(), strict=True):
        known = name if name in sums or len(sums) < _NAMES else "(others)"
        sums[known] = sums.get(known, 0) + ns


def _percent(times: dict[str, int]) -> dict[str, float]:
    total = sum(times.values())
    return {name: 100.0 * ns / total for name, ns in sorted(times.items())} if total > 0 else {}


def _largest(times: dict[str, int]) -> dict[str, int]:
    """Keep the entries with 2 % of the total or more."""
    total = sum(times.values())
    return {name: ns for name, ns in times.items() if ns > 0 and 50 * ns >= total}
