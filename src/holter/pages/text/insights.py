"""Draws each rule: its issues with their times and evidence, its condition and its advice."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.pages.text.sections import table
from holter.rules import catalogue
from holter.views.issues import coverage, not_judged, severity_rank
from holter.views.wording import place_text, severity_text, status_text, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holter.rules.rule import Rule
    from holter.views.document.types import Description
    from holter.views.document.types.rules import RuleIssue, RuleResult

    Ran = Callable[[int, int], "Moment | None"]

_MOST = 50

_STEPS_AROUND = 3
"""So many steps before and after the worst one are shown."""

Moment = tuple[float, float]
"""A window of time, seconds since the job's start."""


def rules(
    told: Description,
    link: Callable[[Moment], str],
    extra: Callable[[str], str] = lambda _: "",
    ran: Ran = lambda first, last: None,
) -> Markup:
    """Draw every rule, those that found something first.

    `link` returns the address that shows a moment, `extra` an addition to the head of a rule, `ran` when
    some steps ran, first and last included.
    """
    unseen = set(not_judged(told["rules"]))
    ordered = sorted(told["rules"], key=lambda rule: (_rank(rule), rule["name"] in unseen, rule["name"]))
    return html(*(_rule(rule, told, rule["name"] in unseen, link, extra, ran) for rule in ordered))


def _rank(rule: RuleResult) -> tuple[int, int]:
    worst = min((severity_rank(issue["severity"]) for issue in rule["issues"]), default=severity_rank(""))
    return worst, -(rule.get("triggered") or 0)


def _rule(
    rule: RuleResult,
    told: Description,
    unseen: bool,
    link: Callable[[Moment], str],
    extra: Callable[[str], str],
    ran: Ran,
) -> Markup:
    name, issues = rule["name"], rule["issues"]
    known = catalogue().get(str(rule.get("rule")))
    open_ = [issue for issue in issues if issue.get("status") != "resolved"]
    worst = min((issue["severity"] for issue in open_), key=severity_rank, default="")
    status = "could not judge" if unseen else status_text(rule["status"])
    looks = counted(rule.get("evaluations") or 0, "check")
    counts = f"fired {counted(rule.get('triggered') or 0, 'time')} in {looks}"
    why = coverage(rule).get("lacking") if unseen else rule.get("error")
    parts = [
        tag("p", known.description, class_="dim") if known is not None else "",
        tag("p", why, class_="note") if why else "",
        _strip(issues, told, link, ran),
        *_issues(issues[:_MOST], told, link, ran),
        tag("p", f"and {len(issues) - _MOST:,} more", class_="note") if len(issues) > _MOST else "",
        _card(rule, known),
    ]
    fired = "fired" if issues else "quiet"
    return tag(
        "article",
        tag("header", tag("h3", name), tag("span", status, " · ", counts, class_="note"), extra(name)),
        tag("div", *parts, class_="inside"),
        class_=f"rule issue {worst} {fired}",
        data_key=name,
        tabindex="-1",
    )


def _issues(
    issues: Sequence[RuleIssue], told: Description, link: Callable[[Moment], str], ran: Ran
) -> Iterator[Markup]:
    """Yield each issue; advice that several share is given once, after the last of them."""
    for issue, after in zip_longest(issues, issues[1:]):
        again = after is not None and after["advice"] == issue["advice"]
        yield _issue({**issue, "advice": ""} if again else issue, told, link, ran)


def _issue(issue: RuleIssue, told: Description, link: Callable[[Moment], str], ran: Ran) -> Markup:
    over = " (resolved)" if issue.get("status") == "resolved" else ""
    moment = _worst(issue, told, ran)
    at = html(" · ", tag("a", "show the worst moment", href=link(moment))) if moment else ""
    found = (issue.get("evidence") or {}).items()
    evidence = table(("", ""), [(key.replace("_", " "), value_text(value)) for key, value in found])
    return tag(
        "div",
        tag(
            "p", tag("span", severity_text(issue["severity"]), class_="severity"), " ", issue["summary"], over
        ),
        tag("p", place_text(issue), at, class_="note"),
        tag("p", "→ ", issue["advice"]) if issue["advice"] else None,
        tag("details", tag("summary", "evidence"), evidence) if found else None,
        class_="found",
    )


def _card(rule: RuleResult, known: type[Rule] | None) -> Markup:
    """Say when the rule fires, with which parameters."""
    given = (rule.get("parameters") or {}).items()
    formula = tag("p", "Fires when: ", known.formula) if known is not None and known.formula else ""
    advice = tag("p", "Advice: ", known.advice) if known is not None and known.advice else ""
    if not (given or formula or advice):
        return Markup()
    drawn = (
        table(("parameter", "value"), [(name, value_text(value)) for name, value in given]) if given else ""
    )
    return tag("details", tag("summary", "what it looks for"), formula, advice, drawn)


def _strip(issues: Sequence[RuleIssue], told: Description, link: Callable[[Moment], str], ran: Ran) -> Markup:
    """Draw when it was true, over the whole job."""
    whole = told["job"]["duration_s"]
    bars = Markup()
    for issue in issues[:_MOST]:
        moment = _moment(issue, told, wide=False)
        if moment is None or not whole:
            continue
        left = min(max(100 * moment[0] / whole, 0.0), 99.5)
        width = min(max(100 * (moment[1] - moment[0]) / whole, 0.5), 100 - left)
        bars += tag(
            "a",
            class_=issue["severity"],
            style=f"left:{left:.2f}%;width:{width:.2f}%",
            href=link(_worst(issue, told, ran) or moment),
            title=issue["summary"][:200],
            aria_label=f"moment: {issue['summary'][:200]}",
        )
    return tag("div", bars, class_="strip") if bars else Markup()


def _moment(issue: RuleIssue, told: Description, *, wide: bool = True) -> Moment | None:
    """Return when an issue held; `wide`: with something around it."""
    start, first = told["job"]["start"], issue.get("time_start")
    if start is None or first is None:
        return None
    last = issue.get("time_end") or issue.get("last_found") or first
    begin, end = (first - start) / 1e9, (max(last, first) - start) / 1e9
    more = max(0.1 * (end - begin), 2.0) if wide else 0.0
    return max(begin - more, 0.0), end + more


def _worst(issue: RuleIssue, told: Description, ran: Ran) -> Moment | None:
    """Return when the worst step of an issue ran, with the steps around it; without steps, when it held."""
    step = _worst_step(issue, told)
    found = None if step is None else ran(step - _STEPS_AROUND, step + _STEPS_AROUND)
    return found or _moment(issue, told)


def _worst_step(issue: RuleIssue, told: Description) -> int | None:
    """Return the slowest step of an issue, as far as steps are known; else its first."""
    listed = (issue.get("evidence") or {}).get("steps_slowest_first")
    if listed:
        return int(listed[0])
    first, last = issue.get("step_start"), issue.get("step_end")
    if first is None:
        return None
    slow = told["steps"]["outliers"] if told["steps"] else []
    inside = (one["step"] for one in slow if first <= one["step"] <= (first if last is None else last))
    return next(inside, first)
