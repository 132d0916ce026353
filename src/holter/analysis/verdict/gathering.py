"""Computes the facts of a recorded job from its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import device_ms, framework
from holter.analysis.jobs.lone_evaluation import lone_evaluation
from holter.analysis.jobs.stragglers import stragglers
from holter.analysis.jobs.synchronous_steps import what_if_of_steps
from holter.analysis.loading.dataloading import causes, loaders, stages
from holter.analysis.loading.pipelines import pipeline
from holter.analysis.machine.load import loads
from holter.analysis.machine.threads import thread_shares
from holter.analysis.steps.breakdown import breakdown, not_seen, only_seen
from holter.analysis.steps.durations import step_statistics
from holter.analysis.steps.holders import holders
from holter.analysis.steps.named_work import moved, named_work
from holter.analysis.steps.own_code import (
    DEVICE,
    MIN_SAMPLES,
    awaiting,
    divided,
    iterating,
    own_code,
    reading,
)
from holter.analysis.steps.warmup import steady
from holter.analysis.verdict.job_facts import Stall, VerdictFacts
from holter.analysis.verdict.profiled_python import profiled_python
from holter.analysis.verdict.profiled_steps import profiled_steps
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table

_NEXT_READING_NS = 1_000_000_000
"""A reading this long after a loop that holds none still describes the machine of the loop."""


def gather(
    steps: Table,
    *,
    samples: Table | None = None,
    spans: Table | None = None,
    named: Table | None = None,
    events: Table | None = None,
    nodes: Mapping[str, Mapping[str, object]] | None = None,
    profiled: Mapping[str, Table] | None = None,
    python: tuple[Table, Table] | None = None,
    running: bool = False,
    not_counted: tuple[str, ...] = (),
    staged: bool = False,
) -> VerdictFacts:
    """Compute the facts of a job. Facts whose table is absent are unknown.

    Args:
        steps: Table `steps`, warm-up included.
        samples: Table `samples` of at least the whole job.
        spans: Table `spans`, with the phases data_loading, fetch, collate, stack, step, loop_stack, gc,
            loss and h2d. A part of the job is enough.
        named: Table `spans`, with the phases that `named_work` reads.
        events: Table `events`: descriptions of the loaders and of the framework.
        nodes: Node → its facts; `cpus` is used.
        profiled: The tables that `profiled_steps` reads, for the steps of a profiling window.
        python: Tables `python_functions` and `python_stacks`.
        running: Whether the job still runs and accepts orders.
        not_counted: Work of other threads than the loop's.
        staged: Whether ranks send tensors to single other ranks.
    """
    mask = steady(steps)
    used = steps.where(mask)
    found: dict[str, Any] = {
        **_framework(events),
        "device_ms": device_ms(events),
        "running": running,
        "not_counted": not_counted,
        "staged": staged,
    }
    if used.rows:
        begin, end = int(used["time"].min()), int((used["time"] + used["duration"]).max())
        plain = used.where((used["eval"] == 0) & (used["checkpoint"] == 0))
        plain = plain if plain.rows else used
        rest = plain["duration"] - plain["data_loading"]
        machines = []
        if samples is not None:
            machines = loads(samples, nodes or {}, begin, _read_by(samples, begin, end))
        threads = thread_shares(samples, begin, end) if samples is not None else []
        work = named_work(named, used) if named is not None else []
        mean = float((used["duration"] - used["eval"]).mean()) / 1e6
        unseen = tuple(not_seen(used, found.get("observed", ())))
        recorded = only_seen(breakdown(steps, mask), unseen)
        split = moved(recorded, work)
        parts = only_seen({part: float(np.median(plain[part])) / 1e6 for part in BREAKDOWN}, unseen)
        parts = moved(parts, work, mean)
        own, held, collecting, loading = [], [], 0.0, None
        if spans is not None:
            own = own_code(spans, used, recorded["other"])
            if found["device_ms"] and mean:
                own = reading(own, 100 * (found["device_ms"] - parts["compute"]) / mean)
            collecting = _collecting(spans.where((spans["phase"] == "gc") & (spans["worker"] == -1)), used)
            of_loaders = spans.where(~np.isin(spans["phase"], ("loop_stack", "loss", "h2d", "gc")))
            loading = stages(of_loaders, steps, loaders(events), mask)
            held = holders(spans, used, threads, own, split, loading=loading, device=found["device"])
        # What the loop iterates over loads data, whether a data loader or a generator gives the batches.
        iterated = min(parts["other"], sum(one.pct for one in own if one.iterates) / 100 * mean)
        awaited = sum(one.pct for one in own if one.waits_in == DEVICE) / 100 * mean
        awaited = min(parts["other"] - iterated, awaited)
        parts |= {
            "data_loading": parts["data_loading"] + iterated,
            "compute": parts["compute"] + awaited,
            "other": parts["other"] - iterated - awaited,
        }
        rest = rest - iterated * 1e6
        first = machines[0] if machines else None
        slow = stragglers(used)
        found |= {
            "breakdown": divided(split, iterating(own), awaiting(own)),
            "own_code": [one for one in own if one.samples >= MIN_SAMPLES],
            "iterating": iterating(own),
            "awaiting": awaiting(own),
            "named_work": work,
            "collecting_pct": collecting,
            "not_seen": unseen,
            "stalls": _stalls(used),
            "step_ms": float(np.median(plain["duration"])) / 1e6,
            "mean_step_ms": mean,
            "rest_ms": float(np.median(rest)) / 1e6,
            "rest_least_ms": float(np.percentile(rest, 10)) / 1e6,
            "parts_ms": parts,
            "steady_steps": int(np.unique(used["rank"], return_counts=True)[1].max()),
            "window": {
                "step_start": int(used["step"].min()),
                "step_end": int(used["step"].max()),
                "time_start": begin,
                "time_end": end,
            },
            "loading": loading,
            "pipeline": pipeline(events),
            "causes": causes(
                loading,
                cpu_p50=first.cpu_p50 if first else None,
                iowait_p95=first.iowait_p95 if first else None,
            )
            if loading
            else [],
            "stragglers": slow,
            "lone_evaluation": lone_evaluation(used),
            "what_if": None if staged else what_if_of_steps(used, [one.rank for one in slow]),
            "loads": machines,
            "threads": threads,
            "holders": held,
            "python": profiled_python(*python, used) if python is not None else None,
        }
    elif samples is not None:
        found["loads"] = loads(samples, nodes or {}, None, None)
    seen = profiled_steps(profiled, found.get("step_ms")) if profiled is not None else None
    if seen is not None:
        found |= {"profiled": seen, "kernels": seen.kernels}
    ranks = tuple(sorted(set(steps["rank"].tolist())))
    return VerdictFacts(statistics=step_statistics(steps, mask), ranks=ranks, **found)


def _read_by(samples: Table, begin: int, end: int) -> int:
    """Return the end of the loop, or of the first reading after it if a short loop holds none."""
    times = samples["time"][samples["metric"] == "proc.cpu.delay"]
    later = times[(times >= begin) & (times <= end + _NEXT_READING_NS)]
    return max(end, int(later.min()) + 1) if later.size else end


def _collecting(pauses: Table, steps: Table) -> float:
    """Return the percentage of the steps' time in garbage collections."""
    ranks = len(np.unique(steps["rank"]))
    begin, end = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    inside = (pauses["time"] >= begin) & (pauses["time"] < end) & np.isin(pauses["rank"], steps["rank"])
    return min(100.0 * float(pauses["duration"][inside].sum()) / ((end - begin) * ranks), 100.0)


def _stalls(steps: Table) -> dict[str, Stall]:
    found, loop = {}, int(steps["duration"].sum())
    for part in BREAKDOWN:
        row = int(steps[part].argmax())
        if 2 * int(steps[part][row]) > int(steps[part].sum()):
            took = int(steps["duration"][row])
            found[part] = Stall(100.0 * took / loop, int(steps["step"][row]), took / 1e6)
    return found


def _framework(events: Table | None) -> dict[str, Any]:
    told = framework(events) or {}
    parts = told.get("parts")
    observed = tuple(map(str, parts)) if isinstance(parts, list) else ()
    return {"framework": told.get("name"), "device": told.get("device"), "observed": observed}
