"""Tests whether the machine delays the training: contention for cores, memory pressure and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted, ms, pct, sentence
from holter.analysis.verdict.result import SMALLER, SuspectResult

if TYPE_CHECKING:
    from holter.analysis.machine.load import Load
    from holter.analysis.verdict.job_facts import VerdictFacts

WAITS_FOR_CORE = 25.0
STOPPED = 10.0
QUOTA = 10.0
"""A CPU quota is named if it runs out in this percentage of the scheduling periods."""
OTHER_PROGRAM = 10.0
"""Other programs are named from this percentage of a core on."""
MOST_OF_THEM = 0.75
"""Programs that use this share of what all others use are named as all of them."""
PRESSURE = 10.0
MEMORY_FULL = 95.0
SWAPPED_BYTES = 2**28
MAJOR_FAULTS = 20.0
"""Page faults a second of a training thread that read from a disk; files in memory cause them, too."""
SWAP_IN = float(2**20)
"""Bytes a second."""
THROTTLED = 10.0


def contention(facts: VerdictFacts) -> SuspectResult:
    """The training is ready to run without a core for a quarter of the time or more, or it is stopped."""
    halted = next((one for one in facts.loads if (one.stopped_pct or 0.0) >= STOPPED), None)
    if halted is not None and halted.stopped_pct is not None:
        text = f"the training is stopped {pct(halted.stopped_pct)} of the time, as SIGSTOP and debuggers do"
        seen = facts.seen(text, "thread.stopped", halted.stopped_pct, STOPPED, halted.node)
        if worst := max(facts.stalls.values(), default=None):
            text += f" (step {worst.step} took {ms(worst.duration_ms)})"
        return SuspectResult(guilty=True, sentence=sentence(text), share=halted.stopped_pct, evidence=[seen])
    load = next((one for one in facts.loads if (one.trainer_delay or 0.0) >= WAITS_FOR_CORE), None)
    if load is None or load.trainer_delay is None:
        known = [one.trainer_delay for one in facts.loads if one.trainer_delay is not None]
        waits = f"the training waits for a core {pct(max(known, default=0.0))} of the time"
        if max(known, default=0.0) >= SMALLER:
            return facts.smaller(waits, max(known))
        return SuspectResult(because=waits if known else "")
    text = f"the training waits for a core {pct(load.trainer_delay)} of the time"
    evidence = [facts.seen(text, "proc.cpu.delay", load.trainer_delay, WAITS_FOR_CORE, load.node)]
    others = [(name, used) for name, used in load.others.items() if used >= OTHER_PROGRAM][:3]
    for name, used in others:
        also = f"{name} outside of the job uses {used / 100:.1f} cores"
        evidence.append(facts.seen(also, "other.cpu", used, None, name))
    quota = load.quota_ran_out_pct or 0.0
    if quota >= QUOTA:
        also = f"the CPU quota runs out in {pct(quota)} of the scheduling periods"
        evidence.append(facts.seen(also, "cgroup.throttled_pct", quota, QUOTA, load.node))
    limit = counted(load.cores, "core") if load.cores else "the cores"
    if load.crowded and load.wanted_cores is not None:
        also = f"the job's own threads want {load.wanted_cores:.1f} of {limit}{_wanted(load)}"
        evidence.append(facts.seen(also, "proc.runnable", load.wanted_cores, load.cores, load.node))
        text += f": {also}"
    elif others or (load.foreign_core or 0.0) >= OTHER_PROGRAM:
        text += f": {_others(load, others, limit)}"
    elif quota < QUOTA:
        text += "; no other program was seen on the cores"
    if quota >= QUOTA:
        text += f", and its quota runs out in {pct(quota)} of the scheduling periods"
    return SuspectResult(guilty=True, sentence=sentence(text), share=load.trainer_delay, evidence=evidence)


def _others(load: Load, named: list[tuple[str, float]], limit: str) -> str:
    """Return how many cores all other programs use, and the largest. Some run too shortly to be seen."""
    seen = sum(share for _, share in named)
    used = max(seen, load.foreign_core or 0.0)
    names = ", ".join(name for name, _ in named) or "each of them shortly"
    among = "among them " if named and seen < MOST_OF_THEM * used else ""
    return f"other programs use {used / 100:.1f} of {limit} ({among}{names})"


def _wanted(load: Load) -> str:
    """Return who wants the cores: the threads of the training processes, and the workers."""
    if not load.workers or load.worker_runnable is None:
        return ""
    training, workers = load.trainer_runnable or 0.0, counted(round(load.workers), "worker")
    return f" ({training:.1f} for training, {load.worker_runnable:.1f} for {workers})"


def memory_pressure(facts: VerdictFacts) -> SuspectResult:
    """A host swaps, or its tasks wait for memory."""
    for load in facts.loads:
        pressure, swap, used = load.memory_pressure_p50, load.swap_growth_bytes, load.memory_p95
        if pressure is not None and pressure >= PRESSURE:
            text = f"tasks on {load.node} wait for memory {pct(pressure)} of the time"
            found = facts.seen(text, "psi.mem", pressure, PRESSURE, load.node)
        elif (load.major_faults or 0.0) >= MAJOR_FAULTS and (load.swap_in or 0.0) >= SWAP_IN:
            faults, read = load.major_faults or 0.0, (load.swap_in or 0.0) / 2**20
            text = (
                f"{load.node} swaps: it reads {read:.1f} MiB a second back from swap, and a training thread "
                f"has {faults:,.0f} page faults a second that wait for a disk"
            )
            found = facts.seen(text, "thread.major_faults", faults, MAJOR_FAULTS, load.node)
        elif used is not None and used >= MEMORY_FULL and swap is not None and swap > SWAPPED_BYTES:
            text = f"the memory of {load.node} is {pct(used)} full, and {swap / 2**30:.1f} GiB went to swap"
            found = facts.seen(text, "mem.used_pct", used, MEMORY_FULL, load.node)
        else:
            continue
        return SuspectResult(guilty=True, sentence=sentence(text), evidence=[found])
    return SuspectResult()


def hardware(facts: VerdictFacts) -> SuspectResult:
    """Heat or a power fault lowers a GPU's clocks, or its memory has errors."""
    for load in facts.loads:
        throttled, errors = load.throttled_pct, load.ecc_errors
        if throttled is not None and throttled >= THROTTLED:
            gpu = f"{load.throttled_gpu} on {load.node}"
            text = f"heat or a power fault lowers the clocks of {gpu} {pct(throttled)} of the time"
            found = facts.seen(text, "gpu.throttle_reasons", throttled, THROTTLED, load.node)
        elif errors:
            text = f"a GPU on {load.node} had {counted(int(errors), 'uncorrected memory error')}"
            found = facts.seen(text, "gpu.ecc_uncorrected", errors, 0.0, load.node)
        else:
            continue
        return SuspectResult(guilty=True, sentence=sentence(text), evidence=[found])
    return SuspectResult()
