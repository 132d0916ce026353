"""Share of readings in which the CPU was active."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holter.views.figures.machine._samples import NO_CPU, readings

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = NO_CPU


def draw(reading: Reading) -> Figure | None:
    """Draw readings of single cores above 0 % and at it; of the whole node where there are no others."""
    titled = partial(readings, reading, "CPU active time")
    return titled("cpu.core.util") or titled("cpu.util")
