"""Advice on a machine that delays a training: contention for cores, memory pressure and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted, pct
from holter.analysis.verdict.machine_suspects import OTHER_PROGRAM, QUOTA, STOPPED
from holter.analysis.verdict.result import Advice

if TYPE_CHECKING:
    from holter.analysis.machine.load import Load
    from holter.analysis.verdict.job_facts import VerdictFacts


_OWN_THREADS = ("jax", "tensorflow")
"""Frameworks whose threads OMP_NUM_THREADS does not limit."""


def contention(facts: VerdictFacts) -> list[Advice]:
    """Advise on a training that shares its cores, has more threads than cores, or is stopped."""
    halted = max((one.stopped_pct or 0.0 for one in facts.loads), default=0.0)
    if halted >= STOPPED:
        text = "Let the training run (`kill -CONT PID`), and find out what stops it."
        return [Advice(text, None, f"it is stopped {pct(halted)} of the time")]
    load = max(facts.loads, key=lambda one: one.trainer_delay or 0.0)
    step, delay = facts.mean_step_ms, load.trainer_delay or 0.0
    why = f"the training waits for a core {pct(delay)} of the time"
    if (load.quota_ran_out_pct or 0.0) >= QUOTA:
        return [
            Advice("Raise the CPU quota, or use fewer threads and workers.", None, why),
            *_fewer(facts, load),
        ]
    if load.crowded and (fewer := _fewer(facts, load)):
        return fewer
    expected = None if step is None else step * (1 - delay / 100)
    text = "Stop the other programs, or give the job cores of its own (taskset, cgroups, the scheduler)."
    if not load.others and (load.foreign_core or 0.0) < OTHER_PROGRAM:
        variable = "" if facts.framework in _OWN_THREADS else "OMP_NUM_THREADS or "
        text = (
            f"Lower {variable}num_workers if the job has more threads and processes than cores; in a "
            "container, check its CPU quota."
        )
    return [Advice(text, expected, why)]


def _fewer(facts: VerdictFacts, load: Load) -> list[Advice]:
    """Advise on the setting that starts more threads or workers than there are cores."""
    cores, found = int(load.cores or 0), []
    local = max(len(facts.ranks) // max(len(facts.loads), 1), 1)
    training, workers = load.trainer_runnable or 0.0, load.worker_runnable or 0.0
    if cores and training > max(cores, local) and facts.framework not in _OWN_THREADS:
        each = max(cores // local, 1)
        text = f"Use {counted(each, 'thread')} per training process: OMP_NUM_THREADS={each}."
        why = f"the threads of the training want {training:.1f} of {counted(cores, 'core')}"
        found.append(Advice(text, None, why))
    most = max((cores - local) // local, 1) if cores else 0
    each_has = round((load.workers or 0.0) / local)
    if most and workers > 1 and each_has > most:
        text = f"Lower num_workers from {each_has} to {most}."
        why = f"the workers want {workers:.1f} of {counted(cores, 'core')}, and the training needs one, too"
        found.append(Advice(text, None, why))
    return found


def memory_pressure(_: VerdictFacts) -> list[Advice]:
    """Advise on a host with too little memory."""
    text = "Use less host memory: fewer workers or smaller caches. Or use a larger machine."
    return [Advice(text, None, "the host swaps or waits for memory")]


def hardware(facts: VerdictFacts) -> list[Advice]:
    """Advise on a machine with faults."""
    load = facts.load
    where = f"{load.throttled_gpu or 'the GPUs'} of {load.node}" if load else "the machine"
    text = f"Check cooling, power and memory of {where}."
    return [Advice(text, None, "the clocks or the memory report faults")]
