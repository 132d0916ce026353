"""The ledger: one step as a bar of its parts, and the functions that take most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import function_at
from holter.drawing.markup import html, tag
from holter.drawing.parts import bar_of_parts
from holter.pages.addresses import to_page
from holter.pages.layout import card
from holter.views.wording import LEAST_PCT, milliseconds, percent, plain_function, stages_text, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.document.types import Description
    from holter.views.reading import Reading

_WIDE_PCT = 7.0
"""A part from this share on has its name in the bar."""
_MOST = 4


def ledger(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw one step as a bar; nothing without steps."""
    told = reading.description
    shares = told["breakdown"]
    if not shares:
        return html()
    steps = told["steps"]
    mean = None if "idle" in shares or not steps else steps["mean_ms"]
    title = "Where GPU time goes" if "idle" in shares else "Where a step's time goes"
    more = None
    if mean is not None:
        title = f"One step, {milliseconds(mean)}"
    page = "profile" if "trace" in told else "performance"
    more = tag("a", "Details", href=to_page(rendering, reading, asked, page), class_="more-link")
    inside = stages_text(told["dataloading"])
    return card(
        title,
        _bar(shares, mean),
        _legend(told, shares, mean),
        tag("p", "Data loading: ", inside, ".", class_="note") if inside else None,
        _functions(told),
        columns=12,
        whole=True,
        more=more,
    )


def _bar(shares: Mapping[str, float], mean: float | None) -> Markup:
    """Draw the bar; wide parts are named in it."""
    texts = {part: _said(part, share, mean) for part, share in shares.items()}
    wide = {part for part, share in shares.items() if share >= _WIDE_PCT}
    return bar_of_parts(shares, texts, "parts of a step", named=wide, kind="ledger")


def _said(part: str, share: float, mean: float | None) -> str:
    return f"{words(part)} {percent(share) if mean is None else milliseconds(mean * share / 100)}"


def _legend(told: Description, shares: Mapping[str, float], mean: float | None) -> Markup:
    listed = [
        tag(
            "li",
            tag("i", class_=f"p-{part}"),
            _said(part, share, mean),
            *([f" · {percent(share)}"] if mean else []),
        )
        for part, share in shares.items()
        if share >= LEAST_PCT
    ]
    listed += [tag("li", f"{words(part)}: not seen") for part in told["not_seen"]]
    return tag("ul", *listed, class_="legend")


def _functions(told: Description) -> Markup | None:
    """Name the functions that take most of the time."""
    rows = sorted(_found(told), key=lambda one: -one[0])[:_MOST]
    if not rows:
        return None
    listed = (
        tag("li", tag("code", name), f" {percent(share)} ", tag("span", what, class_="dim"))
        for share, name, what in rows
    )
    return html(tag("h3", "Slowest functions"), tag("ul", *listed, class_="functions"))


def _found(told: Description) -> Iterator[tuple[float, str, str]]:
    """Yield share, name and kind of the functions that were seen, from 1 % on."""
    for own in told["own_code"]:
        if own["pct"] >= 1:
            where = function_at(own["function"], own["file"], own["line"])
            calls = f", in {own['mostly_in'] or own['calls']}" if own["mostly_in"] or own["calls"] else ""
            yield own["pct"], plain_function(where), f"of the loop{calls}"
    loading = told["dataloading"]
    for one in loading["callables"] if loading else ():
        if (one["fetch_pct"] or 0.0) >= 1:
            stage = f", {words(one['stage'])}" if one["stage"] else ""
            yield one["fetch_pct"] or 0.0, plain_function(one["name"]), f"of building batches{stage}"
    for named in told["named_work"]:
        if named["pct"] >= 1 and named["part"] != "communication":  # a collective is no function of the loop
            yield named["pct"], named["name"], f"of the loop, in {words(named['part'])}"
