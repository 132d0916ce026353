"""The type of `rules` in a job's description: the results of the rules and their issues."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from holter.rules import Severity
from holter.rules.engine.coverage import Reason
from holter.views.document.types.values import Count, Moment


class ActionResult(TypedDict):
    """What an action did about an issue."""

    name: str
    result: Literal["pending", "ok", "failed", "skipped_cooldown", "skipped_limit", "dry_run"]
    time: Moment
    text: NotRequired[str]
    tries: NotRequired[int]


class RuleIssue(TypedDict):
    """An issue that a rule found."""

    summary: str
    severity: Severity
    evidence: dict[str, Any]
    advice: str | None
    status: NotRequired[Literal["open", "resolved"]]
    code: NotRequired[str]
    count: NotRequired[Count]
    last_found: NotRequired[
        Annotated[
            int | None,
            Meta(description="End of the last window with this issue, nanoseconds since the epoch."),
        ]
    ]
    resolved: NotRequired[
        Annotated[
            int | None,
            Meta(description="Time at which three windows in a row had no such issue, ns since the epoch."),
        ]
    ]
    group_id: NotRequired[
        Annotated[
            str | None,
            Meta(description="Equal for issues that overlap in time and have one cause; null for others."),
        ]
    ]
    caused_by: NotRequired[Annotated[str | None, Meta(description="The rule of the group to look at first.")]]
    node: NotRequired[str | None]
    rank: NotRequired[int | None]
    device: NotRequired[str | None]
    tensor: NotRequired[str | None]
    step_start: NotRequired[int | None]
    step_end: NotRequired[int | None]
    time_start: NotRequired[Moment | None]
    time_end: NotRequired[Moment | None]
    actions: NotRequired[
        Annotated[list[ActionResult], Meta(description="Absent if no action is bound to the issue.")]
    ]


class RuleCoverage(TypedDict):
    """The data that the rule could judge. Without data, no issue means nothing."""

    evaluated: bool
    reason: Reason
    evaluations: NotRequired[Count]
    points_seen: NotRequired[float | None]
    points_needed: NotRequired[float | None]
    tensors_matched: NotRequired[Count]
    first_step: NotRequired[int | None]
    last_step: NotRequired[int | None]
    lacking: NotRequired[str]
    every_nth: NotRequired[
        Annotated[int, Meta(ge=1, description="Above 1: the rule is too slow and runs less often.")]
    ]


class RuleResult(TypedDict):
    """The result of one rule."""

    name: str
    status: Literal["InProgress", "NoIssuesFound", "IssuesFound", "Stopping", "Stopped", "Error"]
    parameters: dict[str, Any]
    evaluations: int | None
    triggered: int | None
    last_evaluated: Moment | None
    issues: list[RuleIssue]
    coverage: NotRequired[RuleCoverage]
    rule: NotRequired[str]
    category: NotRequired[str]
    status_details: NotRequired[str]
    defaults: NotRequired[Any]
    more_issues: NotRequired[Count]
    details: NotRequired[dict[str, Any]]
    error: NotRequired[str | None]
