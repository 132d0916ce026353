"""The steps that took longest; each opens in the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.events import device_ns
from holter.analysis.steps.outliers import slowest
from holter.drawing.markup import html, tag
from holter.drawing.parts import bar_of_parts
from holter.pages.addresses import to_page
from holter.pages.forms import number
from holter.pages.tables import Number, sortable, time_cell
from holter.schema.phases import BREAKDOWN
from holter.views.document.description import finishing
from holter.views.wording import milliseconds, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.analysis.steps.outliers import Outlier
    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

MOST = 30
_ABOUT = "Without warm-up and steps in which a compiler ran. "
_DIVIDED = "A wait for the device is divided among the steps that it waits for. "


def slowest_step(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup | None:
    """Name the slowest step, with a link to it; None if no step was slow."""
    steps = reading.description["steps"]
    if not steps or not steps["outliers"]:
        return None
    one = max(steps["outliers"], key=lambda step: step["duration_ms"])
    cause = f", mostly in {words(one['cause'])}" if one["cause"] not in ("", "other") else ""
    more = steps["outlier_count"] - 1
    others = tag("span", f" and {more:,} more", class_="dim") if more else None
    said = f"Step {one['step']:,} took {milliseconds(one['duration_ms'])}{cause}."
    return tag(
        "p",
        said,
        " ",
        _open(rendering, reading, asked, one["step"], "Open in the timeline"),
        others,
        class_="slow-step",
    )


def slow_steps(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    """List the slowest steps of the window; each is a bar of its parts and leads to the timeline."""
    rank, steps = number(asked, "rank"), reading.steps
    used = steps.where(reading.drawn_steady(rank)) if steps.rows else steps
    if not (count := used.rows):
        return html()
    device = device_ns(reading.trial.table("events", where="kind = 'device_time'"))
    divided = any(steps[part].any() for part in BREAKDOWN if part != "other")
    several = len(reading.description["ranks"]) > 1
    heads = [
        "step",
        *(["rank"] if several else []),
        "at",
        "duration",
        "longer by",
        *(["parts", "mostly in"] if divided else []),
    ]

    def rows() -> Iterator[list[str]]:
        windows = finishing(reading.trial.table("events", where="kind = 'window'"))
        found = slowest(used, MOST, windows=windows, device_ns=device)
        for one, parts in found:
            row = [
                _open(rendering, reading, asked, one.step, f"{one.step:,}"),
                *([Number(one.rank)] if several else []),
                Number(since := (one.time - reading.start) / 1e9, f"{since:,.1f} s"),
                time_cell(one.duration_ms * 1e6),
                time_cell(max(one.extra_ms, 0.0) * 1e6),
            ]
            if divided:
                bar = _bar(rendering, reading, asked, one, parts, found[0][0].duration_ms)
                row += [bar, words(one.cause) if one.duration_ms > one.limit_ms else ""]
            yield row

    many = count > MOST * (len(reading.description["ranks"]) if rank is None else 1)
    title = f"The {MOST} slowest steps" if many else "Steps, the slowest first"
    of = "Each step on the rank that took longest. " if several and rank is None else ""
    cause = "A cause is named where a step takes far longer than the median of its rank." if divided else ""
    return tag(
        "div",
        sortable(rendering, "slow", title, heads, rows()),
        tag("p", _ABOUT, of, _DIVIDED if device else "", cause, class_="note"),
        class_="slowest divided" if divided else "slowest",
    )


def _bar(
    rendering: Rendering,
    reading: Reading,
    asked: Mapping[str, str],
    one: Outlier,
    parts: Mapping[str, int],
    longest_ms: float,
) -> Markup:
    """Draw the parts of a step, as wide as the step is long; a click leads to the timeline."""
    known = {part: ns for part, ns in parts.items() if ns > 0}
    shares = {part: 100 * ns / 1e6 / max(one.duration_ms, 1e-9) for part, ns in known.items()}
    texts = {part: f"{words(part)} {milliseconds(ns / 1e6)}" for part, ns in known.items()}
    label = f"step {one.step:,}: {', '.join(texts.values())}"
    bar = bar_of_parts(shares, texts, label, width_pct=100 * one.duration_ms / max(longest_ms, 1e-9))
    if rendering.standalone:
        return bar
    return tag("a", bar, href=_address(rendering, reading, asked, one.step), tabindex="-1")


def _open(rendering: Rendering, reading: Reading, asked: Mapping[str, str], step: int, text: str) -> Markup:
    """Return a link that shows a step in the timeline."""
    if rendering.standalone:  # the file's timeline is one view
        return html(text) if text[0].isdigit() else tag("a", text, href="#timeline")
    there = _address(rendering, reading, asked, step)
    return tag("a", text, href=there, title=f"step {step:,} in the timeline")


def _address(rendering: Rendering, reading: Reading, asked: Mapping[str, str], step: int) -> str:
    given = {name: value for name, value in asked.items() if name not in ("from", "to")}
    return to_page(rendering, reading, given, "timeline", step=str(step))
