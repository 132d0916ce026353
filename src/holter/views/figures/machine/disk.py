"""Disk throughput over time."""

from holter.views.figure import Axis
from holter.views.figures.machine._samples import metrics_chart

MISSING = "No samples of disks were taken."
draw = metrics_chart(
    "Disks",
    {"disk.read_bytes": "read", "disk.write_bytes": "written"},
    Axis("rate", "B/s"),
)
