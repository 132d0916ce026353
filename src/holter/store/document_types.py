"""The types of the entries in a job's JSON documents, by document and entry."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypedDict

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


class _Choice(TypedDict):
    name: str


class _Parameters(TypedDict, total=False):
    rule: str
    parameters: dict[str, Any]


class _Rule(_Choice, _Parameters):
    pass


class _Failure(TypedDict, total=False):
    kind: _Text
    step: _Whole
    phase: _Text
    exception: _Text
    rank: _Whole
    node: _Text
    signal: _Whole | str


class _Framework(TypedDict, total=False):
    name: _Text
    version: _Text
    device: _Text


class _Launch(TypedDict, total=False):
    id: str
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] | None


class _Recorded(TypedDict, total=False):
    code: dict[str, str]
    packages: dict[str, str]
    settings: dict[str, str]


class _Verdict(TypedDict, total=False):
    suspect: _Text
    sentence: _Text
    headline: _Text


class _Imported(TypedDict, total=False):
    files: dict[str, str]
    ranks: dict[str, int]
    facts: dict[str, dict[str, Any]]


class _StoppedBy(TypedDict, total=False):
    rule: _Text
    reason: _Text


class _Gpu(TypedDict, total=False):
    name: _Text
    memory_bytes: _Number


class _Missing(TypedDict):
    what: str
    why: str


class _Cost(TypedDict, total=False):
    recorder_ns: _Amount
    agent_cpu_s: _Amount
    duration_s: _Amount
    records: _Amount
    dropped: _Amount


class _Issue(TypedDict):
    summary: str
    severity: Literal["info", "warning", "critical"]


class _IssueMore(TypedDict, total=False):
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
    evidence: dict[str, Any]
    advice: str
    count: _Count
    last_found: _Moment
    resolved: _Moment
    group_id: _Text
    caused_by: _Text


class _Found(_Issue, _IssueMore):
    pass


class _Coverage(TypedDict, total=False):
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


class _Judged(TypedDict):
    name: str
    status: str
    issues: list[_Found]


class _JudgedMore(TypedDict, total=False):
    rule: str
    status_details: str
    parameters: dict[str, Any]
    evaluations: _Count
    triggered: _Count
    last_evaluated: _Moment
    coverage: _Coverage
    more_issues: _Count
    details: dict[str, Any]
    error: _Text


class _JudgedRule(_Judged, _JudgedMore):
    pass


class _JudgingCost(TypedDict, total=False):
    cpu_s: Annotated[float, Meta(ge=0, le=1e15)]
    looks: _Count
    late_spans: _Count


MANIFEST_ENTRIES: dict[str, Any] = {
    "name": str,
    "id": _Text,
    "status": str,
    "command": list[str] | None,
    "interval_ms": _Interval,
    "monitoring": bool | None,
    "rules": list[_Rule] | None,
    "actions": list[dict[str, Any]] | None,
    "created": _Moment,
    "start": _Moment,
    "end": _Moment,
    "exit_code": _Whole,
    "signal": _Whole | str,
    "failure": _Failure | None,
    "framework": _Framework | None,
    "attempts": list[dict[str, Any]] | None,
    "launch": _Launch | None,
    "recorded": _Recorded | None,
    "price": _Amount,
    "total_steps": Annotated[int, Meta(ge=1, le=2**53)] | None,
    "tags": dict[str, str] | None,
    "verdict": _Verdict | None,
    "imported": _Imported | None,
    "stopped_by": _StoppedBy | None,
}
NODE_ENTRIES: dict[str, Any] = {
    "cpus": Annotated[int, Meta(ge=1, le=1_000_000)] | None,
    "cpu_quota": _Amount,
    "memory_bytes": _Amount,
    "memory_total_bytes": _Amount,
    "memory_limit_bytes": _Amount,
    "gpus": list[_Gpu] | None,
    "host": _Text,
    "os": _Text,
    "machine": _Text,
    "cpu_model": _Text,
    "python": _Text,
    "agent_pid": _Whole,
    "obeys": list[str] | None,
    "heartbeat": _Moment,
    "missing": list[_Missing] | None,
    "status": _Text,
    "start": _Moment,
    "end": _Moment,
    "exit_code": _Whole,
    "signal": _Whole | str,
    "failure": _Failure | None,
    "trained": bool | None,
    "left": bool | None,
    "cost": _Cost | None,
}
CONTROL_ENTRIES: dict[str, Any] = {"interval_ms": _Interval, "monitoring": bool | None, "watched": _Moment}
EVALUATIONS_ENTRIES: dict[str, Any] = {
    "updated": _Moment,
    "rules": list[_JudgedRule] | None,
    "cost": _JudgingCost | None,
    "progress": dict[str, Any] | None,
    "actions": dict[str, Any] | None,
}
