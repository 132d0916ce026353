"""Launches of the most frequent kernels, as shares of one another."""

from holter.views.figures.device._shares import NOTHING, kernels

MISSING = NOTHING
draw = kernels("launches", rest=False)
