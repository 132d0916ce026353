"""The type of `verdict` in a job's description."""

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from holter.analysis.verdict.job_verdict import SUSPECTS
from holter.views.document.types.values import Percent

_Suspect = Annotated[str, Meta(extra_json_schema={"enum": list(SUSPECTS)})]


class VerdictEvidence(TypedDict):
    """A measured number and the limit that it is compared with."""

    text: str
    metric: str | None
    value: float | None
    threshold: float | None
    where: str | None
    window: Any


class RuledOut(TypedDict):
    """A suspect that the measurements exclude."""

    suspect: _Suspect
    because: str


class SmallerPart(TypedDict):
    """A part of the time that is too small for a bottleneck and too large to be ruled out."""

    suspect: _Suspect
    share_pct: Percent
    text: str


class VerdictAdvice(TypedDict):
    """A change to the training, with the step time that it promises."""

    text: str
    expected_step_ms: float | None
    why: str | None


class JobVerdict(TypedDict):
    """The reason why the training is slow, or that it is healthy."""

    suspect: _Suspect
    also: list[_Suspect]
    share_pct: Percent | None
    sentence: Annotated[str, Meta(min_length=1)]
    evidence: list[VerdictEvidence]
    smaller: list[SmallerPart]
    ruled_out: list[RuledOut]
    advice: list[VerdictAdvice]
    missing: list[str]
