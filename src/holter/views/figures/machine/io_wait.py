"""Share of time in which cores are idle because of I/O."""

from holter.views.figure import Axis
from holter.views.figures.machine._samples import metrics_chart

MISSING = "No samples of waiting for input and output were taken."
draw = metrics_chart("Waiting for input and output", {"cpu.iowait": "cores idle"}, Axis("of the time", "%"))
