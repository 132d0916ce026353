"""Memory use of the machine over time."""

from holter.views.figure import Axis
from holter.views.figures.machine._samples import metrics_chart

MISSING = "No samples of memory were taken."
draw = metrics_chart("Memory", {"mem.used_pct": "in use"}, Axis("in use", "%", top=100.0))
