"""`RuleRun`: the state of one rule on one job, with its status, findings and coverage."""

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
    from holter.store.documents import Document

Status = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Stopping", "Stopped", "Error"]

MAX_FAILURES = 3
"""After so many exceptions in a row a rule is not evaluated again."""
MAX_DETAILS = 1024
MAX_THINNED = 32
"""A slow rule skips at most all but every so-many-th evaluation."""
_KEPT = (
    *("judged_until", "evaluations", "covered", "triggered", "points", "failures", "faults", "thinned"),
    *("reason", "lack", "have", "need", "steps", "tensors", "state", "error"),
)
"""The fields that a restart takes over as they are."""


@dataclass(slots=True)
class RuleRun:
    """One rule on one job. All of its state survives a restart."""

    name: str
    rule: Rule
    defaults: str = "modern"
    phase: Literal["InProgress", "Stopping", "Stopped", "Done"] = "InProgress"
    judged_until: int | None = None
    """End of the last window, ns since the epoch."""
    evaluations: int = 0
    covered: int = 0
    """The number of evaluations in which it could judge."""
    triggered: int = 0
    """The number of evaluations in which it found an issue."""
    points: int = 0
    reason: Reason = "ok"
    lack: str = ""
    have: float | None = None
    need: float | None = None
    findings: Findings = field(default_factory=Findings)
    streaks: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _details: Document | Callable[[], Document] = field(default_factory=dict)
    state: Document = field(default_factory=dict)
    failures: int = 0
    """The number of exceptions in a row."""
    faults: int = 0
    error: str = ""
    """The traceback of the last exception."""
    steps: tuple[int, int] | None = None
    """The first and the last step that it read."""
    tensors: int = 0
    """The most tensors that it read in one window."""
    thinned: int = 1
    """It is evaluated at every so-many-th occasion only, because it is slow."""
    rests_until: int = 0
    """It is not due before this time, ns; a long job has many more moments than evaluations."""
    on_first_fire: Literal["go_on", "stop"] = "go_on"
    strict_coverage: bool = False
    """Whether a rule that could never judge has failed."""

    lookback: Lookback = field(init=False)
    """How far its windows reach back."""
    _between: Callable[[int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.lookback, self._between = self.rule.lookback, spacing(self.rule)

    @property
    def details(self) -> Document:
        """The last statistics of the rule, as JSON can hold them."""
        given = self._details
        if callable(given):
            try:
                given = self._details = given()
            except Exception:  # an error of the rule must not stop the evaluation
                given = self._details = {}
                self.faults, self.error = self.faults + 1, masked_text(traceback.format_exc())
        found: Document = finite(given)
        return found

    @property
    def disabled(self) -> bool:
        """Whether it is not evaluated again: it failed too often, or fired and stops at the first issue."""
        fired = self.on_first_fire == "stop" and bool(self.findings)
        return fired or self.failures >= MAX_FAILURES

    @property
    def issues(self) -> dict[tuple[Any, ...], Issue]:
        """The issues by identity."""
        return {key: finding.issue for key, finding in self.findings.items()}

    @property
    def uncovered(self) -> bool:
        """Whether it was evaluated, or never will be, and could never judge."""
        return not self.covered and (bool(self.evaluations) or self.phase != "InProgress")

    @property
    def status(self) -> Status:
        """The status in lists and pages."""
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
        """Return whether it is due at a moment of a job of the given age, ns."""
        if moment < self.rests_until:
            return False
        since = moment if self.judged_until is None else moment - self.judged_until
        return since >= self._between(elapsed) * self.thinned

    def evaluate(self, window: Window) -> None:
        """Let the rule judge one window, in this process; an exception becomes its error."""
        self.take(judge(self.name, self.rule, window), window)

    def take(self, judgement: Judgement, window: Window) -> None:
        """Take the result of an evaluation, from this process or a sandbox."""
        before, self.judged_until = self.judged_until, window.end
        # Intervals only grow, so the present interval is a lower bound.
        self.rests_until = window.end + self._between(window.end - window.job.start) * self.thinned
        if judgement.error:
            self.evaluations += 1
            self.failures = MAX_FAILURES if judgement.fatal else self.failures + 1
            self.faults += 1
            self.error = masked_text(judgement.error)
            return
        self.failures = 0
        if judgement.idle:
            return
        self.evaluations += 1
        if judgement.details:
            self._details = judgement.details
        self._cover(judgement)
        needed = type(self.rule).consecutive
        held = {issue.key: self.streaks.get(issue.key, 0) + 1 for issue in judgement.found}
        self.streaks = held if needed > 1 else {}
        if window.job.ended:
            # In a job that is too short for more evaluations, fewer must agree.
            needed = min(needed, self.covered)
        due = [issue for issue in judgement.found if held[issue.key] >= needed]
        self.triggered += bool(due)
        self.findings.take(due, window.end)
        if self._resolves and (judgement.points or judgement.found or judgement.lack is None):
            interval = max(self._between(window.end - window.job.start), window.end - (before or window.end))
            reach = round((self.lookback.seconds or 0.0) * 1e9)
            self.findings.resolve(held, window.end, max(interval, reach), self._reported_once)

    @property
    def _resolves(self) -> bool:
        """Whether an evaluation without an issue resolves it.

        A rule with a lookback judges the same data repeatedly; a rule that sees only new rows may report a
        problem once, so a later evaluation without it proves nothing.
        """
        reach = self.lookback
        overlap = (reach.seconds or reach.steps or reach.readings) is not None
        return overlap and getattr(type(self.rule), "tells_once", False) is not True

    @property
    def _reported_once(self) -> tuple[str, ...]:
        codes = getattr(type(self.rule), "tells_once", False)
        return codes if isinstance(codes, tuple) else ()

    def _cover(self, judgement: Judgement) -> None:
        self.points += judgement.points
        if judgement.lack is None or judgement.points or judgement.found:
            self.covered += 1
        if judgement.lack is not None:
            self.reason, self.lack = judgement.lack.reason, judgement.lack.text
            self.have, self.need = judgement.lack.have, judgement.lack.need
        if judgement.steps is not None:
            first, last = self.steps or judgement.steps
            self.steps = (min(first, judgement.steps[0]), max(last, judgement.steps[1]))
        self.tensors = max(self.tensors, judgement.tensors)

    def shown(self) -> Document:
        """Return the public document of the rule, as `evaluations.json` holds it under `rules`."""
        return {
            "name": self.name,
            "rule": type(self.rule).__name__,
            "category": type(self.rule).category(),
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
            "issues": self.findings.shown(),
            "more_issues": self.findings.more,
            "details": self.details,
            "error": self.error or None,
        }

    def kept(self) -> Document:
        """Return the data for a restart, as `evaluations.json` holds it under `progress`."""
        return {
            "rule": type(self.rule).__name__,
            "parameters": self.rule.values(),
            "values": {name: getattr(self, name) for name in _KEPT},
            "issues": self.findings.shown(),
            "more": self.findings.more,
            "streaks": [[list(key), count] for key, count in self.streaks.items()],
            "details": self.details,
        }

    def restore(self, kept: Document) -> bool:
        """Continue a run of the same rule with the same parameters; returns false if it was another rule."""
        if kept.get("rule") != type(self.rule).__name__ or kept.get("parameters") != self.rule.values():
            return False
        for name in _KEPT:
            setattr(self, name, kept["values"][name])
        self.steps = (self.steps[0], self.steps[1]) if self.steps else None
        self.findings.restore(kept["issues"], kept["more"])
        self.streaks = {tuple(key): count for key, count in kept["streaks"]}
        self._details = kept["details"]
        return True
