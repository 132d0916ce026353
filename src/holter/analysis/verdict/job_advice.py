"""Advice on a recorded job, with the expected step time, computed from the job's own numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.analysis.loading.dataloading import HAND_OVER_MS
from holter.analysis.verdict.evidence import counted, ms, part_name, pct
from holter.analysis.verdict.result import Advice

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.loading.stacks import SampledCallable
    from holter.analysis.verdict.job_facts import VerdictFacts

_WORTH = 0.97
"""Advice must save at least 3 % of the step."""
_NAMED = 10.0
"""Advice names callables from this percentage of the fetch on."""
_CPU_FULL = 95.0


RECORD_STEPS = (
    "start the training with `holter run -- python train.py`, and if it has a loop of its own, mark the "
    "steps with `with holter.step():`"
)
"""How to record steps, for a job without steps."""
TREES = ("xgboost", "lightgbm")
"""Frameworks that grow trees."""
FEWER_EVALUATIONS = "Evaluate less often, on fewer batches, or with larger batches."
_FEWER_TREE_EVALUATIONS = (
    "Evaluate less: leave the training data out of the evaluation sets, use a sample of the validation data, "
    "or compute fewer metrics."
)


def data_pipeline(facts: VerdictFacts) -> list[Advice]:
    """Advise on slow data loading: prepare expensive work in advance, or use more workers."""
    # Steps that wait for several workers in turn are long and short: their mean is the pace of the workers.
    step, loading = facts.mean_step_ms, facts.loading
    if step is None:
        return []
    if loading is None or loading.fetch_ms is None:
        rest = facts.rest_ms or 0.0
        why = f"without the wait for batches a step takes {ms(rest)}"
        text = "Load the next batch while this one trains: use a DataLoader with workers."
        return [Advice(text, rest, why)]
    pipeline = _Pipeline.of(facts, loading, step)
    advice = [_prepared(pipeline, [item]) for item in pipeline.expensive]
    # Reading stays: prepared data are read, too.
    work = [item for item in pipeline.expensive if item.stage != "read"]
    if len(work) > 1:
        advice.append(_prepared(pipeline, work))
    if not pipeline.workers and loading.fetch_ms < HAND_OVER_MS:
        why = (
            f"workers would not help: building a batch takes {ms(loading.fetch_ms)}, and receiving one from "
            f"a worker takes about {ms(HAND_OVER_MS)}"
        )
        text = (
            "Build each batch at once: index whole tensors (a DataLoader with batch_size=None), or use "
            "larger batches."
        )
        advice.append(Advice(text, None, why))
    else:
        advice += _more_workers(facts, pipeline) or _no_workers(facts, pipeline)
    if loading.epoch_start_ms > 0 and loading.workers and not loading.persistent_workers:
        why = f"restarting them takes {ms(loading.epoch_start_ms)} per step on average"
        expected = step - loading.epoch_start_ms
        advice.append(Advice("Keep the workers between epochs: persistent_workers=True.", expected, why))
    return [a for a in advice if a.expected_step_ms is None or a.expected_step_ms < _WORTH * step]


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """Model of data loading: a step takes as long as the slower of compute and workers."""

    step: float
    rest: float
    """Duration of the step without the wait, ms."""
    handover: float
    """Cost of receiving a batch that is ready, ms."""
    fetch: float
    """Time of one worker to fetch the batches of one step, ms."""
    collate: float
    workers: int
    strain: float
    """Measured step time over `fetch / workers`: how much the workers slow one another down."""
    expensive: list[SampledCallable]

    @classmethod
    def of(cls, facts: VerdictFacts, loading: DataLoading, step: float) -> _Pipeline:
        fetch = (loading.fetch_ms or 0.0) * loading.batches_per_step
        workers = loading.workers or 0
        queue = step * loading.stages.get("queue", 0.0) / 100
        strain = 1.0
        if workers and fetch and (loading.busy_pct or 0.0) > 70:
            strain = min(max(step / (fetch / workers), 1.0), 3.0)
        return cls(
            step=step,
            rest=facts.free_rest_ms or 0.0,
            handover=min(loading.handover_ms, queue),
            fetch=fetch,
            collate=min(loading.collate_ms * loading.batches_per_step, fetch),
            workers=workers,
            strain=strain,
            expensive=[item for item in loading.callables if item.fetch_pct >= _NAMED][:3],
        )

    def expected(self, *, fetch: float | None = None, workers: int | None = None) -> float:
        """Return the step time for a fetch of `fetch` ms, or for another number of workers."""
        fetch = self.fetch if fetch is None else fetch
        workers = self.workers if workers is None else workers
        if not workers:
            return self.rest + fetch
        handover = self.handover if self.workers else HAND_OVER_MS
        return max(self.rest + handover, self.strain * fetch / workers)


def _prepared(pipeline: _Pipeline, items: list[SampledCallable]) -> Advice:
    removed = sum(item.fetch_pct for item in items) / 100
    left = pipeline.fetch - removed * (pipeline.fetch - pipeline.collate)
    expected = pipeline.expected(fetch=left)
    names = " and ".join(item.name for item in items)
    stages = {item.stage for item in items}
    if stages == {"transform"}:
        text = f"Take {names} out of the data loading: cache its result, run it on the GPU, or speed it up."
    elif stages == {"read"}:
        text = f"Make the reads of {names} faster: use a local copy, larger files, or a cache in memory."
    else:
        text = f"Prepare the data once, before the training, instead of running {names} on every access."
    shared = f", shared by {counted(pipeline.workers, 'worker')}" if pipeline.workers else ""
    why = (
        f"it takes {100 * removed:.0f} % of a fetch of {ms(pipeline.fetch)}; without it a fetch takes "
        f"{ms(left)}{shared}, and the rest of the step takes {ms(pipeline.rest)}"
    )
    return Advice(text, expected, why)


def own_code(facts: VerdictFacts) -> list[Advice]:
    """Advise on the functions of the training that take the time."""
    step = facts.mean_step_ms
    found = []
    for one in [one for one in facts.own_code if not one.iterates][:2]:
        expected = None if step is None else step * (1 - one.pct / 100)
        text = f"Shorten {one.place}, or call it less often."
        if one.waits_in == "garbage collection":
            text = f"Do not collect garbage in every step: {one.place}."
        elif one.waits_in in ("sleep", "lock", "queue", "input"):
            text = f"Remove the wait in {one.place}, or find out what it waits for."
        elif one.waits_in:
            text = f"Move the {one.waits_in} access of {one.place} out of the loop, or into a thread."
        found.append(Advice(text, expected, f"it takes {pct(one.pct)} of the loop's time"))
    return found


def evaluation(facts: VerdictFacts) -> list[Advice]:
    """Advise on evaluations that take a large part of the loop."""
    share = facts.breakdown.get("eval", 0.0)
    text = _FEWER_TREE_EVALUATIONS if facts.framework in TREES else FEWER_EVALUATIONS
    return [Advice(text, None, f"evaluation takes {pct(share)} of the loop's time")]


def contention(facts: VerdictFacts) -> list[Advice]:
    """Advise on a training that shares its cores."""
    load = max(facts.loads, key=lambda one: one.trainer_delay or 0.0)
    step, delay = facts.mean_step_ms, load.trainer_delay or 0.0
    expected = None if step is None else step * (1 - delay / 100)
    text = "Stop the other programs, or give the job cores of its own (taskset, cgroups, the scheduler)."
    if not load.others:
        text = (
            "Lower OMP_NUM_THREADS or num_workers if the job has more threads and processes than cores; in a "
            "container, check its CPU quota."
        )
    return [Advice(text, expected, f"the training waits for a core {pct(delay)} of the time")]


def unnamed_code(facts: VerdictFacts) -> list[Advice]:
    """Advise on time that no samples explain: profile this job, or the next one if this one has ended."""
    text = "See which functions take the time: `holter profile JOB --python cprofile` while the job runs."
    if not facts.running:
        first = facts.window["step_start"] if facts.window else 10
        text = (
            "See which functions take the time: run it again with `--profile-steps "
            f"{first}:{first + 3}:cprofile`."
        )
    return [Advice(text, None, "no stack sample names the loop's own code")]


def _more_workers(facts: VerdictFacts, pipeline: _Pipeline) -> list[Advice]:
    """Advise on more workers, as many as the free cores allow."""
    load = facts.load
    wanted = math.ceil(pipeline.fetch / pipeline.rest) if pipeline.rest > 0 else pipeline.workers
    hidden = (
        f"{counted(wanted, 'worker')} would hide a fetch of {ms(pipeline.fetch)} behind the rest of the "
        f"step ({ms(pipeline.rest)})"
    )
    if load is None or load.cpus is None or load.cpu_p50 is None:
        if wanted <= pipeline.workers:
            return []
        return [Advice(f"Raise num_workers to {wanted}, if enough cores are free.", None, hidden)]
    free = load.cpus * max(_CPU_FULL - load.cpu_p50, 0.0) / 100
    if not pipeline.workers:
        free = max(free, min(load.cpus - 1, 1))
    local = max(len(facts.ranks) // max(len(facts.loads), 1), 1)
    # A worker that waits for I/O takes less than a core, and so does another one like it.
    each = min(max((load.worker_core_p50 or 100.0) / 100, 0.1), 1.0) if pipeline.workers else 1.0
    possible = pipeline.workers + int(free / local / each)
    target = min(wanted, possible)
    if target <= pipeline.workers:
        return []
    expected = pipeline.expected(workers=target)
    why = f"{hidden}; {free:.0f} of {counted(load.cpus, 'core')} are free"
    return [Advice(f"Raise num_workers from {pipeline.workers} to {target}.", expected, why)]


def _no_workers(facts: VerdictFacts, pipeline: _Pipeline) -> list[Advice]:
    """Advise against workers where receiving a batch takes longer than building it."""
    expected = pipeline.expected(workers=0)
    if not pipeline.workers:
        return []
    why = (
        f"building a batch takes {ms(pipeline.fetch)}, and waiting for one from a worker takes "
        f"{ms(facts.mean_ms('data_loading'))} on average"
    )
    return [Advice("Load in the training process: num_workers=0.", expected, why)]


def communication(facts: VerdictFacts) -> list[Advice]:
    """Advise on a slow rank, or on exposed communication."""
    step = facts.mean_step_ms
    slow = facts.stragglers[0] if facts.stragglers else None
    if step is None:
        return []
    if slow is not None:
        expected = max(step - (slow.own_ms - slow.others_ms), slow.others_ms)
        where = f"rank {slow.rank} on {slow.node}" if slow.node else f"rank {slow.rank}"
        text = (
            f"Find out why {part_name(slow.part)} takes {ms(slow.part_ms)} longer on {where} than elsewhere."
        )
        why = (
            f"all other ranks wait for it: its own work takes {ms(slow.own_ms)}, and theirs takes "
            f"{ms(slow.others_ms)}"
        )
        return [Advice(text, expected, why)]
    exposed = facts.mean_ms("communication")
    why = f"exposed communication takes {ms(exposed)} per step on average"
    text = "Overlap communication with the backward pass: use larger buckets and avoid blocking collectives."
    return [
        Advice(text, max(step - exposed, 0.0), why),
        Advice("Communicate less: accumulate gradients over several batches, or compress them.", None, why),
    ]


def checkpointing(facts: VerdictFacts) -> list[Advice]:
    """Advise on checkpoints that delay the training."""
    mean, around = facts.mean_step_ms, facts.around_checkpoints
    share = facts.share("checkpoint") + sum(one.pct for one in around)
    expected = mean * (1 - share / 100) if mean else None
    why = f"they take {pct(share)} of the loop's time; the expected step time is a mean"
    advice = [Advice("Write checkpoints in the background, or less often.", expected, why)]
    for one in around[:1]:
        least = mean * (1 - one.pct / 100) if mean else None
        text = f"Shorten {one.place}, which runs with each checkpoint."
        advice.append(Advice(text, least, f"it takes {pct(one.pct)} of the loop's time"))
    return advice


def model_compute(_: VerdictFacts) -> list[Advice]:
    """Advise on a model whose compute fills the step."""
    why = "the device is saturated, so only less work makes the step shorter"
    return [
        Advice("Compute less per step: use mixed precision, torch.compile or a smaller model.", None, why)
    ]


def framework_overhead(facts: VerdictFacts) -> list[Advice]:
    """Advise on GPUs that wait for Python."""
    step, load = facts.mean_step_ms, facts.load
    busy = load.gpu_p50 if load else None
    expected = step * busy / 100 if step is not None and busy is not None else None
    text = "Launch less from Python: use torch.compile or CUDA graphs, fused optimizers, or a larger batch."
    return [Advice(text, expected, "the step cannot be shorter than the busy time of the GPUs")]


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


ADVICE: dict[str, Callable[[VerdictFacts], list[Advice]]] = {
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
