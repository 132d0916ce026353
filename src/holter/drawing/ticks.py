"""Positions and texts of the labels of an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, at most about `most`."""
    if not high > low:
        return [low]
    rough = (high - low) / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * each for each in _STEPS if unit * each >= rough * 0.999)
    return _multiples(low, high, step)


def powers(low: float, high: float, most: int = 5) -> list[float]:
    """Return powers of ten from `low` to `high`, both above 0."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / most))
    return [10.0**power for power in range(first, last + 1, every)] or [low, high]


def both_signs(low: float, high: float, linear: float, most: int = 4) -> list[float]:
    """Return labels of an axis that is linear up to `linear` and logarithmic beyond: 0 and powers of ten."""
    up = powers(linear, high, most) if high > linear else []
    down = powers(linear, -low, most) if -low > linear else []
    return [*(-at for at in reversed(down)), 0.0, *up]


def times(high: float, most: int = 6) -> list[float]:
    """Return round times from 0 to `high`, seconds: whole minutes, hours, days."""
    if high < _TIMES[0] * most:
        return ticks(0.0, high, most)
    step = next((each for each in _TIMES if high / each <= most), _TIMES[-1] * math.ceil(high / most / 86400))
    return _multiples(0.0, high, float(step))


def _multiples(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [at * step for at in range(first, math.floor(high / step + 1e-9) + 1)]


def numbers(values: Sequence[float]) -> list[str]:
    """Write the labels of an axis: with as few digits as tell them apart, three if that is enough."""
    for digits in range(3, 9):
        found = [number(value, digits) for value in values]
        if len(set(found)) == len(set(values)):
            break
    return found


def number(value: float, digits: int = 3) -> str:
    """Write a number in short form, with at most so many significant digits: `1,200`, `0.25`, `3e-5`."""
    if value == 0:
        return "0"
    if abs(value) >= 1e7 or abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def clock(seconds: float) -> str:
    """Write a time since the start: `45 s`, `12 min`, `3:30 h`, `2 d 6 h`."""
    if seconds < 60:
        return f"{seconds:.4g} s" if seconds else "0"
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min" if not rest else f"{minutes}:{rest:02} min"
    hours, rest = divmod(round(seconds), 3600)
    if hours < 48:
        return f"{hours} h" if rest < 60 else f"{hours}:{rest // 60:02} h"
    days, hours = divmod(hours, 24)
    return f"{days} d" if not hours else f"{days} d {hours} h"
