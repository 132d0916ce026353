"""Share of time in which cores are idle because of I/O."""

from holter.views.figure import Axis
from holter.views.figures.machine._samples import metrics_chart

MISSING = "No I/O wait was sampled: the job was not started by `holter run`, or was too short."
draw = metrics_chart("I/O wait", {"cpu.iowait": "cores idle"}, Axis("of the time", "%"))
