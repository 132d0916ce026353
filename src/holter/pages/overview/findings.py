"""The findings of the rules in short: the worst first, and one line for all that is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.pages.text.sections import issues
from holter.views.issues import not_judged, ordered
from holter.views.wording import issue_text, place_text, severity_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from markupsafe import Markup

    from holter.views.document.types.rules import RuleResult
    from holter.views.issues import IssueGroup

_MOST = 5


def findings(rules: Sequence[RuleResult], job: str, address: str) -> Markup:
    """Draw the most severe findings; `address` is where all of them are."""
    if not rules:
        return issues(rules, job)
    found = ordered(rules)
    more = len(found) - _MOST
    listed = tag("ul", *(_finding(one) for one in found[:_MOST]), class_="plain findings") if found else None
    return html(
        listed,
        tag("p", f"and {more:,} more" if more > 0 else None, class_="note") if more > 0 else None,
        tag("p", clear(rules), " ", tag("a", "Evidence and advice", href=address, data_drawer="findings")),
    )


def clear(rules: Sequence[RuleResult]) -> str:
    """Say how many checks passed, and how many could not judge."""
    unseen = len(not_judged(rules))
    fired = sum(bool(rule["issues"]) for rule in rules)
    passed = sum(rule["status"] == "NoIssuesFound" for rule in rules if not rule["issues"]) - unseen
    said = [f"{counted(passed, 'check')} passed"] if passed else []
    if unseen:
        said.append(f"{unseen if said else counted(unseen, 'check')} had too little data")
    if left := len(rules) - fired - unseen - passed:
        said.append(f"{left if said else counted(left, 'check')} found nothing so far")
    return ", ".join(said) + "." if said else ""


def count(rules: Iterable[RuleResult]) -> int:
    """Return how many findings there are, symptoms under their cause counted once."""
    return len(ordered(rules))


def _finding(one: IssueGroup) -> Markup:
    related = ", ".join(dict.fromkeys(each.rule for each in one.symptoms))
    place = place_text(one.issue)
    return tag(
        "li",
        tag("span", severity_text(one.severity), class_="severity"),
        " ",
        issue_text(one),
        tag("span", f" {place}", class_="note") if place else None,
        tag("span", f" Related: {related}", class_="note") if related else None,
        class_=f"issue {'' if one.over else one.severity}",
    )
