"""Describes a command that took no steps, as the document's `program`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holter.analysis.verdict.program import program

if TYPE_CHECKING:
    from holter.analysis.verdict.program import Program
    from holter.schema.table import Table
    from holter.views.document.types.job import RecordingCost
    from holter.views.document.types.program import ProgramEntry
    from holter.views.document.types.verdict import JobVerdict

_MARK = (
    "Mark the steps: `for batch in holter.steps(batches):` or `with holter.step():`; and their parts: "
    "`with holter.phase(NAME):`."
)
_NATIVE = (
    "holter names functions of Python programs only; `perf record -g -- COMMAND` names those of this one."
)


def read(events: Table, samples: Table | None, steps: Table) -> Program | None:
    """Return what is known of a command; None if it took steps."""
    return None if steps.rows else program(events, samples)


def document(found: Program) -> ProgramEntry:
    """Return the entry of the description."""
    repeats = found.repeats
    return {
        "sentence": found.sentence,
        "name": found.name,
        "elapsed_s": found.elapsed_s,
        "cpu_s": found.cpu_s,
        "cores": found.cores,
        "cores_used": found.cores_used,
        "waits_for_core_pct": found.core_wait_pct,
        "gpu_pct": found.gpu_pct,
        "process_count": found.count,
        "processes": [
            {
                "pid": one["pid"],
                "parent": one["parent"],
                "name": one["name"],
                "cpu_s": one["cpu_s"],
                "children_s": one["children_s"],
                "threads": one["threads"],
                "memory_bytes": one["rss"],
                "read_bytes": one["read_bytes"],
                "written_bytes": one["written_bytes"],
            }
            for one in found.processes
        ],
        "functions": [{"name": name, "pct": min(share, 100.0)} for name, share in found.functions],
        "sampled_s": found.sampled_s,
        "estimated_steps": {
            "seconds": repeats.seconds,
            "per_second": 1 / repeats.seconds,
            "strength": repeats.strength,
            "repetitions": repeats.cycles,
            "signal": repeats.signal,
            "text": repeats.text,
        }
        if repeats
        else None,
    }


def told(verdict: JobVerdict, found: Program) -> JobVerdict:
    """Return the verdict on a job without steps, led by what its program does."""
    said = f"{found.sentence} {verdict['sentence']}"
    how = _MARK if found.python else _NATIVE
    evidence = [
        {"text": one.text, "metric": one.metric, "value": one.value, "threshold": one.threshold}
        | {"where": one.where, "window": one.window}
        for one in found.evidence()
    ]
    return cast(
        "JobVerdict",
        {
            **verdict,
            "sentence": said,
            "evidence": [*evidence, *verdict["evidence"]],
            "advice": [{"text": how, "expected_step_ms": None, "why": ""}],
        },
    )


def with_samples(cost: RecordingCost, found: Program | None) -> RecordingCost:
    """Return the cost of a recording with that of the samples that a program took of itself."""
    if found is None or not found.sampled_s:
        return cost
    return {**cost, "recorder_pct": (cost["recorder_pct"] or 0.0) + found.sampling_pct}
