"""Advice on a recorded job, with the expected step time, computed from the job's own numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holter.analysis.jobs.stragglers import place_text, slow_together
from holter.analysis.loading.dataloading import HAND_OVER_MS
from holter.analysis.slow_group import ranks_text
from holter.analysis.verdict import loop_advice, machine_advice
from holter.analysis.verdict.evidence import counted, enumerated, ms, part_name
from holter.analysis.verdict.job_suspects import collectives
from holter.analysis.verdict.pipeline_advice import pipeline_advice
from holter.analysis.verdict.result import Advice
from holter.schema.phases import RAY_DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.loading.stacks import SampledCallable
    from holter.analysis.verdict.job_facts import VerdictFacts

_WORTH = 0.97
"""Advice must save at least 3 % of the step."""
_WORTH_EQUAL = 0.95
"""Equal work for all ranks must save at least 5 % of the step: no two ranks are ever quite equal."""
_NAMED = 10.0
"""Advice names callables from this percentage of the fetch on."""
_CPU_FULL = 95.0


RECORD_STEPS = (
    "start the training with `holter run -- python train.py`, and if it has a loop of its own, mark the "
    "steps with `with holter.step():`"
)
"""How to record steps, for a job without steps."""

_LOADER = "a thread or a process that prepares batches ahead"
_LOADERS: dict[str | None, str] = {
    "pytorch": "a DataLoader with workers",
    "jax": "a grain DataLoader with workers, or a thread that makes it",
    "keras": "a PyDataset with workers",
    "tensorflow": "tf.data with prefetch",
}
"""Framework → what loads data beside the training in its terms."""
_RAY_TASKS = (
    "Make Ray Data's tasks faster: give them more cores, map with a larger `concurrency`, or prepare the "
    "data in advance (`Dataset.write_parquet`)."
)
_RAY_BATCHES = "Let Ray Data prepare more batches ahead: raise `prefetch_batches` of `iter_torch_batches`."


_CALLED = frozenset(
    {
        "all_gather",
        "all_gather_object",
        "all_reduce",
        "barrier",
        "broadcast",
        "broadcast_object_list",
        "gather_object",
        "monitored_barrier",
    }
)
"""Collectives of all ranks that a loop calls for a number or for each tensor."""


def data_pipeline(facts: VerdictFacts) -> list[Advice]:
    """Advise on slow data loading: prepare expensive work in advance, or use more workers."""
    # Steps that wait for several workers in turn are long and short: their mean is the pace of the workers.
    step, loading = facts.mean_step_ms, facts.loading
    if step is None:
        return []
    if facts.pipeline is not None and (found := pipeline_advice(facts, facts.pipeline)):
        return [one for one in found if one.expected_step_ms is None or one.expected_step_ms < _WORTH * step]
    if loading is None or loading.fetch_ms is None:
        rest = facts.rest_ms or 0.0
        why = f"without the wait for batches a step takes {ms(rest)}"
        text = f"Load the next batch while this one trains: use {_LOADERS.get(facts.framework, _LOADER)}."
        stages = [one.name for one in facts.named_work if one.name in RAY_DATA.values()]
        if stages:
            text = _RAY_TASKS if stages[0] == RAY_DATA["production_wait"] else _RAY_BATCHES
        if filled := next((one for one in facts.own_code if one.iterates and one.producer), None):
            slow = f"{filled.produces[-1]}, which fills the queue," if filled.produces else filled.producer
            text = f"Make {slow} faster, or let several threads or processes fill the queue."
        return [Advice(text, rest, why)]
    pipeline = _Pipeline.of(facts, loading, step)
    advice = [_prepared(pipeline, [item]) for item in pipeline.expensive]
    # Prepared data are read and collated, too.
    work = [item for item in pipeline.expensive if item.stage not in ("read", "collate")]
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
    if loading.restarts and not loading.persistent_workers:
        why = f"restarting them takes {ms(loading.restart_ms)} per step on average"
        expected = step - loading.restart_ms
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
    """Time of one worker to build the batches of one step, ms."""
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

    def promised(self, *, fetch: float | None = None, workers: int | None = None) -> float:
        """Return the step time after such a change. What the model does not explain stays."""
        unexplained = max(self.step - self.expected(), 0.0)
        return unexplained + self.expected(fetch=fetch, workers=workers)


def _prepared(pipeline: _Pipeline, items: list[SampledCallable]) -> Advice:
    removed = sum(item.fetch_pct for item in items) / 100
    left = pipeline.fetch * (1 - removed)
    expected = pipeline.promised(fetch=left)
    names = enumerated([item.name for item in items])
    stages = {item.stage for item in items}
    if stages == {"transform"}:
        text = f"Take {names} out of the data loading: cache its result, run it on the GPU, or speed it up."
    elif stages == {"read"}:
        text = f"Make the reads of {names} faster: use a local copy, larger files, or a cache in memory."
    elif stages == {"collate"}:
        text = f"Make the collate function {names} faster: fill whole tensors at once, not item by item."
    else:
        text = f"Prepare the data once, before the training, instead of running {names} on every access."
    shared = f", shared by {counted(pipeline.workers, 'worker')}" if pipeline.workers else ""
    why = (
        f"it takes {100 * removed:.0f} % of a fetch of {ms(pipeline.fetch)}; without it a fetch takes "
        f"{ms(left)}{shared}, and the rest of the step takes {ms(pipeline.rest)}"
    )
    return Advice(text, expected, why)


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
        text = _raise_workers(facts, pipeline, wanted)
        return [Advice(f"{text}, if enough cores are free.", None, hidden)]
    free = load.cpus * max(_CPU_FULL - load.cpu_p50, 0.0) / 100
    if not pipeline.workers:
        # A worker takes over what the training process does now, but no core that another program uses.
        free = max(free, min(load.cpus - 1 - (load.foreign_core or 0.0) / 100, 1))
    local = max(len(facts.ranks) // max(len(facts.loads), 1), 1)
    # A worker that waits for I/O takes less than a core, and so does another one like it.
    each = min(max((load.worker_core_p50 or 100.0) / 100, 0.1), 1.0) if pipeline.workers else 1.0
    possible = pipeline.workers + int(free / local / each)
    # PyTorch, too, warns of more workers than cores.
    target = min(wanted, possible, max(int(load.cpus / local), pipeline.workers))
    if target <= pipeline.workers:
        return []
    expected = pipeline.promised(workers=target)
    why = f"{hidden}; {free:.0f} of {counted(load.cpus, 'core')} are free"
    advice = Advice(f"{_raise_workers(facts, pipeline, target)}.", expected, why)
    return _as_measured(facts, advice, target)


def _as_measured(facts: VerdictFacts, advice: Advice, workers: int) -> list[Advice]:
    """Check advice on a number of workers against an earlier job that had so many.

    Its step time replaces the expected one; if it was not faster, the advice is dropped.
    """
    run = next((one for one in facts.measured if one.workers == workers), None)
    if run is None:
        return [advice]
    expected = run.step_ms - facts.evaluation_ms  # which is added to every advice
    if expected >= _WORTH * (facts.mean_step_ms or 0.0):
        return []
    why = f"{advice.why}; job {run.job} took {ms(run.step_ms)} a step with {counted(workers, 'worker')}"
    return [replace(advice, expected_step_ms=expected, why=why)]


def _raise_workers(facts: VerdictFacts, pipeline: _Pipeline, wanted: int) -> str:
    if facts.framework == "keras" and not pipeline.workers:
        return f"Give `fit` a PyDataset or a DataLoader with {counted(wanted, 'worker')}"
    return f"Raise num_workers from {pipeline.workers} to {wanted}"


def _no_workers(facts: VerdictFacts, pipeline: _Pipeline) -> list[Advice]:
    """Advise against workers where receiving a batch takes longer than building it."""
    expected = pipeline.expected(workers=0)
    if not pipeline.workers:
        return []
    why = (
        f"building a batch takes {ms(pipeline.fetch)}, and waiting for one from a worker takes "
        f"{ms(facts.mean_ms('data_loading'))} on average"
    )
    return _as_measured(facts, Advice("Load in the training process: num_workers=0.", expected, why), 0)


def communication(facts: VerdictFacts) -> list[Advice]:
    """Advise on a slow rank, or on exposed communication."""
    step = facts.mean_step_ms
    slow = facts.stragglers[0] if facts.stragglers else None
    if step is None:
        return []
    if facts.staged:
        return _staged(facts)
    if slow is not None:
        equal = facts.what_if and facts.what_if.without("rank", "ranks")
        expected = equal.step_ms if equal else None
        where = place_text(slow_together(facts.stragglers))
        text = (
            f"Find out why {part_name(slow.part)} takes {ms(slow.part_ms)} longer on {where} than elsewhere."
        )
        why = (
            f"all other ranks wait: the own work of rank {slow.rank} takes {ms(slow.own_ms)}, and theirs "
            f"takes {ms(slow.others_ms)}"
        )
        if equal and equal.kind == "ranks":
            why += f"; the expected step time is without the extra work of {equal.name}"
        return [Advice(text, expected, why)]
    exposed = facts.mean_ms("communication")
    why = f"exposed communication takes {ms(exposed)} per step on average"
    hidden, found = max(step - exposed, 0.0), []
    if facts.what_if and (moved := facts.what_if.without("communication")):
        # The wait for the rank that comes last stays, however well the transfer is hidden.
        hidden = moved.step_ms
        why += f", and {ms(facts.what_if.step_ms - hidden)} of it is the transfer itself"
        equal = facts.what_if.without("unequal_ranks")
        if equal and equal.step_ms < _WORTH_EQUAL * step:
            text = "Give all ranks equal work in each step, for example by bucketing samples by length."
            saved = f"the ranks wait for the last one; equal ranks save {ms(step - equal.step_ms)} per step"
            found.append(Advice(text, equal.step_ms, saved))
    if alone := facts.awaited_evaluation:
        saved = f"all others wait for {ranks_text(alone.ranks)}, {ms(alone.waiting_ms)} per step on average"
        return [Advice("Evaluate on all ranks, each a part of the data, or less often.", None, saved)]
    if (called := collectives(facts)) and called[0].name in _CALLED:
        text = f"Call {called[0].name} less often, or once for many values."
        found.append(loop_advice.removed(facts, called[0].pct, text))
    text = "Overlap communication with the backward pass: use larger buckets and avoid blocking collectives."
    return [
        *found,
        Advice(text, hidden, why),
        Advice("Communicate less: accumulate gradients over several batches, or compress them.", None, why),
    ]


def _staged(facts: VerdictFacts) -> list[Advice]:
    """Advise on the stages of a pipeline: what they save depends on the order of their micro-batches."""
    why = f"waiting for another stage takes {ms(facts.mean_ms('communication'))} per step on average"
    slow = slow_together(facts.stragglers)
    if slow:
        one = facts.stragglers[0]
        where = place_text(slow)
        why += f"; the own work of rank {one.rank} takes {ms(one.own_ms)}, that of others {ms(one.others_ms)}"
        text = f"Move layers of the pipeline from {where} to other stages, until all compute equally long."
    else:
        text = "Divide the layers so that all stages of the pipeline compute equally long."
    more = "Split a batch into more micro-batches, so that stages compute while others do."
    return [Advice(text, None, why), Advice(more, None, why)]


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


ADVICE: dict[str, Callable[[VerdictFacts], list[Advice]]] = {
    "data_pipeline": data_pipeline,
    "model_compute": model_compute,
    "communication": communication,
    "framework_overhead": framework_overhead,
    "checkpointing": loop_advice.checkpointing,
    "evaluation": loop_advice.evaluation,
    "own_code": loop_advice.own_code,
    "contention": machine_advice.contention,
    "memory_pressure": machine_advice.memory_pressure,
    "hardware": machine_advice.hardware,
}
