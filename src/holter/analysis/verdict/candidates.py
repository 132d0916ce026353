"""The four classic suspects, each with its test: guilty with a sentence and evidence, or not and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holter.analysis.loading.dataloading import HAND_OVER_MS
from holter.analysis.verdict.evidence import Evidence, counted, ms, part_name, pct, seen

if TYPE_CHECKING:
    from holter.analysis.jobs.stragglers import Straggler
    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.machine.load import Load
    from holter.analysis.verdict.facts import Facts

DATA_SHARE = 30.0
DATA_INNOCENT = 20.0
"""Below this share data loading is excluded, and other suspects may be looked at."""
GPU_BUSY = 70.0
GPU_SATURATED = 95.0
CPU_BUSY = 70.0
WAITS_FOR_IO = 30.0
COMMUNICATION_SHARE = 15.0
BASELINE = 1.2
SMALL_KERNEL_US = 20.0
IDLE_IN_COMPUTE = 30.0
CORE_FULL = 90.0
NODE_IDLE = 50.0

_STAGES = {
    "fetch": "building batches",
    "collate": "joining samples to batches",
    "queue": "batches on their way from the workers",
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What the test of one suspect came to."""

    guilty: bool = False
    sentence: str = ""
    share: float | None = None
    """Percent of the loop that it is about."""
    evidence: list[Evidence] = field(default_factory=list)
    because: str = ""
    """Why it is not guilty; empty when there is nothing to say."""


def data_pipeline(facts: Facts) -> Candidate:
    """Data loading takes 30 % of the step and more, and the GPUs, if there are any, are not busy."""
    share = facts.share("data_loading")
    load, loading = facts.load, facts.loading
    gpu = load.gpu_p50 if load else None
    if share < DATA_SHARE:
        return Candidate(because=f"data loading takes {pct(share)} of the step, less than {pct(DATA_SHARE)}")
    if gpu is not None and gpu >= GPU_BUSY:
        return Candidate(because=f"the GPUs are busy {pct(gpu)} (median) although batches are waited for")
    wait, step = facts.mean_ms("data_loading"), facts.mean_step_ms or 0.0
    text = f"data loading takes {pct(share)} of the step: {ms(wait)} of {ms(step)} on average"
    evidence = [seen(facts, text, "data_loading", share, DATA_SHARE)]
    sentence = f"Data loading takes {pct(share)} {facts.of_time('data_loading')}"
    if loading is not None:
        named = _named(facts, loading)
        evidence += [item for _, item in named] + _workers(facts, loading)
        blamed = ", ".join(text for text, item in named[:2] if item.value >= 1)
        if not blamed and loading.stages:
            largest = max(loading.stages, key=lambda stage: loading.stages[stage])
            anew = loading.epoch_start_ms > facts.mean_ms("data_loading") / 2
            blamed = f"mostly {'starting workers anew' if anew else _STAGES.get(largest, largest)}"
        sentence += f": {blamed}" if blamed else ""
    if load is not None:
        evidence += _machine(facts, load)
    share = facts.breakdown["data_loading"]
    return Candidate(guilty=True, sentence=f"{sentence}.", share=share, evidence=evidence)


def _named(facts: Facts, loading: DataLoading) -> list[tuple[str, Evidence]]:
    """Name the callables that the dataset's time goes into, each with its share of the step."""
    fetch = sum(loading.stages.get(stage, 0.0) for stage in ("read", "decode", "transform"))
    found = []
    for item in loading.callables[:4]:
        part = fetch * item.fetch_pct / 100
        text = (
            f"{item.stage} in {item.name} takes {pct(part)} of the step, "
            f"{pct(item.fetch_pct)} of the time for a batch"
        )
        if item.fetch_pct >= 5:
            short = f"{item.stage} in {item.name} {pct(part)}"
            found.append((short, seen(facts, text, "dataloading.callable", part, None, item.name)))
    return found


def _workers(facts: Facts, loading: DataLoading) -> list[Evidence]:
    needed, fetch = loading.needed_workers, loading.fetch_ms
    if needed is None or fetch is None or (fetch < HAND_OVER_MS and not loading.workers):
        return []
    there = "an unknown number" if loading.workers is None else loading.workers
    text = (
        f"a batch takes one worker {ms(fetch)}, compute takes {ms(loading.compute_ms)}: "
        f"hiding it takes {counted(needed, 'worker')}, there {'is' if there == 1 else 'are'} {there}"
    )
    return [seen(facts, text, "needed_workers", needed, loading.workers)]


def _machine(facts: Facts, load: Load) -> list[Evidence]:
    """Say what of the machine's load speaks for data loading."""
    found = []
    if load.gpu_p50 is not None:
        text = f"GPUs are busy {pct(load.gpu_p50)} (median)"
        found.append(seen(facts, text, "gpu.util", load.gpu_p50, GPU_BUSY, load.node))
    if load.cpu_p95 is not None and load.cpu_p95 > CPU_BUSY:
        text = f"the CPU is busy {pct(load.cpu_p95)} (p95)"
        found.append(seen(facts, text, "cpu.util", load.cpu_p95, CPU_BUSY, load.node))
    if load.iowait_p95 is not None and load.iowait_p95 > WAITS_FOR_IO:
        text = f"cores wait for I/O {pct(load.iowait_p95)} of the time (p95)"
        found.append(seen(facts, text, "cpu.iowait", load.iowait_p95, WAITS_FOR_IO, load.node))
    return found


def model_compute(facts: Facts) -> Candidate:
    """Forward or backward is slower than a baseline's, or the GPUs are saturated."""
    share = facts.share("forward", "loss", "backward")
    slower = _slower(facts)
    if slower:
        sentence = f"{slower[0].text[0].upper()}{slower[0].text[1:]}."
        return Candidate(guilty=True, sentence=sentence, share=share, evidence=slower)
    load = facts.load
    gpu = load.gpu_p50 if load else None
    if load is None or gpu is None:
        told = share < 50 and "forward" not in facts.not_seen
        said = f"forward and backward take {pct(share)} of the step" if told else ""
        if facts.baseline is not None:
            said = "forward and backward are no slower than the baseline's"
        return Candidate(because=said)
    if gpu < GPU_BUSY:
        return Candidate(because=f"the GPUs are busy only {pct(gpu)} (median)")
    if gpu < GPU_SATURATED or facts.share("data_loading") >= DATA_INNOCENT:
        return Candidate(because=f"the GPUs are busy {pct(gpu)} (median): well used, not saturated")
    sentence = (
        f"The model itself sets the pace: {pct(share)} {facts.of_time('forward', 'backward')} is forward "
        f"and backward, and the GPUs are busy {pct(gpu)}."
    )
    evidence = [
        seen(facts, f"GPUs are busy {pct(gpu)} (median)", "gpu.util", gpu, GPU_SATURATED, load.node),
        seen(facts, f"forward and backward take {pct(share)} of the step", "forward+backward", share),
    ]
    return Candidate(guilty=True, sentence=sentence, share=share, evidence=evidence)


def _slower(facts: Facts) -> list[Evidence]:
    """Compare forward and backward with the baseline's; the worse one first."""
    found = []
    for part in ("forward", "backward"):
        now = facts.parts_ms.get(part, 0.0)
        then = facts.baseline.parts_ms.get(part, 0.0) if facts.baseline else 0.0
        if then > 0 and now > BASELINE * then:
            text = f"{part} takes {ms(now)}, {now / then:.1f} times the baseline's {ms(then)}"
            found.append(seen(facts, text, part, now / then, BASELINE))
    return sorted(found, key=lambda item: -item.value)


def communication(facts: Facts) -> Candidate:
    """One rank holds the others up, or 15 % of the step and more is communication that nothing hides."""
    if facts.stragglers:
        return _straggler(facts, facts.stragglers[0])
    share, load = facts.share("communication"), facts.load
    if len(facts.ranks) < 2 and share == 0:
        return Candidate(because="there is one rank only")
    if share < COMMUNICATION_SHARE:
        said = f"exposed communication takes {pct(share)} of the step, less than {pct(COMMUNICATION_SHARE)}"
        return Candidate(because=said)
    if load is not None and load.iowait_p95 is not None and load.iowait_p95 > WAITS_FOR_IO:
        return Candidate(because=f"cores wait for I/O {pct(load.iowait_p95)} of the time (p95)")
    exposed, step = facts.mean_ms("communication"), facts.mean_step_ms or 0.0
    text = f"waiting for other ranks takes {pct(share)} of the step: {ms(exposed)} of {ms(step)}"
    evidence = [seen(facts, text, "communication", share, COMMUNICATION_SHARE)]
    if load is not None and load.gpu_p50 is not None:
        gpu = f"GPUs are busy {pct(load.gpu_p50)} (median)"
        evidence.append(seen(facts, gpu, "gpu.util", load.gpu_p50, GPU_BUSY, load.node))
    sentence = (
        f"Communication that nothing hides takes {pct(share)} {facts.of_time('communication')}: "
        f"{ms(exposed)} of {ms(step)}."
    )
    share = facts.breakdown["communication"]
    return Candidate(guilty=True, sentence=sentence, share=share, evidence=evidence)


def _straggler(facts: Facts, slow: Straggler) -> Candidate:
    rank = f"rank {slow.rank}"
    where = f"{rank} on {slow.node}" if slow.node else rank
    inside = f"{ms(slow.part_ms)} of the difference are in {part_name(slow.part)}"
    own = f"own work of {where} takes {ms(slow.own_ms)} a step, the others' {ms(slow.others_ms)}; {inside}"
    waits = f"the others wait {ms(slow.waiting_ms)} longer for communication than {rank}"
    return Candidate(
        guilty=True,
        sentence=f"Rank {slow.rank} holds the training up: its own work takes {ms(slow.own_ms)} a step, "
        f"the others' {ms(slow.others_ms)}; {inside}.",
        share=100 * slow.cost,
        evidence=[
            seen(facts, own, "own_ms", slow.own_ms, slow.others_ms, rank),
            seen(facts, waits, "communication", slow.waiting_ms, None, rank),
        ],
    )


def framework_overhead(facts: Facts) -> Candidate:
    """The GPU idles within compute while one core is full and the node is not: Python cannot keep up."""
    load, kernels = facts.load, facts.kernels
    gpu = load.gpu_p50 if load else None
    if load is None or gpu is None:
        return Candidate(because="no GPU waits for Python" if facts.device == "cpu" else "")
    data, compute = facts.share("data_loading"), facts.compute_share
    if data >= DATA_INNOCENT:
        return Candidate(because=f"data loading takes {pct(data)} of the step: the GPUs wait for that")
    if gpu >= GPU_BUSY:
        return Candidate(because=f"the GPUs are busy {pct(gpu)} (median)")
    if kernels is not None and kernels.median_us >= SMALL_KERNEL_US:
        return Candidate(because=f"the median kernel takes {kernels.median_us:.0f} us: none too small")
    # Without a trace: had the GPUs worked all through compute, they would be as busy as compute is long.
    idle = kernels.idle_pct if kernels else max(100.0 * (1 - gpu / compute), 0.0) if compute > 0 else 0.0
    if idle < IDLE_IN_COMPUTE:
        return Candidate(because=f"the GPUs idle {pct(idle)} of compute, less than {pct(IDLE_IN_COMPUTE)}")
    core = max(load.trainer_core_p50 or 0.0, load.busiest_core_p50 or 0.0)
    if core < CORE_FULL or load.cpu_p50 is None or load.cpu_p50 >= NODE_IDLE:
        return Candidate(because=f"no single core is full on an idle node: the busiest is at {pct(core)}")
    node = load.cpu_p50
    evidence = [
        seen(facts, f"the GPUs idle {pct(idle)} of compute", "gpu.idle", idle, IDLE_IN_COMPUTE, load.node),
        seen(facts, f"one core is busy {pct(core)} (median)", "cpu.core.util", core, CORE_FULL, load.node),
        seen(facts, f"the node's CPU is busy {pct(node)} (median)", "cpu.util", node, NODE_IDLE, load.node),
    ]
    if kernels is not None:
        text = f"the median kernel takes {kernels.median_us:.0f} us"
        evidence.append(seen(facts, text, "kernel.median_us", kernels.median_us, SMALL_KERNEL_US))
    sentence = (
        f"Python cannot keep the GPUs busy: they idle {pct(idle)} of forward, backward and optimizer, "
        f"while one core is at {pct(core)} and the node at {pct(node)}."
    )
    return Candidate(guilty=True, sentence=sentence, share=compute * idle / 100, evidence=evidence)
