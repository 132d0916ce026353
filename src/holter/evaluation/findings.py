"""The findings of a rule: merges repeated issues and resolves those that no longer hold."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.rules import Issue
from holter.rules.engine.judging import finite
from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from holter.store.documents import Document

MAX_ISSUES = 100
"""The most issues of a rule that are kept; later ones are counted."""
QUIET_WINDOWS = 3
"""An issue is resolved when its condition was false for so many of the rule's windows."""

Key = tuple[Any, ...]


@dataclass(slots=True)
class Finding:
    """An issue and its state, open or resolved."""

    issue: Issue
    last: int
    """End of the last window in which it was found, ns since the epoch."""
    resolved: int | None = None
    """When its condition had been false for long enough."""

    def merge(self, issue: Issue, moment: int) -> None:
        """Merge the same issue from a later window; the text of the most severe one is kept, or the last."""
        before = self.issue
        worst = issue if SEVERITIES.index(issue.severity) >= SEVERITIES.index(before.severity) else before
        self.issue = dataclasses.replace(
            worst,
            count=before.count + issue.count,
            step_start=_least(before.step_start, issue.step_start),
            step_end=_most(before.step_end, issue.step_end),
            time_start=_least(before.time_start, issue.time_start),
            time_end=_most(before.time_end, issue.time_end),
        )
        self.last, self.resolved = moment, None

    def shown(self) -> Document:
        """Return the issue with its status, as `evaluations.json` holds it."""
        issue = self.issue
        plain = {f.name: getattr(issue, f.name) for f in dataclasses.fields(issue)}
        status = "open" if self.resolved is None else "resolved"
        about = {"status": status, "last_found": self.last, "resolved": self.resolved}
        about |= {"group_id": None, "caused_by": None}
        return {**plain, "evidence": finite(dict(issue.evidence)), **about}


class Findings(dict[Key, Finding]):
    """Findings by the identity of their issues."""

    more: int = 0
    """The number of findings that were not kept."""

    def take(self, issues: Iterable[Issue], moment: int) -> None:
        """Take the issues of the window that ended at `moment`."""
        for issue in issues:
            if issue.key in self:
                self[issue.key].merge(issue, moment)
            elif len(self) < MAX_ISSUES:
                self[issue.key] = Finding(issue, moment)
            else:
                self.more += issue.count

    def resolve(self, held: Iterable[Key], moment: int, window_ns: int, once: Collection[str] = ()) -> None:
        """Resolve issues that were not found for long enough, except codes in `once`."""
        held = set(held)
        for key, finding in self.items():
            if key in held:
                finding.last = max(finding.last, moment)
            elif finding.issue.code in once:
                continue
            elif finding.resolved is None and moment - finding.last >= QUIET_WINDOWS * window_ns:
                finding.resolved = moment

    def shown(self) -> list[Document]:
        """Return the issues with their status, as `evaluations.json` holds them."""
        return [finding.shown() for finding in self.values()]

    def restore(self, kept: Iterable[Document], more: int) -> None:
        """Restore the result of `shown`."""
        names = {f.name for f in dataclasses.fields(Issue)}
        self.clear()
        self.more = more
        for given in kept:
            issue = Issue(**{name: value for name, value in given.items() if name in names})
            self[issue.key] = Finding(issue, given["last_found"], given["resolved"])


def _least(*values: int | None) -> int | None:
    return min((v for v in values if v is not None), default=None)


def _most(*values: int | None) -> int | None:
    return max((v for v in values if v is not None), default=None)
