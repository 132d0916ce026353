"""Utilization of the cores over time: the mean of all, and the chosen cores."""

from holter.views.figures.machine._samples import devices_chart

MISSING = "No samples of single cores were taken."
draw = devices_chart("CPU utilization", "cpu.core.util", all_of="all cores")
