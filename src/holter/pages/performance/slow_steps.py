"""The steps that took much longer than usual; each opens in the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.pages.addresses import to_page
from holter.pages.tables import Number, sortable, time_cell
from holter.views.wording import milliseconds, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.document.types.training import OutlierStep
    from holter.views.reading import Reading


def slowest(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup | None:
    """Name the slowest step, with a link to it; None if no step was slow."""
    steps = reading.description["steps"]
    if not steps or not steps["outliers"]:
        return None
    one = max(steps["outliers"], key=lambda step: step["duration_ms"])
    cause = f", mostly in {words(one['cause'])}" if one["cause"] else ""
    more = steps["outlier_count"] - 1
    others = tag("span", f" and {more:,} more", class_="dim") if more else None
    said = f"Step {one['step']:,} took {milliseconds(one['duration_ms'])}{cause}."
    return tag(
        "p",
        said,
        " ",
        _open(rendering, reading, asked, one, "Open in the timeline"),
        others,
        class_="slow-step",
    )


def slow_steps(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    """List the slowest steps; nothing if no step was slow."""
    steps = reading.description["steps"]
    if not steps or not steps["outliers"]:
        return html()
    rows = (
        [
            _open(rendering, reading, asked, one, f"{one['step']:,}"),
            Number(one["rank"]),
            time_cell(one["duration_ms"] * 1e6),
            time_cell(one["extra_ms"] * 1e6),
            words(one["cause"] or ""),
        ]
        for one in steps["outliers"]
    )
    count, listed = steps["outlier_count"], len(steps["outliers"])
    title = counted(count, "slow step") + (f", the slowest {listed}" if count > listed else "")
    return sortable(rendering, "slow", title, ("step", "rank", "duration", "longer by", "mostly in"), rows)


def _open(
    rendering: Rendering, reading: Reading, asked: Mapping[str, str], one: OutlierStep, text: str
) -> Markup:
    """Return a link that shows a step in the timeline."""
    if rendering.standalone:  # the file's timeline is one view
        return html(text) if text[0].isdigit() else tag("a", text, href="#timeline")
    rank = {} if one["rank"] is None else {"rank": str(one["rank"])}
    given = {name: value for name, value in asked.items() if name not in ("from", "to")}
    href = to_page(rendering, reading, given, "timeline", step=str(one["step"]), **rank)
    return tag("a", text, href=href, title=f"step {one['step']:,} in the timeline")
