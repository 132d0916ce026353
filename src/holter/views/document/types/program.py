"""The type of `program` in a job's description: a command that took no steps."""

from typing import Annotated, TypedDict

from msgspec import Meta

from holter.views.document.types.values import Amount, Count, Percent


class ProgramProcess(TypedDict):
    """One process of the job, as it was when it was last seen."""

    pid: Count
    parent: Count
    name: Annotated[str, Meta(description="The program, and the script that it interprets.")]
    cpu_s: Amount
    children_s: Annotated[Amount, Meta(description="CPU time of processes that it started and that ended.")]
    threads: Count
    memory_bytes: Annotated[Count, Meta(description="The most resident memory.")]
    read_bytes: Annotated[Count | None, Meta(description="By all reads, also from caches and pipes.")]
    written_bytes: Count | None


class ProgramFunction(TypedDict):
    """A function of the program's own code, with what it calls in libraries."""

    name: Annotated[str, Meta(description="`name (file:line)`.")]
    pct: Percent


class EstimatedSteps(TypedDict):
    """What repeats in readings of CPU, GPU and I/O. It may be a step; no rule takes it for one."""

    seconds: Amount
    per_second: Amount
    strength: Annotated[float, Meta(ge=0, le=1, description="The autocorrelation at this period.")]
    repetitions: Count
    signal: Annotated[str, Meta(description="cpu, faults, read, written, children or gpu.")]
    text: str


class SampledPart(TypedDict):
    """A part of a training loop, by stack samples."""

    part: Annotated[
        str,
        Meta(
            description="data_loading, forward, loss, backward, optimizer, communication, checkpoint, "
            "compile or other."
        ),
    ]
    pct: Percent
    where: Annotated[str | None, Meta(description="The line that calls it: `function (file:line)`.")]
    function: Annotated[
        str | None, Meta(description="The function of the program's own code that ran most inside of it.")
    ]
    function_pct: Annotated[Percent | None, Meta(description="Of the samples of this part.")]


class SampledWorkers(TypedDict):
    """The workers of data loaders, by stack samples."""

    count: Count
    busy_pct: Annotated[Percent, Meta(description="Of their time, in which they built batches.")]
    function: str | None


class SampledTraining(TypedDict):
    """A PyTorch training that was recorded from outside: shares of stack samples, not of steps."""

    samples: Count
    processes: Annotated[Count, Meta(description="Number of processes that train.")]
    parts: list[SampledPart]
    workers: SampledWorkers | None


class ProgramEntry(TypedDict):
    """A command that took no steps: what it used and where it spent its time."""

    sentence: str
    name: Annotated[str, Meta(description="The process that used most CPU time.")]
    elapsed_s: Amount
    cpu_s: Amount
    cores: Annotated[Amount, Meta(description="Cores that the job may use.")]
    cores_used: Annotated[Amount, Meta(description="Mean number of cores that it kept busy.")]
    waits_for_core_pct: Annotated[
        Percent | None, Meta(description="Of the main thread of that process; null if unknown.")
    ]
    gpu_pct: Annotated[Percent | None, Meta(description="Median use of the GPUs; null without GPUs.")]
    process_count: Count
    processes: Annotated[list[ProgramProcess], Meta(description="Those with most CPU time.")]
    functions: Annotated[
        list[ProgramFunction],
        Meta(description="Of that process, from stack samples; empty if it is no Python program."),
    ]
    sampled_s: Amount
    attached: Annotated[bool, Meta(description="Whether `holter attach` recorded it from outside.")]
    training: Annotated[
        SampledTraining | None, Meta(description="Of `holter attach`; null if no PyTorch training was seen.")
    ]
    estimated_steps: Annotated[EstimatedSteps | None, Meta(description="Null if nothing repeats clearly.")]
