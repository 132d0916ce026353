"""The types of `ledger`, `threads`, `own_code` and `changes` in a job's description."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from holter.analysis.verdict.changes import RESOURCES, STEP_TIME
from holter.analysis.verdict.ledger import NAMES
from holter.schema.phases import BREAKDOWN
from holter.views.document.types.values import Amount, Percent, Rank


class LedgerPart(TypedDict):
    """A part of the steps in the ledger."""

    item: str
    seconds: Amount
    pct: Percent
    text: str
    children: list["LedgerPart"]


class LedgerEntry(TypedDict):
    """One use of the job's wall time: a mean over the ranks."""

    item: Annotated[str, Meta(extra_json_schema={"enum": list(NAMES)})]
    seconds: Amount
    pct: Annotated[Percent, Meta(description="Percent of the job's wall time; all entries add up to 100.")]
    text: str
    children: list[LedgerPart]


class ThreadEntry(TypedDict):
    """How much of the time the training thread of a rank runs, waits for a core, or is blocked."""

    rank: Rank
    phase: Annotated[
        str,
        Meta(
            description="training_loop, or a phase of the step; other: outside all phases. Phases with few "
            "readings are absent."
        ),
    ]
    running_pct: Percent
    waiting_for_core_pct: Percent
    blocked_pct: Percent
    looks: Annotated[int, Meta(description="Number of readings behind the shares.")]


class ProducerEntry(TypedDict):
    """The thread or process that works while the training thread waits for it."""

    name: Annotated[str, Meta(description="`thread NAME` or `process NAME`.")]
    function: Annotated[
        str | None, Meta(description="Its function, as `name (file:line)`; null for a process.")
    ]
    mostly_in: Annotated[
        str | None, Meta(description="What that function calls and spends most of its time in.")
    ]


class OwnCodeEntry(TypedDict):
    """A function of the training that runs outside of all known parts of a step."""

    function: str
    file: str
    line: int
    pct: Annotated[Percent, Meta(description="Percent of the steady loop's wall time, from stack samples.")]
    calls: Annotated[str, Meta(description="What it calls there, as its source names it; may be empty.")]
    waits_in: Annotated[
        str | None,
        Meta(
            description="What it waits for: sleep, file, fsync, network, subprocess, queue, lock, input, "
            "garbage collection, or device, which counts as compute; null if it works."
        ),
    ]
    data_loading: Annotated[
        bool,
        Meta(description="The loop iterates over it, or it waits for a queue: its time is data loading."),
    ]
    mostly_in: Annotated[
        str | None,
        Meta(description="What an iterator calls and spends most of its time in, as `name (file:line)`."),
    ]
    producer: ProducerEntry | None


class NamedWorkEntry(TypedDict):
    """A callback, a logger or an annotation within the steps."""

    part: Annotated[str, Meta(description="The part of the step that holds its time.")]
    name: str
    pct: Annotated[
        Percent,
        Meta(description="Percent of the steady loop's wall time, without other parts inside of it."),
    ]


class GpuPartEntry(TypedDict):
    """A part of a step: its mean time on the GPU and on the host."""

    part: Annotated[str, Meta(extra_json_schema={"enum": list(BREAKDOWN)})]
    gpu_ms: Amount
    host_ms: Amount
    pct: Annotated[Percent, Meta(description="Percent of the step's time on the GPU.")]


class GpuTimesEntry(TypedDict):
    """The parts of a few steps between CUDA events on the training's stream, and on the host: means."""

    steps: Annotated[int, Meta(ge=1, description="Number of measured steps, of all ranks.")]
    left_out: Annotated[int, Meta(description="Steps whose events could not be read.")]
    gpu_ms: Annotated[Amount, Meta(description="A step on the GPU.")]
    host_ms: Annotated[Amount, Meta(description="The same steps on the host.")]
    parts: list[GpuPartEntry]


class ChangeEntry(TypedDict):
    """A change of step time or of a resource during the loop."""

    text: str
    what: Annotated[
        str,
        Meta(
            description="`step_time`, or the metric of the resource.",
            extra_json_schema={"enum": [STEP_TIME, *RESOURCES]},
        ),
    ]
    kind: Annotated[
        Literal["level", "growth"],
        Meta(description="level: higher than before; growth: it grows steadily until the end."),
    ]
    step: Annotated[int, Meta(description="The step in which it began.")]
    time: Annotated[int, Meta(description="When it began, ns since the epoch.")]
    until_step: Annotated[
        int | None, Meta(description="The last step with the higher level; null if it lasts until the end.")
    ]
    before: float
    after: float
    unit: str
    part: Annotated[str | None, Meta(description="The part of the step that grew most.")]
    grown_ms: Annotated[
        dict[str, float], Meta(description="Part of the step to the mean time that it takes longer.")
    ]
    cost_pct: Annotated[
        Percent | None, Meta(description="Extra time of the typical steps, percent of the steady loop.")
    ]
    per_s: Annotated[float | None, Meta(description="Growth per second.")]
    node: str
    device: str
    rank: Rank | None
