"""Share of the time in which the cores were busy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holter.views.figures.machine._samples import NO_CPU, readings

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = NO_CPU


def draw(reading: Reading) -> Figure | None:
    """Draw the mean of single cores; of the whole node where there are no others."""
    titled = partial(readings, reading, "CPU active time")
    return titled("cpu.core.util") or titled("cpu.util")
