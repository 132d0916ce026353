"""Describes a command that took no steps, as the document's `program`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from holter.analysis.verdict.attached import judged
from holter.analysis.verdict.program import program

if TYPE_CHECKING:
    from holter.analysis.host.training_parts import TrainingParts
    from holter.analysis.verdict.program import Program
    from holter.schema.table import Table
    from holter.views.document.types.job import RecordingCost
    from holter.views.document.types.program import ProgramEntry, SampledTraining
    from holter.views.document.types.verdict import JobVerdict

_MARK = (
    "Mark the steps: `for batch in holter.steps(batches):` or `with holter.step():`; and their parts: "
    "`with holter.phase(NAME):`."
)
_NATIVE = (
    "holter names functions of Python programs only; `perf record -g -- COMMAND` names those of this one."
)
_ATTACHED = "Start it with `holter run -- COMMAND` to get more: steps, and the parts of each step."
_OUTSIDE = "It was recorded from outside, so its steps are not known."


def read(events: Table, samples: Table | None, steps: Table, stacks: Table) -> Program | None:
    """Return what is known of a command; None if it took steps."""
    return None if steps.rows else program(events, samples, stacks)


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
        "attached": found.attached,
        "training": _training(found.training) if found.training else None,
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
    if found.training is not None:
        return _of_stacks(verdict, found, found.training)
    said = f"{found.sentence} {_OUTSIDE if found.attached else verdict['sentence']}"
    how = _ATTACHED if found.attached else _MARK if found.python else _NATIVE
    evidence = [asdict(one) for one in found.evidence()]
    return cast(
        "JobVerdict",
        {
            **verdict,
            "sentence": said,
            "evidence": [*evidence, *verdict["evidence"]],
            "advice": [{"text": how, "expected_step_ms": None, "why": ""}],
        },
    )


def _training(found: TrainingParts) -> SampledTraining:
    workers = found.workers
    return {
        "samples": found.samples,
        "processes": found.processes,
        "parts": [
            {
                "part": one.part,
                "pct": min(one.pct, 100.0),
                "where": one.where or None,
                "function": one.inner or None,
                "function_pct": min(one.inner_pct, 100.0) if one.inner else None,
            }
            for one in found.parts
        ],
        "workers": {
            "count": workers.count,
            "busy_pct": min(workers.busy_pct, 100.0),
            "function": workers.inner or None,
        }
        if workers
        else None,
    }


def _of_stacks(verdict: JobVerdict, found: Program, training: TrainingParts) -> JobVerdict:
    """Return the verdict on a training of which only stack samples are known."""
    judgement = judged(training, found.gpu_pct)
    told = cast("JobVerdict", judgement.to_json())
    own = [asdict(one) for one in found.evidence()]
    return cast(
        "JobVerdict",
        {
            **told,
            "sentence": f"{told['sentence']} {found.sentence}",
            "evidence": [*told["evidence"], *own],
            "missing": verdict["missing"],
        },
    )


def with_samples(cost: RecordingCost, found: Program | None) -> RecordingCost:
    """Return the cost of a recording with that of the samples that a program took of itself."""
    if found is None or not found.sampled_s:
        return cost
    return {**cost, "recorder_pct": (cost["recorder_pct"] or 0.0) + found.sampling_pct}
