"""Share of the most frequent kernels in all launches."""

from holter.views.figures.device._shares import NOTHING, kernels

MISSING = NOTHING
draw = kernels("launches", rest=True)
