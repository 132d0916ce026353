"""The numbers that answer how fast, how much and how far: a tile for each, with its course."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import tag
from holter.drawing.sparkline import sparkline
from holter.drawing.ticks import number
from holter.pages.islands import island
from holter.pages.layout import WHOLE
from holter.views.figure import Figure
from holter.views.figures import draw
from holter.views.wording import duration, milliseconds, percent, rate, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.pages.islands import Rendering
    from holter.views.document.types import Description
    from holter.views.reading import Reading

_POINTS = 60
_SAME_PCT = 1.0
"""A difference to the baseline below this share is no difference."""


@dataclass(frozen=True)
class Tile:
    """One number of a job."""

    label: str
    value: float | None
    said: Callable[[float], str]
    """Writes the value."""
    detail: str = ""
    less_is_better: bool | None = None
    """None where neither is."""
    course: tuple[str, str] | None = None
    """The chart, and the beginning of the series' name, whose values the small curve shows."""


def tiles(reading: Reading, rendering: Rendering) -> Markup:
    """Draw the tiles; with a baseline, each says how it differs from that job."""
    other = rendering.baseline
    before = {one.label: one for one in _tiles(other)} if other else {}
    drawn = [
        _draw(one, before.get(one.label), _course(reading, rendering, one))
        for one in _tiles(reading.description)
    ]
    return tag("div", *drawn, class_="tiles") if drawn else tag("div")


def _tiles(told: Description) -> Iterator[Tile]:
    steps = told["steps"]
    if steps and steps["mean_ms"] is not None:
        spread = (("median", steps["p50_ms"]), ("p95", steps["p95_ms"]))
        detail = ", ".join(f"{name} {milliseconds(value)}" for name, value in spread if value is not None)
        yield Tile("Step time", steps["mean_ms"], milliseconds, detail, True, ("step_times", ""))
    if steps and steps["per_second"]:
        count = f"{steps['count']:,} {'step' if steps['count'] == 1 else 'steps'}"
        yield Tile("Rate", steps["per_second"], lambda value: f"{rate(value)} steps/s", count, False)
    elif told["job"]["duration_s"]:
        yield Tile("Duration", told["job"]["duration_s"], duration)
    if told["breakdown"]:
        part, share = max(told["breakdown"].items(), key=lambda one: one[1])
        of = "GPU time" if "idle" in told["breakdown"] else "the loop"
        yield Tile("Largest part", share, percent, f"{words(part)}, of {of}")
    for metric, label, series in (("cpu.util", "CPU", "CPU"), ("gpu.util", "GPU", "GPU")):
        rows = [row for row in told["utilization"] if row["metric"] == metric and row["p50"] is not None]
        if rows:
            whole = [row for row in rows if not row["device"]] or rows
            median = sum(row["p50"] or 0.0 for row in whole) / len(whole)
            nodes = f"median of {len(whole)} nodes" if len(whole) > 1 else "median"
            yield Tile(f"{label} busy", median, percent, nodes, None, ("utilization", series))
    losses = [one for one in told["numbers"] if "loss" in one["name"].lower() and one["last"] is not None]
    if losses:
        one = next((loss for loss in losses if loss["mode"] in ("train", "global")), losses[0])
        least = f"lowest {number(one['least'])}" if one["least"] is not None else ""
        last = f"in step {one['last_step']}; {one['nonfinite']:,} not finite"
        broken = last if one["nonfinite"] else least
        yield Tile(one["name"].capitalize(), one["last"], number, broken, True, ("losses", ""))


def _draw(one: Tile, before: Tile | None, course: Markup | None) -> Markup:
    value = "unknown" if one.value is None else one.said(one.value)
    return tag(
        "div",
        tag("span", one.label, WHOLE, class_="label"),
        tag("b", value),
        tag("span", one.detail, class_="dim") if one.detail else None,
        _difference(one, before) if before else None,
        course,
        class_="tile",
    )


def _difference(one: Tile, before: Tile) -> Markup | None:
    """Say how a value differs from the baseline's."""
    if one.value is None or before.value is None:
        return None
    old = f"baseline {before.said(before.value)}"
    if one.detail and before.detail and one.label == "Largest part" and one.detail != before.detail:
        return tag("span", f"{old}, {before.detail}", class_="delta")
    if not before.value:
        return tag("span", old, class_="delta")
    change = 100 * (one.value - before.value) / abs(before.value)
    if abs(change) < _SAME_PCT:
        return tag("span", f"as the {old}", class_="delta")
    word = "less" if change < 0 else "more"
    mood = "" if one.less_is_better is None else "better" if (change < 0) == one.less_is_better else "worse"
    told = f"{abs(change):.3g} % {word}" + (f", {mood}" if mood else "")
    return tag("span", told, " ", tag("span", old, class_="dim"), class_=f"delta {mood}")


def _course(reading: Reading, rendering: Rendering, one: Tile) -> Markup | None:
    """Return the place of the small curve, of the whole job; a script draws that of a long job."""
    if one.course is None:
        return None
    name, begins = one.course

    def paint() -> Markup:
        found = None if rendering.later else draw(name, reading.at(None, _POINTS))
        if not isinstance(found, Figure):
            return Markup()
        series = next((series for series in found.series if series.name.startswith(begins)), None)
        return (sparkline(series.values, f"course of {one.label}") if series else None) or Markup()

    data = {"course": name, "begins": begins, "label": f"course of {one.label}"}
    return island(replace(rendering, later=""), "spark", paint, **data)
