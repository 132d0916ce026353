"""Draws a table of numbers as a PNG with 256 colors and one pixel per cell, inside the page."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from holter.png import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

# Corners of cividis (Nuñez, Anderton and Renslow 2018), which reads alike with any color vision.
_CORNERS = ((0, 32, 77), (61, 78, 109), (124, 123, 120), (187, 173, 107), (255, 234, 70))
_GAP = 0
"""The first color of the palette: transparent, for no value."""


def image(rows: Sequence[Sequence[float | None]], low: float, high: float) -> str:
    """Return a `data:` URL of the rows, drawn from `low` (dark) to `high` (light); None is transparent."""
    span = (high - low) or 1.0
    lines = []
    for row in rows:
        line = bytearray()
        for value in row:
            share = 0.0 if value is None else min(max((value - low) / span, 0.0), 1.0)
            line.append(_GAP if value is None else 1 + round(254 * share))
        lines.append(bytes(line))
    return "data:image/png;base64," + base64.b64encode(encoded(lines, _PALETTE, opacity=b"\0")).decode()


def _between(share: float) -> bytes:
    at = min(int(share * (len(_CORNERS) - 1)), len(_CORNERS) - 2)
    rest = share * (len(_CORNERS) - 1) - at
    pairs = zip(_CORNERS[at], _CORNERS[at + 1], strict=True)
    return bytes(round(one + (other - one) * rest) for one, other in pairs)


_PALETTE = bytes(3) + b"".join(_between(at / 254) for at in range(255))
