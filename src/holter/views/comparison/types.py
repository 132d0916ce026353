"""The types of a comparison of jobs: the document that `holter compare --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from holter.analysis.jobs.comparison import Statistic
    from holter.store.documents import Document
    from holter.views.comparison.disturbed import ComparedConditions, ComparedDisturbance
    from holter.views.comparison.own_code import ComparedFunction
    from holter.views.comparison.tensor_types import TensorChange
    from holter.views.comparison.traces import TraceChange
    from holter.views.document.types.job import Bill, FrameworkFacts, SkippedFile
    from holter.views.document.types.wall_time import OwnCodeEntry


class ComparedMachine(TypedDict):
    """The hardware of one node."""

    cpus: float | None
    memory_bytes: float | None
    gpus: list[str | None]


class ComparedJob(TypedDict):
    """One job; an unknown value is None."""

    name: str
    status: str
    command: list[str]
    framework: FrameworkFacts | None
    hardware: list[ComparedMachine]
    ranks: int
    workers: int | None
    recorded: Document | None
    headline: str | None
    """A failure, or a number that is not finite."""
    suspect: str
    sentence: str
    gpu_pct: float | None
    cpu_pct: float | None
    steps: dict[str, float | None]
    breakdown: dict[str, float] | None
    epoch_h: float | None
    epoch_from: Literal["epoch_steps", "loader"] | None
    duration_h: float | None
    phases: dict[str, float | None]
    bill: Bill | None
    skipped: list[SkippedFile]
    issues: list[str]
    cost: float | None
    cost_of_parts: dict[str, float] | None
    conditions: ComparedConditions
    own_code: list[OwnCodeEntry]


class ComparedStep(TypedDict):
    """The change of the step time."""

    statistic: Statistic
    before_ms: float
    after_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    certain: bool


class ComparedPart(TypedDict):
    """The change of the mean time of one part of a step."""

    part: str
    before_ms: float
    after_ms: float
    difference_ms: float


class RunSaving(TypedDict):
    """The saving of a whole run."""

    of: Literal["steps", "epochs"]
    count: float
    price: float | None
    nodes: float
    hours_before: float
    hours_after: float
    hours_saved: float
    saved_pct: float | None
    speedup: float | None
    money_saved: float | None


class Difference(TypedDict):
    """Another difference between two jobs."""

    what: str
    before: Any
    after: Any


class JobChange(TypedDict):
    """The changes of a job against the baseline."""

    job: str
    step: ComparedStep | None
    disturbance: ComparedDisturbance | None
    parts: list[ComparedPart]
    own_code: list[ComparedFunction]
    saving: RunSaving | None
    changed: list[Difference]
    traces: TraceChange | None
    """For two imported traces: their kernels and operators compared by name."""
    tensors: TensorChange | None
    """The first difference of the tensors, if asked for."""
    missing: list[str]
    """What cannot be compared, and why."""


class Comparison(TypedDict):
    """What `holter compare --json` prints: the jobs, and a change for every job after the first."""

    schema: int
    baseline: str
    jobs: list[ComparedJob]
    changes: list[JobChange]
