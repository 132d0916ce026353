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
from holter.views.figures import Figure
from holter.views.flames import flames
from holter.views.heatmap import Heatmap
from holter.views.step_clock import step_clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.views.figures import Reading

_CELLS = 60_000
"""Cells that a heat map may have; each is three numbers."""
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
    return {key: base64.b64encode(zlib.compress(body, 9)).decode() for key, body in found.items()}


def _heatmap(reading: Reading) -> bytes:
    heatmap = Heatmap(reading.trial, reading.start, reading.interval_ns)
    columns = min(_MOST_COLUMNS, max(100, _CELLS // max(len(heatmap.rows), 1)))
    heat = heatmap.heat(reading.start, max(heatmap.end_ns, reading.start + columns), columns)
    return laid_out(heat, heatmap, shorten=_short)


def _short(values: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = np.ascontiguousarray(values, "<f4").view(np.uint32)
    half = np.uint32(1 << (_DROPPED - 1))
    rounded = (bits + half) & np.uint32(0xFFFFFFFF << _DROPPED & 0xFFFFFFFF)
    return np.where(np.isfinite(values), rounded.view(np.float32), np.float32(np.nan))
