"""The types of a job's JSON documents and of their entries."""

from __future__ import annotations

from typing import Annotated, Literal, Required, TypeAlias, TypedDict

from msgspec import Meta

# The years 1970 to 2116: a column of times holds twice that, so a length of time can be added to it.
_Moment: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)] | None
_Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# Bounds keep NaN and infinity out, which no page can show and no sum survives.
_Number: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)] | None
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)] | None
_Text: TypeAlias = str | None
_Interval: TypeAlias = Annotated[int, Meta(ge=1, le=86_400_000)] | None


class _RuleEntry(TypedDict, total=False):
    name: Required[str]
    rule: str
    parameters: dict[str, object]


class FailureEntry(TypedDict, total=False):
    """Why a job failed."""

    kind: _Text
    step: _Whole
    phase: _Text
    exception: _Text
    rank: _Whole
    node: _Text
    signal: _Whole | str
    certainty: _Text
    evidence: _Text


class _FrameworkEntry(TypedDict, total=False):
    name: _Text
    version: _Text
    device: _Text


class LaunchEntry(TypedDict, total=False):
    """The launch over several nodes that records one job."""

    id: str
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] | None


class SchedulerEntry(TypedDict, total=False):
    """The job of a cluster's scheduler that a node belongs to."""

    name: Required[Literal["slurm", "sagemaker", "kubernetes"]]
    job: Required[str]
    step: str
    restarts: _Count
    ends: _Moment


class SurroundingsEntry(TypedDict, total=False):
    """Code revision, packages and settings."""

    code: dict[str, str]
    packages: dict[str, str]
    settings: dict[str, str]


class _VerdictEntry(TypedDict, total=False):
    suspect: _Text
    sentence: _Text
    headline: _Text


class _ImportedEntry(TypedDict, total=False):
    files: dict[str, str]
    ranks: dict[str, int]
    facts: dict[str, dict[str, object]]


class _StoppedByEntry(TypedDict, total=False):
    rule: _Text
    reason: _Text


class GpuEntry(TypedDict, total=False):
    """A GPU of a node."""

    device: str
    name: _Text
    memory_bytes: _Number


class _MissingEntry(TypedDict):
    what: str
    why: str


class CostEntry(TypedDict, total=False):
    """The cost of recording on a node."""

    recorder_ns: _Amount
    agent_cpu_s: _Amount
    duration_s: _Amount
    records: _Amount
    dropped: _Amount


class _IssueEntry(TypedDict, total=False):
    summary: Required[str]
    severity: Required[Literal["info", "warning", "critical"]]
    rule: str
    status: Literal["open", "resolved"]
    code: str
    node: _Text
    rank: _Whole
    device: _Text
    tensor: _Text
    step_start: _Whole
    step_end: _Whole
    time_start: _Moment
    time_end: _Moment
    evidence: dict[str, object]
    advice: str
    count: _Count
    last_found: _Moment
    resolved: _Moment
    group_id: _Text
    caused_by: _Text


class _CoverageEntry(TypedDict, total=False):
    evaluated: bool
    evaluations: _Count
    points_seen: _Number
    points_needed: _Number
    tensors_matched: _Count
    first_step: _Whole
    last_step: _Whole
    reason: str
    lacking: str
    every_nth: _Count


class _JudgedRuleEntry(TypedDict, total=False):
    name: Required[str]
    status: Required[str]
    issues: Required[list[_IssueEntry]]
    rule: str
    category: str
    status_details: str
    parameters: dict[str, object]
    evaluations: _Count
    triggered: _Count
    last_evaluated: _Moment
    coverage: _CoverageEntry
    more_issues: _Count
    details: dict[str, object]
    error: _Text


class _JudgingCostEntry(TypedDict, total=False):
    cpu_s: Annotated[float, Meta(ge=0, le=1e15)]
    looks: _Count
    late_spans: _Count


class LostEntry(TypedDict):
    """The time that the worst issue of a rule costs."""

    rule: str
    pct: Annotated[float, Meta(ge=0, le=100)]


class UsageEntry(TypedDict):
    """What an ended job used, for the lists of a fleet; unknown is None."""

    nodes: _Count
    gpus: Annotated[int, Meta(ge=0, le=2**53)] | None
    idle_pct: _Amount
    idle_of: Literal["accelerators", "steps"] | None
    lost: list[LostEntry]


class IndexEntry(TypedDict):
    """One ended job in the index of a store."""

    id: str
    name: str
    status: str
    owner: _Text
    created: _Moment
    start: _Moment
    end: _Moment
    price: _Amount
    verdict: _VerdictEntry | None
    usage: UsageEntry | None


class Manifest(TypedDict, total=False):
    """`job.json`."""

    name: str
    id: _Text
    status: str
    command: list[str] | None
    interval_ms: _Interval
    monitoring: bool | None
    rules: list[_RuleEntry] | None
    actions: list[dict[str, object]] | None
    created: _Moment
    start: _Moment
    end: _Moment
    exit_code: _Whole
    signal: _Whole | str
    failure: FailureEntry | None
    framework: _FrameworkEntry | None
    attempts: list[dict[str, object]] | None
    launch: LaunchEntry | None
    recorded: SurroundingsEntry | None
    price: _Amount
    total_steps: Annotated[int, Meta(ge=1, le=2**53)] | None
    tags: dict[str, str] | None
    verdict: _VerdictEntry | None
    step_course: Annotated[list[_Amount], Meta(max_length=1000)] | None
    owner: _Text
    usage: UsageEntry | None
    imported: _ImportedEntry | None
    stopped_by: _StoppedByEntry | None


class NodeDocument(TypedDict, total=False):
    """`nodes/<node>.json`."""

    cpus: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    cpu_quota: _Amount
    memory_bytes: _Amount
    memory_total_bytes: _Amount
    memory_limit_bytes: _Amount
    shm_bytes: _Amount
    gpus: list[GpuEntry] | None
    host: _Text
    os: _Text
    machine: _Text
    cpu_model: _Text
    python: _Text
    agent_pid: _Whole
    scheduler: SchedulerEntry | None
    obeys: list[str] | None
    heartbeat: _Moment
    missing: list[_MissingEntry] | None
    status: _Text
    start: _Moment
    end: _Moment
    exit_code: _Whole
    signal: _Whole | str
    failure: FailureEntry | None
    trained: bool | None
    left: bool | None
    cost: CostEntry | None


class ControlDocument(TypedDict, total=False):
    """`control.json`."""

    interval_ms: _Interval
    monitoring: bool | None
    watched: _Moment


class EvaluationsDocument(TypedDict, total=False):
    """`evaluations.json`."""

    updated: _Moment
    rules: list[_JudgedRuleEntry] | None
    cost: _JudgingCostEntry | None
    progress: dict[str, object] | None
    actions: dict[str, object] | None
