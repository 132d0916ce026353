"""How one rule fares on one job: its status, what it found, how much it could judge."""

from __future__ import annotations

import dataclasses
import math
import traceback
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from holter.rules import SEVERITIES, Issue, Reason, Rule, Window

Status = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Stopping", "Stopped", "Error"]

MAX_ISSUES = 100
"""Issues a rule may keep; later ones are counted only."""
MAX_FAILURES = 3
"""So many exceptions in a row, and the rule is asked no more."""
MAX_DETAILS = 1024


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
    issues: dict[tuple[Any, ...], Issue] = field(default_factory=dict)
    more: int = 0
    """Findings beyond the issues that are kept."""
    streaks: dict[tuple[Any, ...], int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    failures: int = 0
    """Exceptions in a row."""
    faults: int = 0
    error: str = ""
    """The traceback of the last exception."""

    @property
    def disabled(self) -> bool:
        """Whether it failed so often in a row that it is asked no more."""
        return self.failures >= MAX_FAILURES

    @property
    def status(self) -> Status:
        """The status as everybody is shown it."""
        if self.failures:
            return "Error"
        if self.issues:
            return "IssuesFound"
        return "NoIssuesFound" if self.phase == "Done" else self.phase

    @property
    def status_details(self) -> str:
        """The status in words, at most 1024 characters."""
        if self.failures:
            text = f"Error: {self.error.strip().splitlines()[-1] if self.error else ''}"
        elif self.issues:
            worst = max(self.issues.values(), key=lambda i: SEVERITIES.index(i.severity))
            text = f"IssuesFound: {worst.summary}"
        elif not self.covered and (self.evaluations or self.phase != "InProgress"):
            text = f"NotEvaluated: {self.reason}: {self.lack}"
        else:
            text = f"{self.status}: {self.covered} of {self.evaluations} evaluations could judge"
        return text[:MAX_DETAILS]

    def look(self, window: Window) -> None:
        """Let the rule judge one window. Whatever it raises stays its own fault."""
        self.judged_until = window.end
        try:
            found = list(self.rule.evaluate(window))
            if wrong := [f for f in found if not isinstance(f, Issue)]:
                raise TypeError(f"{self.name} yielded {wrong[0]!r}, which is no Issue")
        except Exception:
            self.evaluations += 1
            self.failures += 1
            self.faults += 1
            self.error = traceback.format_exc(limit=-8)
            return
        self.failures = 0
        if window.idle:
            return
        self.evaluations += 1
        if window.details:
            self.details = _finite(window.details)
        self._cover(window, judged=bool(found))
        held = {issue.key: self.streaks.get(issue.key, 0) + 1 for issue in found}
        self.streaks = held if type(self.rule).consecutive > 1 else {}
        # A job too short for a second look is judged by the one there was.
        needed = (
            min(type(self.rule).consecutive, self.covered)
            if window.job.ended
            else type(self.rule).consecutive
        )
        due = [issue for issue in found if held[issue.key] >= needed]
        self.triggered += bool(due)
        for issue in due:
            self._merge(issue)

    def _cover(self, window: Window, *, judged: bool) -> None:
        self.points += window.points
        if window.lack is None or window.points or judged:
            self.covered += 1
        if window.lack is not None:
            self.reason, self.lack = window.lack.reason, window.lack.text
            self.have, self.need = window.lack.have, window.lack.need

    def _merge(self, issue: Issue) -> None:
        before = self.issues.get(issue.key)
        if before is None:
            if len(self.issues) < MAX_ISSUES:
                self.issues[issue.key] = issue
            else:
                self.more += issue.count
            return
        # What is told is the worst that was seen, of equals the last.
        told = issue if SEVERITIES.index(issue.severity) >= SEVERITIES.index(before.severity) else before
        self.issues[issue.key] = dataclasses.replace(
            told,
            count=before.count + issue.count,
            step_start=_least(before.step_start, issue.step_start),
            step_end=_most(before.step_end, issue.step_end),
            time_start=_least(before.time_start, issue.time_start),
            time_end=_most(before.time_end, issue.time_end),
        )

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
                "reason": "ok" if self.covered else self.reason,
                "lacking": self.lack,
            },
            "issues": [_plain(issue) for issue in self.issues.values()],
            "more_issues": self.more,
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
            "counts": [self.evaluations, self.covered, self.triggered, self.points, self.more, self.failures],
            "lack": [self.reason, self.lack, self.have, self.need],
            "issues": [_plain(issue) for issue in self.issues.values()],
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
        self.evaluations, self.covered, self.triggered, self.points, self.more, self.failures = kept["counts"]
        self.reason, self.lack, self.have, self.need = kept["lack"]
        issues = [Issue(**given) for given in kept["issues"]]
        self.issues = {issue.key: issue for issue in issues}
        self.streaks = {tuple(key): count for key, count in kept["streaks"]}
        self.details, self.state, self.error = kept["details"], kept["state"], kept["error"]
        return True


def _plain(issue: Issue) -> dict[str, Any]:
    plain = {f.name: getattr(issue, f.name) for f in dataclasses.fields(issue)}
    return plain | {"evidence": _finite(dict(issue.evidence))}


def _finite(value: Any) -> Any:
    """Return a value as JSON knows it: numbers that are not finite are absent."""
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _least(*values: int | None) -> int | None:
    return min((v for v in values if v is not None), default=None)


def _most(*values: int | None) -> int | None:
    return max((v for v in values if v is not None), default=None)
