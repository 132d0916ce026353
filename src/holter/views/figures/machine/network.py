"""Network throughput over time."""

from holter.views.figure import Axis
from holter.views.figures.machine._samples import metrics_chart

MISSING = "No samples of the network were taken."
draw = metrics_chart("Network", {"net.rx": "received", "net.tx": "sent"}, Axis("rate", "B/s"))
