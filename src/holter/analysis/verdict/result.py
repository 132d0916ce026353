"""What a verdict consists of: results of the suspects' tests, advice, and the limits of jobs and traces."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.analysis.verdict.evidence import Evidence

GPU_BUSY = 70.0
"""GPUs that are busy for at least this percentage of the time are well used."""
GPU_SATURATED = 95.0
"""From this percentage on, only less work makes the step shorter."""
BOTTLENECK = 30.0
"""A part that takes at least this percentage of the time is a bottleneck."""
COMMUNICATION_SHARE = 15.0
"""The limit of exposed communication."""
CHECKPOINT_SHARE = 10.0
"""The limit of checkpoints, which can leave the loop entirely."""
UNEXPLAINED = BOTTLENECK
"""A larger percentage of the time outside all known parts leaves the verdict open."""
SMALLER = 10.0
"""From this percentage up to a suspect's limit, a share is named with its gain; below it is ruled out."""
SECOND = 15.0
"""From this percentage on, a smaller share is named beside a bottleneck, too."""


@dataclass(frozen=True, kw_only=True)
class SuspectResult:
    """Result of the test of one suspect."""

    guilty: bool = False
    sentence: str = ""
    share: float | None = None
    """Percent of the loop that the suspect takes."""
    evidence: list[Evidence] = field(default_factory=list)
    because: str = ""
    """Why the suspect is ruled out; empty when the data do not say."""
    smaller: str = ""
    """The share and its gain, of a suspect that is neither a bottleneck nor ruled out."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One change of the training. `expected_step_ms` is None where the job's data do not predict it."""

    text: str
    expected_step_ms: float | None
    why: str


def ordered(advice: list[Advice]) -> list[Advice]:
    """Sort advice by expected step time, the shortest first; advice without a prediction comes last."""
    return sorted(advice, key=lambda a: (a.expected_step_ms is None, a.expected_step_ms or 0.0))


@dataclass(frozen=True, slots=True)
class SmallerShare:
    """A part of the time that is worth a change and too small for a bottleneck."""

    suspect: str
    share_pct: float
    text: str
    """The share, and what the change is worth at most."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a training is slow, or that it is healthy."""

    suspect: str
    """One of `job_verdict.SUSPECTS`."""
    also: list[str] = field(default_factory=list)
    """All suspects of a mixed verdict, the largest first; otherwise one that explains `suspect`."""
    share_pct: float | None = None
    """Percent of the loop that the suspect takes."""
    sentence: str
    evidence: list[Evidence] = field(default_factory=list)
    smaller: list[SmallerShare] = field(default_factory=list)
    """Parts that are too small for a bottleneck and too large to be ruled out, the largest first."""
    ruled_out: list[dict[str, str]] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Kinds of data that would make the verdict more precise."""

    def to_json(self) -> dict[str, object]:
        """Return the verdict as `describe --json` prints it under `verdict`."""
        return asdict(self)


def most_guilty(tested: Mapping[str, SuspectResult]) -> list[str]:
    """Return the names of the guilty suspects, the largest share first."""
    guilty = [name for name, result in tested.items() if result.guilty]
    return sorted(guilty, key=lambda name: -(tested[name].share or 0.0))


def summed_share(guilty: Iterable[SuspectResult]) -> float | None:
    """Return the share that suspects take together, percent; None when none has a share."""
    shares = [result.share for result in guilty if result.share is not None]
    return min(sum(shares), 100.0) if shares else None


def smaller_shares(tested: Mapping[str, SuspectResult]) -> list[SmallerShare]:
    """Return the suspects that are neither guilty nor ruled out, the largest share first."""
    found = [
        SmallerShare(name, result.share or 0.0, result.smaller)
        for name, result in tested.items()
        if not result.guilty and result.smaller
    ]
    return sorted(found, key=lambda one: -one.share_pct)


def ruled_out(tested: Mapping[str, SuspectResult]) -> list[dict[str, str]]:
    """Return the suspects that are not guilty, each with the reason."""
    return [
        {"suspect": name, "because": result.because}
        for name, result in tested.items()
        if not result.guilty and result.because
    ]
