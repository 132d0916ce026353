"""How one rule fares on one job: its status, what it found, how much it could judge."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holter.evaluation.findings import Findings
from holter.evaluation.schedule import spacing
from holter.rules.engine.judging import Judgement, finite, judge
from holter.schema.masking import masked_text
from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules import Issue, Lookback, Reason, Rule, Window

Status = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Stopping", "Stopped", "Error"]

MAX_FAILURES = 3
"""So many exceptions in a row, and the rule is asked no more."""
MAX_DETAILS = 1024
MAX_THINNED = 32
"""A rule that is too slow is asked at every so many'th look at the rarest."""


@dataclass(slots=True)
class RuleRun:
    """One rule on one job. Everything in it survives a restart."""

    name: str
    rule: Rule
    defaults: str = "modern"
    phase: Literal["InProgress", "Stopping", "Stopped", "Done"] = "InProgress"
    judged_until: int | None = None
    """End of the last window, ns since the epoch."""
    evaluations: int = 0
    covered: int = 0
    """Evaluations in which it could judge."""
    triggered: int = 0
    """Evaluations in which it found something."""
    points: int = 0
    reason: Reason = "ok"
    lack: str = ""
    have: float | None = None
    need: float | None = None
    findings: Findings = field(default_factory=Findings)
    streaks: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _details: dict[str, Any] | Callable[[], dict[str, Any]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    failures: int = 0
    """Exceptions in a row."""
    faults: int = 0
    error: str = ""
    """The traceback of the last exception."""
    steps: tuple[int, int] | None = None
    """First and last step of what it read."""
    tensors: int = 0
    """Tensors it read at most in one window."""
    thinned: int = 1
    """It is asked at each so many'th look only, because it took too long."""
    rests_until: int = 0
    """Surely not due before, ns: asked at every moment of a long job, which is a hundred times a look."""
    on_first_fire: Literal["go_on", "stop"] = "go_on"
    strict_coverage: bool = False
    """Whether a rule that never could judge has failed."""

    lookback: Lookback = field(init=False)
    """How far its windows reach back."""
    _between: Callable[[int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.lookback, self._between = self.rule.lookback, spacing(self.rule)

    @property
    def details(self) -> dict[str, Any]:
        """What the rule handed over last, as JSON knows it."""
        given = self._details
        if callable(given):
            try:
                given = self._details = given()
            except Exception:  # stays the rule's own fault
                given = self._details = {}
                self.faults, self.error = self.faults + 1, masked_text(traceback.format_exc())
        found: dict[str, Any] = finite(given)
        return found

    @property
    def disabled(self) -> bool:
        """Whether it is asked no more: it failed too often in a row, or has fired and was to stop then."""
        fired = self.on_first_fire == "stop" and bool(self.findings)
        return fired or self.failures >= MAX_FAILURES

    @property
    def issues(self) -> dict[tuple[Any, ...], Issue]:
        """The issues by what they are about."""
        return {key: finding.issue for key, finding in self.findings.items()}

    @property
    def uncovered(self) -> bool:
        """Whether it has been asked, or will be no more, and never could judge."""
        return not self.covered and (bool(self.evaluations) or self.phase != "InProgress")

    @property
    def status(self) -> Status:
        """The status as everybody is shown it."""
        if self.failures or (self.strict_coverage and self.phase == "Done" and self.uncovered):
            return "Error"
        if self.findings:
            return "IssuesFound"
        return "NoIssuesFound" if self.phase == "Done" else self.phase

    @property
    def status_details(self) -> str:
        """The status in words, at most 1024 characters."""
        if self.failures:
            text = f"Error: {self.error.strip().splitlines()[-1] if self.error else ''}"
        elif self.findings:
            worst = max(self.issues.values(), key=lambda i: SEVERITIES.index(i.severity))
            text = f"IssuesFound: {worst.summary}"
        elif self.uncovered:
            text = f"NotEvaluated: {self.reason}: {self.lack}"
        else:
            text = f"{self.status}: {self.covered} of {self.evaluations} evaluations could judge"
        return text[:MAX_DETAILS]

    def due(self, moment: int, elapsed: int) -> bool:
        """Tell whether it is to look at a moment of a job that is so old, ns."""
        if moment < self.rests_until:
            return False
        since = moment if self.judged_until is None else moment - self.judged_until
        return since >= self._between(elapsed) * self.thinned

    def look(self, window: Window) -> None:
        """Let the rule judge one window, here. Whatever it raises stays its own fault."""
        self.take(judge(self.name, self.rule, window), window)

    def take(self, outcome: Judgement, window: Window) -> None:
        """Take what came of a look at a window, wherever it was judged."""
        before, self.judged_until = self.judged_until, window.end
        # Looks only become rarer, so what lies between two of them now is the least.
        self.rests_until = window.end + self._between(window.end - window.job.start) * self.thinned
        if outcome.error:
            self.evaluations += 1
            self.failures = MAX_FAILURES if outcome.fatal else self.failures + 1
            self.faults += 1
            self.error = masked_text(outcome.error)
            return
        self.failures = 0
        if outcome.idle:
            return
        self.evaluations += 1
        if outcome.details:
            self._details = outcome.details
        self._cover(outcome)
        needed = type(self.rule).consecutive
        held = {issue.key: self.streaks.get(issue.key, 0) + 1 for issue in outcome.found}
        self.streaks = held if needed > 1 else {}
        if window.job.ended:
            # A job too short for a second look is judged by the one there was.
            needed = min(needed, self.covered)
        due = [issue for issue in outcome.found if held[issue.key] >= needed]
        self.triggered += bool(due)
        self.findings.take(due, window.end)
        if self._resolves and (outcome.points or outcome.found or outcome.lack is None):
            look = max(self._between(window.end - window.job.start), window.end - (before or window.end))
            reach = round((self.lookback.seconds or 0.0) * 1e9)
            self.findings.settle(held, window.end, max(look, reach), self._told_once)

    @property
    def _resolves(self) -> bool:
        """Whether silence means that an issue is over.

        A rule that looks back judges the same data again and again; one that is handed new rows only may tell
        a thing once, and its silence says nothing.
        """
        look = self.lookback
        looks_back = (look.seconds or look.steps or look.readings) is not None
        return looks_back and getattr(type(self.rule), "tells_once", False) is not True

    @property
    def _told_once(self) -> tuple[str, ...]:
        codes = getattr(type(self.rule), "tells_once", False)
        return codes if isinstance(codes, tuple) else ()

    def _cover(self, outcome: Judgement) -> None:
        self.points += outcome.points
        if outcome.lack is None or outcome.points or outcome.found:
            self.covered += 1
        if outcome.lack is not None:
            self.reason, self.lack = outcome.lack.reason, outcome.lack.text
            self.have, self.need = outcome.lack.have, outcome.lack.need
        if outcome.steps is not None:
            first, last = self.steps or outcome.steps
            self.steps = (min(first, outcome.steps[0]), max(last, outcome.steps[1]))
        self.tensors = max(self.tensors, outcome.tensors)

    def shown(self) -> dict[str, Any]:
        """Return what everybody may know, as `evaluations.json` holds it under `rules`."""
        return {
            "name": self.name,
            "rule": type(self.rule).__name__,
            "status": self.status,
            "status_details": self.status_details,
            "parameters": self.rule.values(),
            "defaults": self.defaults,
            "evaluations": self.evaluations,
            "triggered": self.triggered,
            "last_evaluated": self.judged_until,
            "coverage": {
                "evaluated": self.covered > 0,
                "evaluations": self.covered,
                "points_seen": self.points if self.covered else self.have,
                "points_needed": self.need,
                "tensors_matched": self.tensors,
                "first_step": self.steps[0] if self.steps else None,
                "last_step": self.steps[1] if self.steps else None,
                "reason": "ok" if self.covered else self.reason,
                "lacking": self.lack,
                "every_nth": self.thinned,
            },
            "issues": [finding.shown() for finding in self.findings.values()],
            "more_issues": self.findings.more,
            "details": self.details,
            "error": self.error or None,
        }

    def kept(self) -> dict[str, Any]:
        """Return what only a restart needs, as `evaluations.json` holds it under `progress`."""
        return {
            "rule": type(self.rule).__name__,
            "parameters": self.rule.values(),
            "judged_until": self.judged_until,
            "phase": self.phase,
            "counts": [self.evaluations, self.covered, self.triggered, self.points],
            "failures": [self.failures, self.faults, self.thinned],
            "lack": [self.reason, self.lack, self.have, self.need],
            "read": [self.steps, self.tensors],
            "issues": self.findings.kept(),
            "more": self.findings.more,
            "streaks": [[list(key), count] for key, count in self.streaks.items()],
            "details": self.details,
            "state": self.state,
            "error": self.error,
        }

    def restore(self, kept: dict[str, Any]) -> bool:
        """Go on where a run of the same rule with the same parameters stopped; says whether it was one."""
        if kept.get("rule") != type(self.rule).__name__ or kept.get("parameters") != self.rule.values():
            return False
        self.judged_until = kept["judged_until"]
        self.evaluations, self.covered, self.triggered, self.points = kept["counts"]
        self.failures, self.faults, self.thinned = kept["failures"]
        self.reason, self.lack, self.have, self.need = kept["lack"]
        steps, self.tensors = kept["read"]
        self.steps = (steps[0], steps[1]) if steps else None
        self.findings.restore(kept["issues"], kept["more"])
        self.streaks = {tuple(key): count for key, count in kept["streaks"]}
        self._details, self.state, self.error = kept["details"], kept["state"], kept["error"]
        return True
