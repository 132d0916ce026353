"""Draws the course of one number in a small place, without axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holter.drawing.markup import tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

_WIDTH, _HEIGHT = 120, 28


def sparkline(values: Sequence[float | None], title: str, *, bottom: float | None = None) -> Markup | None:
    """Return a curve from the first value to the last; gaps stay gaps, fewer than two values give nothing.

    The lowest value is at the bottom, or `bottom` is.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return None
    low, high = min(known) if bottom is None else bottom, max(known)
    if low == high:
        return None
    across, pen, path = (_WIDTH - 2) / (len(values) - 1), "M", ""
    for at, value in enumerate(values):
        if value is None or not math.isfinite(value):
            pen = "M"
            continue
        y = 1 + (_HEIGHT - 2) * (1 - (value - low) / (high - low))
        path += f"{pen}{1 + at * across:.1f} {y:.1f}"
        pen = "L"
    return tag(
        "svg",
        tag("path", d=path, fill="none", stroke="currentColor", vector_effect="non-scaling-stroke"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=title,
        class_="spark",
    )
