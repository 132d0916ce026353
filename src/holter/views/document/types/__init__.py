"""The types of a job's description: the document that `holter describe --json` prints.

The description is a plain JSON document; these types tell its keys to the type checker and cost no run time.
`python -m holter.views.document.types` prints its published JSON schema, `views/description.schema.json`.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict, final

from msgspec import Meta

from holter.analysis.verdict.device_parts import PARTS
from holter.schema.phases import BREAKDOWN
from holter.views.document.types.job import (
    Bill,
    JobFailure,
    JobSummary,
    NodeFacts,
    RecordingCost,
    SkippedFile,
)
from holter.views.document.types.profiled import ProfiledWindow, TraceNumbers
from holter.views.document.types.program import ProgramEntry
from holter.views.document.types.rules import RuleResult
from holter.views.document.types.training import (
    LoadingSummary,
    MetricStatistics,
    NumberSummary,
    OperatorTables,
    PhaseLengths,
    SavedTensorSummary,
    StepSummary,
    TraceSteps,
)
from holter.views.document.types.values import Percent, Rank
from holter.views.document.types.verdict import JobVerdict
from holter.views.document.types.wall_time import (
    ChangeEntry,
    GpuTimesEntry,
    LedgerEntry,
    NamedWorkEntry,
    OwnCodeEntry,
    ThreadEntry,
)
from holter.views.document.types.what_if import Replay

_Breakdown = Annotated[
    dict[str, Percent],
    Meta(
        description="Percent of the steady loop's wall time; exclusive parts that add up to 100 within 0.5. "
        "Of an imported trace: percent of the accelerators' time. Null if there was no step.",
        extra_json_schema={"propertyNames": {"enum": sorted({*BREAKDOWN, *PARTS})}},
    ),
]
_Parts = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": ["forward", "loss", "backward", "optimizer"]})]],
    Meta(
        description="Parts of a step that must exist and that no hook recorded, as within compiled code: "
        "`breakdown` lacks them, and their time counts as `other`."
    ),
]


_Replay = Annotated[
    Replay | None,
    Meta(description="Null if the job has one rank only, or no steps that ranks take together."),
]


@final
class Description(TypedDict):
    """Absent data is null or an absent key, never 0. A version may get new keys."""

    schema: Literal[1]
    job: JobSummary
    nodes: list[NodeFacts]
    ranks: list[Rank]
    phases: PhaseLengths | None
    steps: Annotated[StepSummary | None, Meta(description="Null if there was no step.")]
    numbers: Annotated[
        list[NumberSummary],
        Meta(description="Loss, learning rate and the numbers that the user logs, at most 12."),
    ]
    tensors: Annotated[SavedTensorSummary | None, Meta(description="Null if no tensor was saved.")]
    breakdown: _Breakdown | None
    gpu_times: Annotated[
        GpuTimesEntry | None,
        Meta(
            description="Times on the GPU; all other times of steps and their parts are times of the host. "
            "Null if no step was measured on a GPU."
        ),
    ]
    not_seen: _Parts
    ledger: Annotated[list[LedgerEntry], Meta(description="The job's wall time by use; empty without steps.")]
    threads: Annotated[
        list[ThreadEntry],
        Meta(description="The training threads; empty where the kernel does not count their waits."),
    ]
    own_code: Annotated[
        list[OwnCodeEntry], Meta(description="Functions outside of all known parts, the largest first.")
    ]
    named_work: Annotated[
        list[NamedWorkEntry],
        Meta(description="Callbacks, loggers, collectives and annotations from 1 % of the loop on."),
    ]
    changes: Annotated[
        list[ChangeEntry],
        Meta(description="Since when steps take longer and which resources grow, in order of time."),
    ]
    dataloading: LoadingSummary | None
    utilization: list[MetricStatistics]
    operators: Annotated[OperatorTables | None, Meta(description="Null if no operators were recorded.")]
    window: Annotated[ProfiledWindow | None, Meta(description="Null if no step was profiled.")]
    what_if: _Replay
    program: Annotated[
        ProgramEntry | None,
        Meta(description="What a command without steps does; null if the job took steps."),
    ]
    verdict: JobVerdict
    rules: list[RuleResult]
    cost: RecordingCost
    bill: Annotated[Bill | None, Meta(description="Null without a price.")]
    looked_at_pct: Annotated[
        float,
        Meta(
            gt=0,
            le=100,
            description="Share of a long job that percentiles of the machine, stages of data loading and the "
            "verdict's medians use; shares, steps and extremes always use the whole job.",
        ),
    ]
    trace: NotRequired[Annotated[TraceNumbers, Meta(description="Only of an imported trace.")]]
    skipped: Annotated[list[SkippedFile], Meta(description="Files of the store that could not be read.")]


class TraceJob(TypedDict):
    """The job of a trace file."""

    name: str
    status: str
    headline: None
    failure: None
    duration_s: float | None


@final
class TraceDescription(TypedDict):
    """A trace file, with the keys of a job's description as far as a trace has them."""

    schema: int
    job: TraceJob
    ranks: list[int]
    steps: TraceSteps | None
    breakdown: dict[str, float] | None
    not_seen: list[str]
    dataloading: None
    operators: OperatorTables
    what_if: _Replay
    verdict: JobVerdict
    rules: list[RuleResult]
    trace: TraceNumbers
    skipped: list[SkippedFile]


class DiagnosedJob(TypedDict):
    """The job that a diagnosis is about."""

    name: str
    status: str
    failure: JobFailure | None


class Diagnosis(TypedDict):
    """What `holter diagnose --json` prints of a job."""

    job: DiagnosedJob
    schema: int
    verdict: JobVerdict
    breakdown: dict[str, float] | None
    not_seen: list[str]
    dataloading: LoadingSummary | None
    skipped: list[SkippedFile]
    operators: OperatorTables | None
    what_if: _Replay
    window: NotRequired[ProfiledWindow | None]
    ranks: NotRequired[list[int]]
    steps: NotRequired[Any]
    trace: NotRequired[TraceNumbers]
