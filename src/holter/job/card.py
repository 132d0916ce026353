"""The card of a job for notebooks: headline, verdict, parts of the time, numbers and a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.figure import style
from holter.drawing.markup import html, tag
from holter.drawing.parts import bar_of_parts
from holter.drawing.pieces import prose
from holter.views.issues import ordered
from holter.views.wording import advice_text, duration, issue_text, milliseconds, percent, rate, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holter.views.document.types import Description

_MOST = 3
_CELLS = 40
_BLOCKS = "█▓▒░▚▞▌▄"


def bundle(told: Description, url: str, address: str = "") -> dict[str, str]:
    """Return the card of a described job as text and HTML; `address` is that of its page, if it is served."""
    return {"text/plain": text(told, url), "text/html": str(markup(told, url, address))}


def text(told: Description, url: str) -> str:
    """Return the card as lines of text."""
    job, verdict = told["job"], told["verdict"]
    lines = [f"{job['name']} · {_state(told)}"]
    lines += [job["headline"]] if job["headline"] else []
    lines.append(verdict["sentence"])
    if bar := _bar(told):
        lines += bar
    if numbers := list(_numbers(told)):
        lines.append(" · ".join(f"{name} {value}" for name, value in numbers))
    lines += [issue_text(one) for one in ordered(told["rules"])[:_MOST] if one.severity != "info"]
    lines += [f"advice: {advice_text(one)}" for one in verdict["advice"][:1]]
    lines.append(f"holter describe {url}")
    return "\n".join(lines)


def markup(told: Description, url: str, address: str = "") -> Markup:
    """Return the card as HTML that needs no script."""
    job, verdict = told["job"], told["verdict"]
    sick = bool(job["headline"])
    kind = "sick" if sick else "" if verdict["suspect"] == "healthy" else "unsure"
    link = (
        tag("a", "Open the dashboard", href=address, target="_blank", rel="noopener")
        if address
        else tag("code", "holter.ui()")
    )
    issues = [one for one in ordered(told["rules"]) if one.severity != "info"][:_MOST]
    return html(
        style(".holter-card"),
        tag(
            "div",
            tag("p", tag("b", job["name"]), " · ", _state(told), class_="note"),
            tag("p", job["headline"], class_="headline") if sick else "",
            tag("div", tag("p", prose(verdict["sentence"]), class_="said"), class_=f"verdict {kind}".strip()),
            _bar_of_parts(told),
            tag("p", *_joined(_numbers(told)), class_="numbers"),
            tag("ul", *(tag("li", issue_text(one)) for one in issues)) if issues else "",
            tag("p", tag("b", "Advice: "), prose(advice_text(verdict["advice"][0])))
            if verdict["advice"]
            else "",
            tag("p", link, " · ", tag("code", f"holter describe {url}"), class_="note"),
            class_="holter-card",
        ),
    )


def _state(told: Description) -> str:
    job = told["job"]
    state = {"InProgress": "running"}.get(job["status"], job["status"].lower())
    return f"{state}, {duration(job['duration_s'])}" if job["duration_s"] else state


def _numbers(told: Description) -> Iterator[tuple[str, str]]:
    steps = told["steps"]
    if steps:
        yield "steps", f"{steps['count']:,}"
        if steps["mean_ms"] is not None:
            yield "a step", milliseconds(steps["mean_ms"])
        if steps["per_second"]:
            yield "steps a second", rate(steps["per_second"])
    for one in told["numbers"][:2]:
        if one["last"] is not None:
            yield one["name"], f"{one['last']:.4g}"
    if len(told["ranks"]) > 1:
        yield "ranks", str(len(told["ranks"]))
    cost = told["cost"]
    if cost["recorder_pct"] is not None:
        yield "recorder", percent(cost["recorder_pct"])


def _joined(numbers: Iterator[tuple[str, str]]) -> Iterator[object]:
    for at, (name, value) in enumerate(numbers):
        yield html(" · " if at else "", f"{name} ", tag("b", value))


def _parts(told: Description) -> list[tuple[str, float]]:
    return [(part, share) for part, share in (told["breakdown"] or {}).items() if share >= 0.5]


def _bar(told: Description) -> list[str]:
    """Return the parts of a step as a line of blocks, and their names."""
    parts = _parts(told)
    drawn = "".join(
        _BLOCKS[at % len(_BLOCKS)] * max(1, round(share * _CELLS / 100))
        for at, (_, share) in enumerate(parts)
    )
    named = " ".join(
        f"{_BLOCKS[at % len(_BLOCKS)]} {words(part)} {percent(share)}"
        for at, (part, share) in enumerate(parts)
    )
    return [drawn, named] if parts else []


def _bar_of_parts(told: Description) -> Markup | str:
    parts = _parts(told)
    if not parts:
        return ""
    texts = {part: f"{words(part)} {percent(share)}" for part, share in parts}
    listed = (
        tag("li", tag("i", class_=f"p-{part}"), text_, style="list-style:none")
        for part, text_ in texts.items()
    )
    return html(
        bar_of_parts(dict(parts), texts, "split of a step"),
        tag("ul", *listed, class_="legend"),
    )
