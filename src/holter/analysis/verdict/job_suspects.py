"""The suspects of a recorded job. Each test returns a sentence and evidence, or why it is not guilty."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holter.analysis.jobs.stragglers import place_text, slow_together
from holter.analysis.loading.dataloading import HAND_OVER_MS
from holter.analysis.slow_group import ranks_text
from holter.analysis.verdict.evidence import Evidence, capitalized, counted, ms, part_name, pct
from holter.analysis.verdict.loop_suspects import NAMED, checkpointing, evaluation, own_code, sampled
from holter.analysis.verdict.machine_suspects import contention, hardware, memory_pressure
from holter.analysis.verdict.pipeline_advice import slow_stage
from holter.analysis.verdict.result import (
    BOTTLENECK,
    COMMUNICATION_SHARE,
    GPU_BUSY,
    GPU_SATURATED,
    SMALLER,
    SuspectResult,
)
from holter.analysis.verdict.what_if_verdict import faster

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.jobs.stragglers import Straggler
    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.machine.load import Load
    from holter.analysis.steps.named_work import NamedWork
    from holter.analysis.verdict.job_facts import VerdictFacts

DATA_SHARE = BOTTLENECK
DATA_INNOCENT = 20.0
"""Below this share, data loading does not explain idle GPUs."""
CPU_BUSY = 70.0
WAITS_FOR_IO = 30.0
SMALL_KERNEL_US = 20.0
IDLE_IN_COMPUTE = 30.0
CORE_FULL = 90.0
NODE_IDLE = 50.0
_MOST_COLLECTIVES = 3

_STAGES = {
    "fetch": "building batches",
    "collate": "collating samples",
    "queue": "transferring batches from the workers",
}


def data_pipeline(facts: VerdictFacts) -> SuspectResult:
    """Data loading takes 30 % of the time or more, and the GPUs, if any, are not busy."""
    share = facts.share("data_loading")
    load, loading = facts.load, facts.loading
    gpu = load.gpu_p50 if load else None
    of = facts.of_time("data_loading")
    if share < SMALLER:
        return SuspectResult(because=f"data loading takes {pct(share)} {of}")
    if gpu is not None and gpu >= GPU_BUSY:
        return SuspectResult(
            because=f"the GPUs are busy {pct(gpu)} (median) while the training waits for batches"
        )
    if facts.device_pct is not None and facts.device_pct >= GPU_BUSY:
        # Calls return at once: the host loads batches while the device computes.
        return SuspectResult(
            because=f"the device computes {pct(facts.device_pct)} of the time while the host loads batches"
        )
    iterators = [one for one in facts.own_code if one.iterates and one.pct >= NAMED]
    if share < DATA_SHARE:
        text = f"data loading takes {pct(share)} {of}"
        if iterators and (loading is None or loading.share_pct < share / 2):
            text += f": {iterators[0].text}"
        return facts.smaller(text, share)
    wait, step = facts.mean_ms("data_loading"), facts.whole_step_ms
    text = f"data loading takes {pct(share)} {of}: {ms(wait)} of {ms(step)} on average"
    evidence = [facts.seen(text, "data_loading", share, DATA_SHARE)]
    said = f"Data loading takes {pct(share)} {facts.of_time_with_stall('data_loading')}"
    if loading is not None:
        named = _named(facts, loading)
        evidence += _restarts(facts, loading) + [item for _, item in named] + _workers(facts, loading)
        blamed = ", ".join(text for text, item in named[:2] if item.value >= 1)
        largest = max(loading.stages, key=lambda stage: loading.stages[stage], default="")
        collates = largest == "collate" and loading.stages[largest] > sum(item.value for _, item in named)
        anew = loading.restart_ms > wait / 2
        if anew or (largest and (collates or not blamed)):
            blamed = f"mostly {'restarting workers' if anew else _STAGES.get(largest, largest)}"
        said += f": {blamed}" if blamed else ""
    stages = [one for one in facts.named_work if one.part == "data_loading"]
    for one in stages:
        evidence.append(
            facts.seen(f"{one.name} takes {pct(one.pct)} {of}", "named_work", one.pct, None, one.name)
        )
    if stages and ": " not in said:
        said += f": {', '.join(f'{one.name} {pct(one.pct)}' for one in stages[:2])}"
    if facts.pipeline is not None and (slow := slow_stage(facts, facts.pipeline)) is not None:
        said += f": {slow[0]}" if ": " not in said else ""
        evidence.append(slow[1])
    evidence += [sampled(facts, one) for one in iterators]
    if iterators and (loading is None or loading.share_pct < share / 2):
        said += f": {iterators[0].text}"
    if load is not None:
        evidence += _machine(facts, load)
    share = facts.breakdown["data_loading"]
    return SuspectResult(guilty=True, sentence=f"{said}.", share=share, evidence=evidence)


def _named(facts: VerdictFacts, loading: DataLoading) -> list[tuple[str, Evidence]]:
    """Name the callables that build batches, each with its share of the loop."""
    sampled_pct: dict[str, float] = defaultdict(float)
    for item in loading.callables:
        for stage, percent in item.stages.items():
            sampled_pct[stage] += percent
    found = []
    for item in loading.callables[:4]:
        part = sum(
            loading.stages.get(stage, 0.0) * percent / sampled_pct[stage]
            for stage, percent in item.stages.items()
        )
        text = (
            f"{item.stage} in {item.name} takes {pct(part)} {facts.of_time('data_loading')} and "
            f"{pct(item.fetch_pct)} of the time to build a batch"
        )
        if item.fetch_pct >= 5:
            short = f"{item.stage} in {item.name} {pct(part)}"
            found.append((short, facts.seen(text, "dataloading.callable", part, None, item.name)))
    return found


def _restarts(facts: VerdictFacts, loading: DataLoading) -> list[Evidence]:
    if not loading.restarts:
        return []
    share = loading.share_pct * loading.restart_ms / loading.mean_wait_ms
    text = f"ending workers and starting them anew takes {pct(share)} of the loop's time"
    return [facts.seen(text, "worker_restarts", share)]


def _workers(facts: VerdictFacts, loading: DataLoading) -> list[Evidence]:
    needed, fetch = loading.needed_workers, loading.fetch_ms
    if needed is None or fetch is None or (fetch < HAND_OVER_MS and not loading.workers):
        return []
    there = "an unknown number of workers" if loading.workers is None else counted(loading.workers, "worker")
    cpus = facts.load.cpus if facts.load else None
    takes = counted(needed, "worker")
    if cpus is not None and needed > cpus:
        takes = f"more workers than the machine has cores ({cpus:g})"
    text = (
        f"a worker builds a batch in {ms(fetch)} and compute takes {ms(loading.compute_ms)}: hiding the "
        f"loading takes {takes}, and the loader has {there}"
    )
    return [facts.seen(text, "needed_workers", needed, loading.workers)]


def _machine(facts: VerdictFacts, load: Load) -> list[Evidence]:
    """Return readings of the machine that point to data loading."""
    found = [] if load.gpu_p50 is None else [_gpus_busy(facts, load, load.gpu_p50)]
    if load.cpu_p95 is not None and load.cpu_p95 > CPU_BUSY:
        text = f"the CPU is busy {pct(load.cpu_p95)} (p95)"
        found.append(facts.seen(text, "cpu.util", load.cpu_p95, CPU_BUSY, load.node))
    if load.iowait_p95 is not None and load.iowait_p95 > WAITS_FOR_IO:
        text = f"cores wait for I/O {pct(load.iowait_p95)} of the time (p95)"
        found.append(facts.seen(text, "cpu.iowait", load.iowait_p95, WAITS_FOR_IO, load.node))
    return found


def _gpus_busy(facts: VerdictFacts, load: Load, gpu: float, limit: float = GPU_BUSY) -> Evidence:
    return facts.seen(f"the GPUs are busy {pct(gpu)} (median)", "gpu.util", gpu, limit, load.node)


def model_compute(facts: VerdictFacts) -> SuspectResult:
    """The GPUs are saturated."""
    parts = ("forward", "loss", "backward", "compute")
    share, of = facts.share(*parts), facts.of_time(*parts)
    load = facts.load
    gpu = load.gpu_p50 if load else None
    if load is None or gpu is None:
        small = share < BOTTLENECK and "forward" not in facts.not_seen
        what = "compute takes" if "compute" in facts.observed else "forward and backward take"
        return SuspectResult(because=f"{what} {pct(share)} {of}" if small else "")
    if gpu < GPU_BUSY:
        return SuspectResult(because=f"the GPUs are busy only {pct(gpu)} (median)")
    if gpu < GPU_SATURATED or facts.share("data_loading") >= DATA_INNOCENT:
        return SuspectResult(
            because=f"the GPUs are busy {pct(gpu)} (median), which is well used but not saturated"
        )
    stall = facts.of_time_with_stall(*parts)
    said = (
        f"The model's compute sets the pace: {pct(share)} {stall} is forward and backward, and the GPUs are "
        f"busy {pct(gpu)} (median)."
    )
    evidence = [
        _gpus_busy(facts, load, gpu, GPU_SATURATED),
        facts.seen(f"forward and backward take {pct(share)} {of}", "forward+backward", share),
    ]
    return SuspectResult(guilty=True, sentence=said, share=share, evidence=evidence)


def communication(facts: VerdictFacts) -> SuspectResult:
    """One rank slows the others down, or exposed communication takes 15 % of the time or more."""
    if facts.stragglers:
        return _straggler(facts, slow_together(facts.stragglers))
    share, load, of = facts.share("communication"), facts.load, facts.of_time("communication")
    if len(facts.ranks) < 2 and share == 0:
        return SuspectResult(because="the job has only one rank")
    if share < SMALLER:
        return SuspectResult(because=f"exposed communication takes {pct(share)} {of}")
    if share < COMMUNICATION_SHARE:
        return facts.smaller(f"exposed communication takes {pct(share)} {of}", share)
    if load is not None and load.iowait_p95 is not None and load.iowait_p95 > WAITS_FOR_IO:
        return SuspectResult(because=f"cores wait for I/O {pct(load.iowait_p95)} of the time (p95)")
    exposed, step = facts.mean_ms("communication"), facts.whole_step_ms
    text = f"exposed communication takes {pct(share)} {of}: {ms(exposed)} of {ms(step)} on average"
    evidence = [facts.seen(text, "communication", share, COMMUNICATION_SHARE)]
    if load is not None and load.gpu_p50 is not None:
        evidence.append(_gpus_busy(facts, load, load.gpu_p50))
    stall = facts.of_time_with_stall("communication")
    said = f"Exposed communication takes {pct(share)} {stall}: {ms(exposed)} of {ms(step)} on average."
    named, waits = collectives(facts), ""
    if named and named[0].pct > share / 2:
        waits = f" in {named[0].name}"
    if facts.what_if and (without := facts.what_if.without("communication")):
        moved = min(facts.what_if.step_ms - without.step_ms, exposed)
        text = (
            f"the transfer takes {ms(moved)} of it, and waiting for the rank that comes last takes "
            f"{ms(exposed - moved)}"
        )
        evidence.append(facts.seen(text, "communication.waiting_ms", exposed - moved))
        if moved < exposed / 2:
            waits = " waiting for the rank that comes last"
        if alone := facts.awaited_evaluation:
            evaluate = "evaluates" if len(alone.ranks) == 1 else "evaluate"
            waits = f" waiting while only {ranks_text(alone.ranks)} {evaluate}"
    if waits:
        said = f"{said[:-1]}, most of it{waits}."
    for one in named[:_MOST_COLLECTIVES]:
        text = f"waiting in {one.name} takes {pct(one.pct)} of the loop's time"
        evidence.append(facts.seen(text, "named_work", one.pct, None, one.name))
    share = facts.breakdown["communication"]
    return SuspectResult(guilty=True, sentence=said, share=share, evidence=evidence)


def collectives(facts: VerdictFacts) -> list[NamedWork]:
    """Return the collectives that the ranks wait in, the longest first."""
    return [one for one in facts.named_work if one.part == "communication"]


def _straggler(facts: VerdictFacts, group: list[Straggler]) -> SuspectResult:
    slow, alone = group[0], len(group) == 1
    rank, where = ranks_text([one.rank for one in group]), place_text(group)
    its, that, there = ("its", "takes", "this rank") if alone else ("their", "takes up to", "these ranks")
    times = f"{its} own work {that} {ms(slow.own_ms)} per step, and that of the others {ms(slow.others_ms)}"
    part = f"{part_name(slow.part)} takes {ms(slow.part_ms)} longer"
    waits = f"the other ranks spend {ms(slow.waiting_ms)} more per step in communication than {rank}"
    who = f"{capitalized(rank)} slows" if alone else f"{capitalized(where)} slow"
    gain = facts.what_if and facts.what_if.without("rank", "ranks")
    replayed = []
    if facts.what_if and gain:
        text = f"without the extra work of {gain.name} {faster(facts.what_if, gain)}"
        replayed = [facts.seen(text, "what_if.speedup", gain.speedup, 1.0, rank)]
    return SuspectResult(
        guilty=True,
        sentence=f"{who} the training down: {times}. On {there}, {part}.",
        share=100 * slow.cost,
        evidence=[
            *replayed,
            facts.seen(
                f"{where} {'is' if alone else 'are'} slow: {times}; {part}",
                "own_ms",
                slow.own_ms,
                slow.others_ms,
                rank,
            ),
            facts.seen(waits, "communication", slow.waiting_ms, None, rank),
        ],
    )


def framework_overhead(facts: VerdictFacts) -> SuspectResult:
    """Python cannot keep up: the GPUs idle during compute while one core is saturated and the node is not."""
    load, kernels = facts.load, facts.kernels
    gpu = load.gpu_p50 if load else None
    if load is None or gpu is None:
        return SuspectResult(
            because="not applicable: the training uses no GPU" if facts.device == "cpu" else ""
        )
    data, of, compute = facts.share("data_loading"), facts.of_time("data_loading"), facts.compute_share
    if data >= DATA_INNOCENT:
        return SuspectResult(because=f"the GPUs wait for data loading, which takes {pct(data)} {of}")
    if gpu >= GPU_BUSY:
        return SuspectResult(because=f"the GPUs are busy {pct(gpu)} (median)")
    if kernels is not None and kernels.median_us >= SMALL_KERNEL_US:
        return SuspectResult(
            because=f"the median kernel takes {kernels.median_us:.0f} us, which is long enough"
        )
    # Without a trace, GPUs that work throughout compute are as busy as compute is long.
    idle = kernels.idle_pct if kernels else max(100.0 * (1 - gpu / compute), 0.0) if compute > 0 else 0.0
    if idle < IDLE_IN_COMPUTE:
        return SuspectResult(
            because=f"the GPUs idle {pct(idle)} of the compute time, less than {pct(IDLE_IN_COMPUTE)}"
        )
    core = max(load.trainer_core_p50 or 0.0, load.busiest_core_p50 or 0.0)
    if core < CORE_FULL or load.cpu_p50 is None or load.cpu_p50 >= NODE_IDLE:
        return SuspectResult(
            because=f"no core is saturated on an idle node: the busiest core is at {pct(core)}"
        )
    node = load.cpu_p50
    evidence = [
        facts.seen(
            f"the GPUs idle {pct(idle)} of the compute time", "gpu.idle", idle, IDLE_IN_COMPUTE, load.node
        ),
        facts.seen(f"one core is busy {pct(core)} (median)", "cpu.core.util", core, CORE_FULL, load.node),
        facts.seen(f"the node's CPU is busy {pct(node)} (median)", "cpu.util", node, NODE_IDLE, load.node),
    ]
    if kernels is not None:
        text = f"the median kernel takes {kernels.median_us:.0f} us"
        evidence.append(facts.seen(text, "kernel.median_us", kernels.median_us, SMALL_KERNEL_US))
    said = (
        f"Python cannot keep the GPUs busy: they idle {pct(idle)} of the compute time, while one core is at "
        f"{pct(core)} and the whole node at {pct(node)}."
    )
    return SuspectResult(guilty=True, sentence=said, share=compute * idle / 100, evidence=evidence)


TESTS: dict[str, Callable[[VerdictFacts], SuspectResult]] = {
    "data_pipeline": data_pipeline,
    "model_compute": model_compute,
    "communication": communication,
    "framework_overhead": framework_overhead,
    "checkpointing": checkpointing,
    "evaluation": evaluation,
    "own_code": own_code,
    "contention": contention,
    "memory_pressure": memory_pressure,
    "hardware": hardware,
}
