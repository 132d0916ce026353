"""Time of the longest kernels, as shares of one another."""

from holter.views.figures.device._shares import NOTHING, kernels

MISSING = NOTHING
draw = kernels("time", rest=False)
