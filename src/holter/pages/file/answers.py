"""The data of the islands of a report file: the server's answers about the whole job."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np

from holter.pages.data.charts import chart_data, drawn_by_script
from holter.pages.data.encoding import encoded
from holter.pages.data.heatmap import heatmap_bytes
from holter.pages.data.timeline import curve_bytes, head_bytes, step_bytes
from holter.pages.job.system import OF_DEVICES
from holter.pages.timelines import TIMELINES
from holter.views.figure import Figure, Series
from holter.views.figures import draw
from holter.views.flames import flames
from holter.views.heatmap import Heatmap
from holter.views.marks import marks
from holter.views.step_clock import step_clock
from holter.views.timeline.packing import packed
from holter.views.wording import natural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.pages.timelines import Opened
    from holter.views.heatmap import Heat
    from holter.views.reading import Reading

_CELLS = 60_000
"""Limit of a heat map's cells; each is three numbers."""
_EVENTS = 60_000
"""Limit of a timeline's events; with more it becomes a picture."""
_SERIES = 128
"""Counters and metrics that a timeline may have; more are left out."""
_STEPS = 1000
_SHORTEST_NS = 50
_LONGEST_NS = 2**53
"""The largest whole number of scripts; traces that began 104 days apart become a picture."""
_MOST_COLUMNS = 1000
_DROPPED = 13
"""Bits of a cell's 23 that are dropped: the rest resolves a part in a thousand and compresses better."""


def answers(reading: Reading, html: str) -> dict[str, str]:
    """Return the answers to the questions of pages: packed, as text without markup.

    `reading.kept` holds the charts that were drawn.
    """
    found = {
        "clock": encoded(step_clock(reading.drawn_steps, reading.start)),
        "marks": encoded({"marks": marks(reading)}),
    }
    for (name, options, node, devices, *_), drawn in (reading.kept or {}).items():
        if isinstance(drawn, Figure) and drawn_by_script(drawn):
            asked = dict(options) | ({"node": node} if node else {})
            asked |= {"devices": ",".join(devices)} if devices else {}
            query = urlencode(sorted(asked.items()))
            found[f"figures/{name}{'?' * bool(query)}{query}"] = encoded(chart_data(drawn))
    if 'data-island="heatmap"' in html:
        heatmap, heat = _heat(reading)
        found["heatmap"] = heatmap_bytes(heat, heatmap, shorten=_short)
        if 'data-island="chips"' in html:
            found |= _devices(reading, heat)
    if 'data-island="flame"' in html:
        found["flames"] = encoded({"flames": list(flames(reading.trial))})
    if 'data-island="timeline"' in html:
        found |= _timeline(TIMELINES.of(reading.trial.folder, warm=False))
    return {key: base64.b64encode(zlib.compress(body)).decode() for key, body in found.items()}


def _heat(reading: Reading) -> tuple[Heatmap, Heat]:
    heatmap = Heatmap(reading.trial, reading.start, reading.interval_ns)
    columns = min(_MOST_COLUMNS, max(100, _CELLS // max(len(heatmap.rows), 1)))
    return heatmap, heatmap.heat(reading.start, max(heatmap.end_ns, reading.start + columns), columns)


def _devices(reading: Reading, heat: Heat) -> dict[str, bytes]:
    """Return the charts of which devices are marked, with every device: a script shows the marked ones."""
    found = {}
    for name, (_, metric) in OF_DEVICES.items():
        every = sorted({row.device for row in heat.rows if row.metric == metric}, key=natural)
        if len(every) < 2:
            continue
        points = min(_MOST_COLUMNS, max(50, _CELLS // len(every)))
        drawn = draw(
            name, reading.at(None, points, devices=tuple(every)) if name == "gpu_memory" else reading
        )
        if isinstance(drawn, Figure):
            shown = drawn if name == "gpu_memory" else _of_heat(drawn, heat, metric, every, reading.start)
            found[f"figures/{name}?devices=*"] = encoded(_in_percent(chart_data(shown)))
    return found


def _of_heat(drawn: Figure, heat: Heat, metric: str, devices: list[str], start: int) -> Figure:
    """Draw devices, and their mean, from the cells of the heat map: reading all samples takes seconds."""
    rows = np.array([row.device if row.metric == metric else "" for row in heat.rows])
    seen, total = heat.cells.count, np.nan_to_num(heat.cells.total)

    def line(name: str, which: NDArray[np.bool_]) -> Series:
        count, sums = seen[which].sum(axis=0), total[which].sum(axis=0)
        return Series(
            name, [s / n if n else None for s, n in zip(sums.tolist(), count.tolist(), strict=True)]
        )

    series = [line(drawn.series[0].name, rows != ""), *(line(name, rows == name) for name in devices)]
    first, step = heat.start_ns - start, heat.step_ns
    x = [(first + (at + 0.5) * step) / 1e9 for at in range(seen.shape[1])]
    return replace(drawn, x=x, series=series, note="")


def _in_percent(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out what charts of several devices do not show: bands, and digits beyond the first."""
    for one in told["series"]:
        values = [value if value is None else round(value, 1) for value in one["values"]]
        one.update(values=values, low=None, high=None)
    return told


def _timeline(opened: Opened) -> dict[str, bytes]:
    """Return the whole timeline, every event of it; nothing where they are too many for a file."""
    timeline = opened.timeline
    if not 0 < sum(lane.events for lane in timeline.lanes) <= _EVENTS:
        return {}
    first = min(0, timeline.start_ns - opened.origin_ns)
    last = max(timeline.end_ns, int(opened.trial.manifest.get("end") or 0)) - opened.origin_ns + 1
    if max(-first, last) > _LONGEST_NS:
        return {}
    # At this width even short events stay separate, so zooming needs no further data.
    span = timeline.end_ns - timeline.start_ns + 1
    picture = timeline.picture(timeline.start_ns, timeline.end_ns + 1, pixels=max(1, span // _SHORTEST_NS))
    begin, end = first + opened.origin_ns, last + opened.origin_ns
    found = {
        "timeline": head_bytes(opened),
        "timeline/tiles": packed(picture, opened.origin_ns, opened.numbers, opened.version),
        "timeline/steps": step_bytes(opened, begin, end, _STEPS),
    }
    if 0 < (count := len(opened.series)) <= _SERIES:
        pixels = min(1000, max(50, _CELLS // count))
        found["timeline/curves"] = curve_bytes(opened, range(count), begin, end, pixels)
    return found


def _short(values: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = np.ascontiguousarray(values, "<f4").view(np.uint32)
    half = np.uint32(1 << (_DROPPED - 1))
    rounded = (bits + half) & np.uint32(0xFFFFFFFF << _DROPPED & 0xFFFFFFFF)
    return np.where(np.isfinite(values), rounded.view(np.float32), np.float32(np.nan))
