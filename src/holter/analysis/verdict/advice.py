"""What to do about it, and how long a step should take then: computed from the job's own numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.analysis.loading.dataloading import HAND_OVER_MS
from holter.analysis.verdict.evidence import counted, ms, part_name

if TYPE_CHECKING:
    from holter.analysis.jobs.stragglers import Straggler
    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.loading.stacks import SampledCallable
    from holter.analysis.verdict.facts import Facts

_WORTH = 0.97
"""Advice that promises less than 3 % is not given."""
_NAMED = 10.0
"""Callables below this share of the fetch are not worth naming."""
_CPU_FULL = 95.0


RECORD_STEPS = (
    "a loop that holter does not know marks its steps (`with holter.step():`), and traces of other profilers "
    "have none: `holter run -- python train.py` records them"
)
"""How steps come into a job that has none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change. `expected_step_ms` is None where the job's data do not tell."""

    text: str
    expected_step_ms: float | None
    why: str


def ordered(advice: list[Advice]) -> list[Advice]:
    """Sort by expected gain, the largest first; what cannot be told comes last."""
    return sorted(advice, key=lambda a: (a.expected_step_ms is None, a.expected_step_ms or 0.0))


def data_pipeline(facts: Facts) -> list[Advice]:
    """Advise on slow data loading: prepare ahead what is dear, or share the work among more workers."""
    # Steps that wait for several workers in turn are long and short: only their mean is what workers allow.
    step, loading = facts.mean_step_ms, facts.loading
    if step is None:
        return []
    if loading is None or loading.fetch_ms is None:
        rest = facts.rest_ms or 0.0
        why = f"without the wait for batches a step takes {ms(rest)}"
        return [Advice("Load the next batch while this one trains: a DataLoader with workers.", rest, why)]
    pipeline = _Pipeline.of(facts, loading, step)
    advice = [_prepared(pipeline, [item]) for item in pipeline.dear]
    # Reading stays, whatever is prepared: at least the prepared data are read.
    work = [item for item in pipeline.dear if item.stage != "read"]
    if len(work) > 1:
        advice.append(_prepared(pipeline, work))
    if not pipeline.workers and loading.fetch_ms < HAND_OVER_MS:
        why = f"a batch takes {ms(loading.fetch_ms)}, one from a worker about {ms(HAND_OVER_MS)}"
        text = (
            "Build batches at once: index whole tensors (a DataLoader with batch_size=None), or larger ones."
        )
        advice.append(Advice(text, None, f"{why}: workers would not help"))
    else:
        advice += _more_workers(facts, pipeline) or _no_workers(facts, pipeline)
    if loading.epoch_start_ms > 0 and loading.workers and not loading.persistent_workers:
        why = f"starting them anew takes {ms(loading.epoch_start_ms)} a step on average"
        expected = step - loading.epoch_start_ms
        advice.append(Advice("Keep the workers between epochs: persistent_workers=True.", expected, why))
    return [a for a in advice if a.expected_step_ms is None or a.expected_step_ms < _WORTH * step]


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """Data loading as a producer: the step takes what the slower of compute and workers takes."""

    step: float
    rest: float
    """The step without the wait, ms."""
    handover: float
    """What a ready batch still costs, ms."""
    fetch: float
    """Fetch of one step's batches in one worker, ms."""
    collate: float
    workers: int
    strain: float
    """Measured step over what `fetch / workers` would make it: workers that slow each other down."""
    dear: list[SampledCallable]

    @classmethod
    def of(cls, facts: Facts, loading: DataLoading, step: float) -> _Pipeline:
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
            dear=[item for item in loading.callables if item.fetch_pct >= _NAMED][:3],
        )

    def expected(self, *, fetch: float | None = None, workers: int | None = None) -> float:
        """Return the step's time if a fetch took `fetch` ms, or with another number of workers."""
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
        text = f"Take {names} out of the data loading: keep its result, run it on the GPU, or speed it up."
    elif stages == {"read"}:
        text = f"Read ahead what {names} reads: a local copy, larger files, or a cache in memory."
    else:
        text = f"Prepare the data once, ahead of the training, in place of {names} at every access."
    over = f" over {counted(pipeline.workers, 'worker')}" if pipeline.workers else ""
    why = (
        f"it is {100 * removed:.0f} % of a fetch of {ms(pipeline.fetch)}; "
        f"without it the fetch takes {ms(left)}{over}, the rest of the step {ms(pipeline.rest)}"
    )
    return Advice(text, expected, why)


def own_code(facts: Facts) -> list[Advice]:
    """Advise on time in the loop's own code: look closer, now or, of a job that has ended, in the next."""
    text = "See which functions take it: `holter profile JOB --python cprofile` while it runs."
    if not facts.running:
        first = facts.window["step_start"] if facts.window else 10
        text = (
            f"See which functions take it: run it again with `--profile-steps {first}:{first + 3}:cprofile`."
        )
    return [Advice(text, None, "no hook of holter's sees what a loop does of its own")]


def _more_workers(facts: Facts, pipeline: _Pipeline) -> list[Advice]:
    """Advise on more workers as far as there are cores for them."""
    load = facts.load
    wanted = math.ceil(pipeline.fetch / pipeline.rest) if pipeline.rest > 0 else pipeline.workers
    if load is None or load.cpus is None or load.cpu_p50 is None:
        if wanted <= pipeline.workers:
            return []
        workers = counted(wanted, "worker")
        why = f"a fetch of {ms(pipeline.fetch)} hides behind {ms(pipeline.rest)} with {workers}"
        return [Advice(f"Raise num_workers to {wanted}, if there are cores for it.", None, why)]
    free = load.cpus * max(_CPU_FULL - load.cpu_p50, 0.0) / 100
    if not pipeline.workers:
        free = max(free, min(load.cpus - 1, 1))
    local = max(len(facts.ranks) // max(len(facts.loads), 1), 1)
    # A worker that was starved of I/O takes less than a core; one more of its kind does too.
    each = min(max((load.worker_core_p50 or 100.0) / 100, 0.1), 1.0) if pipeline.workers else 1.0
    possible = pipeline.workers + int(free / local / each)
    target = min(wanted, possible)
    if target <= pipeline.workers:
        return []
    expected = pipeline.expected(workers=target)
    why = (
        f"{counted(wanted, 'worker')} would hide a fetch of {ms(pipeline.fetch)} behind {ms(pipeline.rest)}; "
        f"of {load.cpus} cores {free:.0f} are free"
    )
    return [Advice(f"Raise num_workers from {pipeline.workers} to {target}.", expected, why)]


def _no_workers(facts: Facts, pipeline: _Pipeline) -> list[Advice]:
    """Advise to do without workers where handing a batch over is dearer than building it."""
    expected = pipeline.expected(workers=0)
    if not pipeline.workers:
        return []
    why = (
        f"building a batch takes {ms(pipeline.fetch)}, waiting for one from a worker "
        f"{ms(facts.mean_ms('data_loading'))} on average"
    )
    return [Advice("Load in the training process: num_workers=0.", expected, why)]


def communication(facts: Facts, slow: Straggler | None) -> list[Advice]:
    """Advise on waiting for other ranks."""
    step = facts.mean_step_ms
    if step is None:
        return []
    if slow is not None:
        expected = max(step - (slow.own_ms - slow.others_ms), slow.others_ms)
        where = f"rank {slow.rank} on {slow.node}" if slow.node else f"rank {slow.rank}"
        part = part_name(slow.part)
        text = f"Find out what makes {part} of {where} {ms(slow.part_ms)} slower than the others'."
        return [
            Advice(
                text,
                expected,
                f"all wait for it: its own work takes {ms(slow.own_ms)}, theirs {ms(slow.others_ms)}",
            )
        ]
    exposed = facts.mean_ms("communication")
    why = f"{ms(exposed)} of each step are communication that nothing hides"
    return [
        Advice(
            "Overlap communication with the backward pass: larger buckets, no blocking collectives.",
            max(step - exposed, 0.0),
            why,
        ),
        Advice("Communicate less: accumulate gradients over several batches, or compress them.", None, why),
    ]


def checkpointing(facts: Facts) -> list[Advice]:
    """Advise on checkpoints that hold the training up."""
    mean = facts.mean_step_ms
    share = facts.share("checkpoint")
    expected = mean * (1 - share / 100) if mean else None
    return [
        Advice(
            "Write checkpoints in the background, or less often.",
            expected,
            f"{share:.0f} % of the steps is writing them (the expected time is a mean)",
        )
    ]


def model_compute(facts: Facts) -> list[Advice]:
    """Advise on a model that takes all the time there is."""
    advice = []
    if facts.baseline is not None and facts.baseline.step_ms is not None:
        why = "that is what the baseline takes"
        advice.append(
            Advice("Go back to the baseline's model, or find what was added.", facts.baseline.step_ms, why)
        )
    why = "the device is busy: only less work makes the step shorter"
    advice.append(
        Advice("Compute less for each step: mixed precision, torch.compile, a smaller model.", None, why)
    )
    return advice


def framework_overhead(facts: Facts) -> list[Advice]:
    """Advise on a device that waits for Python."""
    step, load = facts.mean_step_ms, facts.load
    busy = load.gpu_p50 if load else None
    expected = step * busy / 100 if step is not None and busy is not None else None
    why = "the step cannot get shorter than the time in which the device is busy"
    return [
        Advice(
            "Launch less from Python: torch.compile or graphs, fused optimizers, a larger batch.",
            expected,
            why,
        )
    ]


def memory_pressure(_: Facts) -> list[Advice]:
    """Advise on a host that is out of memory."""
    return [
        Advice("Use less host memory: fewer workers, smaller caches, or a larger machine.", None, "it swaps")
    ]


def hardware(facts: Facts) -> list[Advice]:
    """Advise on a machine that is not well."""
    load = facts.load
    where = f"{load.throttled_gpu or 'the GPUs'} of {load.node}" if load else "the machine"
    return [
        Advice(f"Check cooling, power and memory of {where}.", None, "its clocks or its memory report faults")
    ]
