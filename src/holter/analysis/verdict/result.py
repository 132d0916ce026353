"""What a verdict consists of: results of the suspects' tests, advice, and the limits of jobs and traces."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.evidence import Evidence

GPU_BUSY = 70.0
"""GPUs that are busy for at least this percentage of the time are well used."""
GPU_SATURATED = 95.0
"""From this percentage on, only less work makes the step shorter."""
UNEXPLAINED = 30.0
"""A larger percentage of the time outside all known parts leaves the verdict open."""


@dataclass(frozen=True, kw_only=True)
class SuspectResult:
    """Result of the test of one suspect."""

    guilty: bool = False
    sentence: str = ""
    share: float | None = None
    """Percent of the loop that the suspect takes."""
    evidence: list[Evidence] = field(default_factory=list)
    because: str = ""
    """Why the suspect is not guilty; empty when the data do not say."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One change of the training. `expected_step_ms` is None where the job's data do not predict it."""

    text: str
    expected_step_ms: float | None
    why: str


def ordered(advice: list[Advice]) -> list[Advice]:
    """Sort advice by expected step time, the shortest first; advice without a prediction comes last."""
    return sorted(advice, key=lambda a: (a.expected_step_ms is None, a.expected_step_ms or 0.0))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a training is slow, or that it is healthy."""

    suspect: str
    """One of `job_verdict.SUSPECTS`."""
    sentence: str
    share_pct: float | None = None
    """Percent of the loop that the suspect takes."""
    also: list[str] = field(default_factory=list)
    """All suspects of a mixed verdict, the largest first; otherwise one that explains `suspect`."""
    evidence: list[Evidence] = field(default_factory=list)
    ruled_out: list[dict[str, str]] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Kinds of data that would make the verdict more precise."""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as `describe --json` prints it under `verdict`."""
        return {
            "suspect": self.suspect,
            "also": list(self.also),
            "share_pct": self.share_pct,
            "sentence": self.sentence,
            "evidence": [item.to_json() for item in self.evidence],
            "ruled_out": [dict(item) for item in self.ruled_out],
            "advice": [asdict(item) for item in self.advice],
            "missing": list(self.missing),
        }


def ruled_out(tested: Mapping[str, SuspectResult]) -> list[dict[str, str]]:
    """Return the suspects that are not guilty, each with the reason."""
    return [
        {"suspect": name, "because": result.because}
        for name, result in tested.items()
        if not result.guilty and result.because
    ]
