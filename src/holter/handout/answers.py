"""What the islands of a file ask: the answers that the dashboard's server would give, of the whole job."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np

from holter.dashboard.answers import encoded
from holter.dashboard.api.figures import as_told, in_browsers
from holter.dashboard.api.heatmap import laid_out
from holter.dashboard.api.timeline import MOST_LANES, curved, head, steps
from holter.dashboard.timelines import TIMELINES
from holter.views.figures import Figure
from holter.views.flames import flames
from holter.views.heatmap import Heatmap
from holter.views.step_clock import step_clock
from holter.views.timeline_bytes import packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.dashboard.timelines import Opened
    from holter.views.figures import Reading

_CELLS = 60_000
"""Cells that a heat map may have; each is three numbers."""
_EVENTS = 60_000
"""Events that a timeline may have; more are a picture."""
_SHORTEST_NS = 50
_MOST_COLUMNS = 1000
_DROPPED = 13
"""Bits of a cell's 23 that nobody sees: what is left tells a part in a thousand, and packs better."""


def answers(reading: Reading, html: str) -> dict[str, str]:
    """Return, by question, what is asked for on pages: packed, as text that holds no markup.

    Args:
        reading: The job; `kept` holds the charts that were drawn.
        html: The pages.
    """
    found = {"clock": encoded(step_clock(reading.drawn_steps, reading.start))}
    for (name, options, node, devices, *_), drawn in (reading.kept or {}).items():
        if isinstance(drawn, Figure) and in_browsers(drawn):
            asked = dict(options) | ({"node": node} if node else {})
            asked |= {"devices": ",".join(devices)} if devices else {}
            query = urlencode(sorted(asked.items()))
            found[f"figures/{name}{'?' * bool(query)}{query}"] = encoded(as_told(drawn))
    if 'data-island="heatmap"' in html:
        found["heatmap"] = _heatmap(reading)
    if 'data-island="flame"' in html:
        found["flames"] = encoded({"flames": list(flames(reading.trial))})
    if 'data-island="timeline"' in html:
        found |= _timeline(TIMELINES.of(reading.trial.folder))
    return {key: base64.b64encode(zlib.compress(body)).decode() for key, body in found.items()}


def _heatmap(reading: Reading) -> bytes:
    heatmap = Heatmap(reading.trial, reading.start, reading.interval_ns)
    columns = min(_MOST_COLUMNS, max(100, _CELLS // max(len(heatmap.rows), 1)))
    heat = heatmap.heat(reading.start, max(heatmap.end_ns, reading.start + columns), columns)
    return laid_out(heat, heatmap, shorten=_short)


def _timeline(opened: Opened) -> dict[str, bytes]:
    """Return the whole timeline, every event of it; nothing where they are too many for a file."""
    timeline = opened.timeline
    if not 0 < sum(lane.events for lane in timeline.lanes) <= _EVENTS:
        return {}
    # So wide that even short events are there by themselves: whoever zooms in needs nothing else.
    span = timeline.end_ns - timeline.start_ns + 1
    picture = timeline.picture(timeline.start_ns, timeline.end_ns + 1, pixels=max(1, span // _SHORTEST_NS))
    whole = {
        "from_ns": str(min(0, timeline.start_ns - opened.origin_ns)),
        "to_ns": str(max(timeline.end_ns, int(opened.trial.manifest.get("end") or 0)) - opened.origin_ns + 1),
    }
    found = {
        "timeline": head(opened, {}),
        "timeline/tiles": packed(picture, opened.origin_ns, opened.numbers, opened.version),
        "timeline/steps": steps(opened, {**whole, "most": "1000"}),
    }
    if 0 < (count := len(opened.series)) <= MOST_LANES:
        asked = {"series": f"0-{count - 1}", "pixels": str(min(1000, max(50, _CELLS // count)))}
        found["timeline/curves"] = curved(opened, {**whole, **asked})
    return found


def _short(values: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = np.ascontiguousarray(values, "<f4").view(np.uint32)
    half = np.uint32(1 << (_DROPPED - 1))
    rounded = (bits + half) & np.uint32(0xFFFFFFFF << _DROPPED & 0xFFFFFFFF)
    return np.where(np.isfinite(values), rounded.view(np.float32), np.float32(np.nan))
