"""The types of `job`, `nodes`, `cost`, `bill` and `skipped` in a job's description."""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from holter.views.document.types.values import Amount, Count, Moment, Percent, Rank


class JobFailure(TypedDict):
    """The reason why a job failed."""

    kind: Literal["exception", "oom", "signal", "hang", "lost"]
    step: int | None
    phase: str | None
    exception: str | None
    rank: int | None
    signal: NotRequired[int | str | None]
    certainty: NotRequired[str | None]
    evidence: NotRequired[str | None]
    node: NotRequired[str | None]


class StopReason(TypedDict):
    """The rule that stopped the job, and the reason in words."""

    rule: NotRequired[str | None]
    step: NotRequired[int | None]
    reason: NotRequired[str | None]


class FrameworkFacts(TypedDict):
    """The framework that the training uses."""

    name: NotRequired[str | None]
    version: NotRequired[str | None]
    device: NotRequired[str | None]


class JobAttempt(TypedDict):
    """One attempt of a training that its launcher started again after a failure."""

    start: Moment
    steps: Count


class SchedulerFacts(TypedDict):
    """The job of a cluster's scheduler that this job runs in."""

    name: Literal["slurm", "sagemaker", "kubernetes"]
    job: str
    step: str | None
    restarts: Annotated[Count | None, Meta(description="How often it was put back in the queue.")]
    ends: Annotated[Moment | None, Meta(description="When the time limit ends; null if unknown.")]


class JobSummary(TypedDict):
    """The job itself: its command, its times and how it ended."""

    name: str
    status: Annotated[
        Literal["InProgress", "Completed", "Failed", "Stopping", "Stopped", "Ended", "Detached"],
        Meta(
            description="Of `holter attach`: Ended if the process ended, with an unknown exit code; Detached "
            "if it goes on."
        ),
    ]
    command: list[str]
    start: Moment | None
    end: Moment | None
    duration_s: Annotated[Amount | None, Meta(description="The duration so far if the job still runs.")]
    exit_code: int | None
    signal: Annotated[str | None, Meta(description="Name of the signal that ended the command: SIGKILL.")]
    failure: JobFailure | None
    stopped_by: StopReason | None
    framework: FrameworkFacts | None
    headline: Annotated[
        str | None, Meta(description="One sentence about a failure or NaN in the training; null without one.")
    ]
    attempts: Annotated[
        list[JobAttempt],
        Meta(description="Attempts of one run whose launcher began anew; empty if there was one attempt."),
    ]
    scheduler: Annotated[
        SchedulerFacts | None,
        Meta(description="Null outside of a scheduler that holter knows."),
    ]
    nodes_expected: Annotated[
        int | None,
        Meta(description="Number of nodes that the launcher starts; null for one node or if unknown."),
    ]


class GpuFacts(TypedDict):
    """One GPU of a node."""

    name: str | None
    memory_bytes: int | float | None


class NodeClock(TypedDict):
    """Difference between the clocks of two nodes."""

    against: str
    skew_ns: Annotated[
        int | None, Meta(description="Lead of this node's clock over the other clock at `at_ns`.")
    ]
    drift_ppm: Annotated[float | None, Meta(description="Microseconds that it gains per second.")]
    error_ns: Annotated[Count | None, Meta(description="Bound of the error of a corrected time.")]
    at_ns: Moment | None
    spread_ns: Count | None
    source: Annotated[Literal["collectives", "steps"], Meta(description="What ends on both nodes together.")]
    collectives: Count
    why: Annotated[str | None, Meta(description="The reason why the skew is unknown.")]


class NodeFacts(TypedDict):
    """One node of the job."""

    node: str
    cpus: float | None
    memory_bytes: int | float | None
    gpus: Annotated[list[GpuFacts] | None, Meta(description="Null if unknown; empty if the node has no GPU.")]
    ranks: list[Rank]
    status: Annotated[
        str | None, Meta(description="How the node's command ended; null if the job has one node only.")
    ]
    clock: NotRequired[Annotated[NodeClock, Meta(description="Absent for the node with the lowest rank.")]]


class RecorderFault(TypedDict):
    """An error inside holter that the training did not notice."""

    where: str
    error: str
    time: NotRequired[int]
    rank: NotRequired[int]


class RecordingCost(TypedDict):
    """The cost of the recording itself."""

    recorder_pct: Annotated[
        Percent | None, Meta(description="Share of the training loop's wall time that the recorder measured.")
    ]
    agent_cpu_pct: Annotated[
        Amount | None, Meta(description="CPU time of holter's own processes, percent of one core.")
    ]
    bytes: Count | None
    bytes_per_step: Amount | None
    spans: Count | None
    dropped: Count | None
    faults: list[RecorderFault]


class IdleCost(TypedDict):
    """The cost of the time in which the accelerators, or else the steps, waited."""

    of: Annotated[
        Literal["accelerators", "steps"],
        Meta(
            description="accelerators: 100 % minus the mean of gpu.util of the whole job; steps, if no GPU "
            "was sampled: data loading, copies to the device and exposed communication in the training loop."
        ),
    ]
    pct: Annotated[float, Meta(description="Percent of the job's time.")]
    cost: float


class FindingCost(TypedDict):
    """The cost of one rule's worst issue."""

    rule: str
    lost_pct: Annotated[
        float, Meta(description="Percent of the training's time that the rule's worst issue reports as lost.")
    ]
    per_day: Annotated[float, Meta(description="24 x machines x price x lost_pct / 100")]


class Bill(TypedDict):
    """The cost of the job. Money is in the currency of the price."""

    price: Annotated[float, Meta(ge=0, description="Price of one machine per hour.")]
    machines: Amount
    hours: Amount | None
    cost: Annotated[Amount | None, Meta(description="hours x machines x price")]
    idle: IdleCost | None
    findings: Annotated[
        list[FindingCost],
        Meta(description="The most expensive first. Findings overlap, so their costs do not add up."),
    ]


class SkippedFile(TypedDict):
    """A file that could not be read, and the reason."""

    file: str
    why: str
