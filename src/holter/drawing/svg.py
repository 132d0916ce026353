"""Draws figures as SVG for readers without JavaScript, for print and for dark themes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holter.drawing.markup import tag
from holter.drawing.pieces import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    bar,
    color,
    drawing,
    picture,
    short,
    text,
)
from holter.drawing.png import image
from holter.drawing.ticks import both_signs, clock, number, numbers, powers, ticks, times
from holter.views.wording import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from markupsafe import Markup

    from holter.views.figure import Axis, Figure

_ROW, _ROWS_LEFT, _NUMBER = 18, 120, 28
MOST_BANDS = 8
"""More of them hide each other."""


def svg(figure: Figure) -> Markup:
    """Draw one figure; all text that comes from a job is escaped."""
    height = _height(figure)
    return drawing(figure.title, WIDTH, height, *_MARKS[figure.kind](figure, height), class_="chart")


def _height(figure: Figure) -> int:
    if figure.kind == "stretches":
        return TOP + BOTTOM + _ROW * len(figure.rows or ())
    if figure.kind == "constants":
        return 2 * TOP + _NUMBER * len(figure.series)
    rows_of = {"heatmap": len(figure.series), "boxes": len(figure.series), "bars": len(figure.x)}.get(
        figure.kind, 0
    )
    if figure.kind == "heatmap":
        return TOP + BOTTOM + max(120, min(480, rows_of * 12))
    if figure.kind == "boxes" or (figure.kind == "bars" and not is_histogram(figure)):
        return TOP + BOTTOM + 24 * rows_of
    return HEIGHT


def is_histogram(figure: Figure) -> bool:
    """Whether bars stand for stretches of an axis, and not for names."""
    return figure.kind == "bars" and len(figure.x) != len(figure.series[0].values)


def _scale(
    low: float, high: float, start: float, stop: float, axis: Axis | None = None
) -> Callable[[float], float]:
    def along(value: float) -> float:
        if axis is not None and axis.log:
            return math.log10(value)
        return math.asinh(value / axis.linear) if axis is not None and axis.linear else value

    first = along(low)
    span = (along(high) - first) or 1.0

    def place(value: float) -> float:
        return start + (stop - start) * (along(value) - first) / span

    return place


def _range(axis: Axis, groups: Iterable[Sequence[float | None] | None]) -> tuple[float, float]:
    known = [value for group in groups for value in group or () if value is not None and math.isfinite(value)]
    if axis.log:
        known = [value for value in known if value > 0]
        low, high = (min(known), max(known)) if known else (1.0, 10.0)
        return (low, high) if high > low else (low / 2, high * 2)
    high = axis.top if axis.top is not None else max(known, default=1.0)
    low = min([0.0, *known])
    # A curve that lives far from zero, as a loss that hardly falls, is shown by what it does.
    if axis.top is None and known and min(known) > 0.5 * max(known):
        low = min(known) - 0.05 * (max(known) - min(known))
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def _x_axis(
    axis: Axis, low: float, high: float, height: int, left: float = LEFT, right: float = WIDTH - RIGHT
) -> Iterator[Markup]:
    place = _scale(low, high, left, right)
    timely = axis.unit == "s" and "time" in axis.label
    bottom = height - BOTTOM
    labels = [at for at in (times(high) if timely else ticks(low, high, 6)) if low <= at <= high]
    texts = [clock(at) for at in labels] if timely else numbers(labels)
    for at, said in zip(labels, texts, strict=True):
        yield text(place(at), bottom + 16, said, "tick mid")
    unit = f" ({axis.unit})" if axis.unit and not timely else ""
    yield text((left + right) / 2, height - 6, axis.label + unit, "label mid")


def _y_axis(
    axis: Axis,
    low: float,
    high: float,
    height: int,
    place: Callable[[float], float],
    *,
    whole: bool = False,
) -> Iterator[Markup]:
    """Draw a y axis; counts have `whole` labels only."""
    labels = [at for at in _labels(axis, low, high) if low <= at <= high and not (whole and at % 1)]
    for at, said in zip(labels, numbers(labels), strict=True):
        y = place(at)
        yield tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
        yield text(LEFT - 6, y + 4, said, "tick end")
    label = axis.label + (f" ({axis.unit})" if axis.unit else "")
    middle = (TOP + height - BOTTOM) / 2
    yield tag("text", label, transform=f"translate(12 {middle}) rotate(-90)", class_="label mid")


def _labels(axis: Axis, low: float, high: float) -> list[float]:
    if axis.log:
        return powers(low, high)
    return both_signs(low, high, axis.linear) if axis.linear else ticks(low, high)


def _vertical_grid(
    axis: Axis, places: Iterable[float], x: Callable[[float], float], left: int, height: int
) -> Iterator[Markup]:
    """Draw an x axis with a line over each label."""
    labels = list(places)
    for at, said in zip(labels, numbers(labels), strict=True):
        yield tag("line", x1=f"{x(at):.1f}", x2=f"{x(at):.1f}", y1=TOP, y2=height - BOTTOM, class_="grid")
        yield text(x(at), height - BOTTOM + 16, said, "tick mid")
    yield text((left + WIDTH - RIGHT) / 2, height - 6, f"{axis.label} ({axis.unit})", "label mid")


def _lines(figure: Figure, height: int) -> Iterator[Markup]:
    low, high = _range(figure.y_axis, [part for s in figure.series for part in (s.values, s.low, s.high)])
    y = _scale(low, high, height - BOTTOM, TOP, figure.y_axis)
    left, right = figure.x[0], figure.x[-1] if len(figure.x) > 1 else figure.x[0] + 1
    x = _scale(left, right, LEFT, WIDTH - RIGHT)
    yield from _y_axis(figure.y_axis, low, high, height, y)
    yield from _x_axis(figure.x_axis, left, right, height)
    for at, series in enumerate(figure.series):
        if series.low and series.high and len(figure.series) <= MOST_BANDS:
            for run in _runs(series.low):
                over = [f"{x(figure.x[i]):.1f},{y(series.high[i] or 0):.1f}" for i in run]
                under = [f"{x(figure.x[i]):.1f},{y(series.low[i] or 0):.1f}" for i in reversed(run)]
                yield tag("polygon", points=" ".join(over + under), class_=f"band {color(series, at)}")
    for at, series in enumerate(figure.series):
        known = [at for at, value in enumerate(series.values) if value is not None]
        for run in [known] if series.joined and known else _runs(series.values):
            points = [f"{x(figure.x[i]):.1f},{y(series.values[i]):.1f}" for i in run]  # type: ignore[arg-type]
            if len(points) == 1:
                cx, cy = points[0].split(",")
                yield tag("circle", cx=cx, cy=cy, r="1.6", class_=f"dot {color(series, at)}")
            else:
                yield tag("polyline", points=" ".join(points), class_=f"line {color(series, at)}")
    yield from _broken(figure, x, height)


def _broken(figure: Figure, x: Callable[[float], float], height: int) -> Iterator[Markup]:
    """Hatch the stretches in which values are not finite, and say so at the first."""
    for at, (begin, end) in enumerate(figure.broken or ()):
        left, right = max(x(begin), LEFT), min(x(end), WIDTH - RIGHT)
        width = max(right - left, 2.0)
        left = min(left, WIDTH - RIGHT - width)
        place = {"x": f"{left:.1f}", "y": TOP, "width": f"{width:.1f}", "height": height - BOTTOM - TOP}
        yield tag("rect", **place, class_="broken")
        if at == 0:
            late = left > WIDTH / 2
            yield text(left - 4 if late else left + 4, TOP + 12, figure.flag, f"flag{' end' * late}")


def _stacked(figure: Figure, height: int) -> Iterator[Markup]:
    count = len(figure.x)
    tops = [0.0] * count
    known = [any(s.values[i] is not None for s in figure.series) for i in range(count)]
    totals = [sum(s.values[i] or 0.0 for s in figure.series) for i in range(count)]
    high = max(totals, default=1.0) or 1.0
    y = _scale(0.0, high, height - BOTTOM, TOP)
    left, right = figure.x[0], figure.x[-1] if count > 1 else figure.x[0] + 1
    x = _scale(left, right, LEFT, WIDTH - RIGHT)
    yield from _y_axis(figure.y_axis, 0.0, high, height, y)
    yield from _x_axis(figure.x_axis, left, right, height)
    shifts = (0,) if count > 1 else (0, WIDTH - RIGHT - LEFT)  # a single value fills the chart
    for at, series in enumerate(figure.series):
        below, tops = tops, [top + (value or 0.0) for top, value in zip(tops, series.values, strict=True)]
        for run in _runs([1.0 if here else None for here in known]):
            places = [(x(figure.x[i]) + shift, i) for i in run for shift in shifts]
            over = [f"{px:.1f},{y(tops[i]):.1f}" for px, i in places]
            under = [f"{px:.1f},{y(below[i]):.1f}" for px, i in reversed(places)]
            yield tag("polygon", points=" ".join(over + under), class_=f"area {color(series, at)}")


def _bars(figure: Figure, height: int) -> Iterator[Markup]:
    values = figure.series[0].values
    if not is_histogram(figure):
        high = max([value for value in values if value is not None] or [1.0]) or 1.0
        x = _scale(0.0, high, 200, WIDTH - RIGHT - 70)
        unit = f" {figure.y_axis.unit or figure.y_axis.label}"
        for row, (label, value) in enumerate(zip(figure.x, values, strict=True)):
            top = TOP + 24 * row
            yield text(192, top + 15, short(str(label)), "tick end")
            told = "unknown" if value is None else f"{number(value)}{unit}"
            told = percent(value) if figure.y_axis.unit == "%" else told
            end = 200.0 if value is None else x(value)
            if value is not None:
                yield bar(200, top + 3, end - 200, 16, "c0")
            yield text(end + 6, top + 15, told, "tick")
        return
    _, high = _range(figure.y_axis, [values])
    y = _scale(0.0, high, height - BOTTOM, TOP)
    x = _scale(figure.x[0], figure.x[-1], LEFT, WIDTH - RIGHT)
    yield from _y_axis(figure.y_axis, 0.0, high, height, y, whole=True)
    yield from _x_axis(figure.x_axis, figure.x[0], figure.x[-1], height)
    for at, value in enumerate(values):
        if value:
            start, stop = x(figure.x[at]), x(figure.x[at + 1])
            yield bar(start, y(value), stop - start - 0.5, y(0) - y(value), "c0")


def _boxes(figure: Figure, height: int) -> Iterator[Markup]:
    low, high = _range(figure.y_axis, [series.values for series in figure.series])
    x = _scale(low, high, 200, WIDTH - RIGHT)
    yield from _vertical_grid(figure.y_axis, ticks(low, high), x, 200, height)
    for row, series in enumerate(figure.series):
        top = TOP + 24 * row
        yield text(192, top + 15, short(series.name), "tick end")
        if any(value is None for value in series.values):
            continue
        least, lower, middle, upper, greatest = (x(value) for value in series.values)  # type: ignore[arg-type]
        yield tag("line", x1=f"{least:.1f}", x2=f"{greatest:.1f}", y1=top + 11, y2=top + 11, class_="whisker")
        thin = max(0.0, 4 - (upper - lower)) / 2  # readings that hardly differ are seen too
        yield bar(lower - thin, top + 4, upper - lower + 2 * thin, 14, "c0")
        yield tag("line", x1=f"{middle:.1f}", x2=f"{middle:.1f}", y1=top + 4, y2=top + 18, class_="median")


def _heatmap(figure: Figure, height: int) -> Iterator[Markup]:
    axis = figure.y_axis
    known = [v for s in figure.series for v in s.values if v is not None]
    low, high = (
        (0.0, axis.top) if axis.top is not None else (min(known, default=0.0), max(known, default=1.0))
    )
    inner = height - TOP - BOTTOM
    left, right = LEFT + 60, WIDTH - RIGHT - 56
    cells = [series.values for series in figure.series]
    if axis.log:
        low, high = _range(axis, cells)
        cells = [[math.log10(v) if v is not None and v > 0 else None for v in row] for row in cells]
    ends = (math.log10(low), math.log10(high)) if axis.log else (low, high)
    yield picture(left, right - left, inner, image(cells, *ends))
    each = inner / max(len(figure.series), 1)
    for row in range(0, len(figure.series), max(1, math.ceil(11 / each))):
        name = short(figure.series[row].name, 18)
        yield text(left - 6, TOP + each * (row + 0.5) + 4, name, "tick end")
    first, last = figure.x[0], figure.x[-1] if len(figure.x) > 1 else figure.x[0] + 1
    yield from _x_axis(figure.x_axis, first, last, height, left, right)
    ramp = image([[high - (high - low) * at / 31] for at in range(32)], low, high)
    yield picture(right + 12, 10, inner, ramp)
    for value, y in ((high, TOP + 9), (low, height - BOTTOM)):
        yield text(right + 26, y, number(float(f"{value:.2g}")), "tick")


def _stretches(figure: Figure, height: int) -> Iterator[Markup]:
    """Draw a bar for each stretch, later series over earlier ones."""
    first, last = figure.x[0], figure.x[-1]
    x = _scale(first, last, _ROWS_LEFT, WIDTH - RIGHT)
    yield from _vertical_grid(figure.x_axis, ticks(first, last, 6), x, _ROWS_LEFT, height)
    for row, name in enumerate(figure.rows or ()):
        yield text(_ROWS_LEFT - 6, TOP + _ROW * row + 13, short(name, 18), "tick end")
    for at, series in enumerate(figure.series):
        # One path for each series: thousands of stretches stay a small page.
        path = []
        for place, begin, end in zip(series.values, series.low or (), series.high or (), strict=True):
            if place is not None and begin is not None and end is not None:
                left, width = x(begin), max(x(end) - x(begin), 0.6)
                path.append(f"M{left:.1f} {TOP + _ROW * place + 3:.0f}h{width:.1f}v12h-{width:.1f}z")
        yield tag("path", d="".join(path), class_=f"bar {color(series, at)}")


def _constants(figure: Figure, _height: int) -> Iterator[Markup]:
    """Write numbers that never change; the name of a single one is the title's."""
    unit = f" {figure.y_axis.unit}".rstrip()
    for row, series in enumerate(figure.series):
        name = f"{short(series.name, 60)}: " if len(figure.series) > 1 else ""
        value = series.values[0]
        said = "unknown" if value is None else f"{number(value)}{unit}, constant"
        yield text(TOP, TOP + _NUMBER * row + 20, f"{name}{said}", "constant")


def _runs(values: Sequence[float | None]) -> Iterator[list[int]]:
    """Yield stretches without a gap, as positions."""
    run: list[int] = []
    for at, value in enumerate(values):
        if value is not None:
            run.append(at)
        elif run:
            yield run
            run = []
    if run:
        yield run


_MARKS = {"lines": _lines, "stacked": _stacked, "bars": _bars, "boxes": _boxes, "heatmap": _heatmap,
          "stretches": _stretches, "constants": _constants}  # fmt: skip
