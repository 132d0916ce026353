"""The types of `phases`, `steps`, `dataloading`, `utilization`, `operators`, `numbers` and `tensors`."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from holter.views.document.types.values import Amount, Count, Moment, Percent


class PhaseLengths(TypedDict):
    """The length of each phase of the job; null if unknown."""

    initialization_s: Amount | None
    initialization_pct: Percent | None
    training_loop_s: Amount | None
    training_loop_pct: Percent | None
    evaluation_s: Annotated[
        Amount | None, Meta(description="Evaluation after the last step; null if there was no evaluation.")
    ]
    evaluation_pct: Percent | None
    finalization_s: Amount | None
    finalization_pct: Percent | None
    training_loop_start: Moment | None
    training_loop_end: Moment | None


class OutlierStep(TypedDict):
    """A step that took far longer than usual."""

    step: int
    rank: int | None
    duration_ms: float
    extra_ms: float
    cause: str


class StepSummary(TypedDict):
    """Statistics of the training steps after warm-up, except `count` and `warmup`."""

    count: Annotated[int, Meta(ge=1)]
    warmup: Count | None
    mean_ms: Amount | None
    p50_ms: Amount | None
    p90_ms: Amount | None
    p95_ms: Amount | None
    p99_ms: Amount | None
    max_ms: Amount | None
    per_second: Amount | None
    outliers: list[OutlierStep]
    outlier_count: Count
    trainings: Annotated[
        list[Count],
        Meta(description="Steps of each training if several ran in turn; each counts from 0."),
    ]
    restarted: Annotated[
        bool,
        Meta(
            description="Whether several trainings, if any, are attempts of one run of Ray Train or torchrun."
        ),
    ]
    at_once: Annotated[
        int,
        Meta(ge=1, description="Above 1: the most steps that one call ran; they divide its time evenly."),
    ]
    unit: Annotated[
        str | None,
        Meta(description="What a step is, such as `one optimizer step from 4 batches`; null if unknown."),
    ]


class TraceSteps(TypedDict):
    """Statistics of the steps of a trace file; the times are those after the start-up."""

    count: int
    warmup: Annotated[int, Meta(ge=0, description="First steps that are start-up and are not judged.")]
    warmup_ms: float | None
    inferred_from: Annotated[
        str | None, Meta(description="What shows the steps; null if the trace marks its steps.")
    ]
    mean_ms: float
    p50_ms: float
    max_ms: float


class LoadingCallable(TypedDict):
    """A function that builds batches: one that the dataset calls, or a collate function."""

    name: str
    stage: str | None
    fetch_pct: Annotated[Percent | None, Meta(description="Percent of the time in which batches are built.")]


class LoadingSummary(TypedDict):
    """The data loading of a job."""

    stages: Annotated[
        dict[str, Percent | None] | None,
        Meta(
            description="Percent of the steady loop's wall time, by stage; the stages add up to the share of "
            "data loading."
        ),
    ]
    callables: list[LoadingCallable]
    workers: int | None
    pin_memory: bool | None
    prefetch_factor: int | None
    fetch_ms: NotRequired[Amount | None]
    needed_workers: NotRequired[int | None]
    busy_pct: NotRequired[Percent | None]


class MetricStatistics(TypedDict):
    """Statistics of one metric of one node."""

    node: str
    metric: str
    device: Annotated[str, Meta(description="Empty if the devices of the node are pooled.")]
    unit: str
    count: Count
    min: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class OperatorShare(TypedDict):
    """One operator or kernel."""

    name: str
    pct: Percent | None
    total_ms: float
    count: int


class OperatorTables(TypedDict):
    """Operators of the host and kernels of the accelerators, the longest first."""

    cpu: list[OperatorShare]
    gpu: list[OperatorShare]


class NumberSummary(TypedDict):
    """A logged number, the mean over ranks at each step. Null if it was never finite."""

    name: str
    mode: str
    steps: Annotated[int, Meta(ge=1, description="Number of steps with a value.")]
    nonfinite: Annotated[int, Meta(ge=0, description="Number of values that are NaN or infinite.")]
    first: float | None
    first_step: int | None
    last: float | None
    last_step: int | None
    least: float | None
    least_step: int | None
    most: float | None
    most_step: int | None


class SavedTensorSummary(TypedDict):
    """The tensors that the job saved."""

    count: Annotated[int, Meta(ge=0, description="Number of tensors with statistics or values.")]
    collections: list[str]
    steps: Annotated[int, Meta(ge=1, description="Number of steps at which anything was saved.")]
    first_step: int
    last_step: int
    whole_steps: Annotated[int, Meta(ge=0, description="Number of steps at which whole tensors were saved.")]
