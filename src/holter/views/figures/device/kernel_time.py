"""Share of the longest kernels in the time of all kernels."""

from holter.views.figures.device._shares import NOTHING, kernels

MISSING = NOTHING
draw = kernels("time", rest=True)
