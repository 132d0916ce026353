"""Shares of a whole as a ring, with its legend."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from holter.views.wording import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE, _RADIUS, _WIDTH = 120, 44, 24
KINDS = tuple(f"c{at}" for at in range(8))


def pie(title: str, parts: Sequence[tuple[str, float, str]], kinds: Sequence[str] = KINDS) -> str:
    """Draw a ring.

    Args:
        title: What the whole is.
        parts: Of each its name, how much it is, and how that reads.
        kinds: Classes of their colors.
    """
    whole = sum(amount for _, amount, _ in parts) or 1.0
    around = 2 * math.pi * _RADIUS
    rings, listed, turned = "", "", 0.0
    for at, (name, amount, said) in enumerate(parts):
        share = amount / whole
        rings += (
            f'<circle cx="{_SIZE / 2}" cy="{_SIZE / 2}" r="{_RADIUS}" class="ring {kinds[at % len(kinds)]}" '
            f'stroke-dasharray="{share * around:.2f} {around:.2f}" '
            f'stroke-dashoffset="{-turned * around:.2f}"/>'
        )
        kind = kinds[at % len(kinds)]
        listed += f'<li><i class="{kind}"></i>{escape(name)} {percent(100 * share)} · {escape(said)}</li>'
        turned += share
    name = escape(title, quote=True)
    return (
        f'<div class="pie"><svg viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}" role="img" '
        f'aria-label="{name}" style="--ring:{_WIDTH}px">{rings}</svg><ul class="legend">{listed}</ul></div>'
    )
