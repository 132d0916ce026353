"""Utilization of the GPUs over time: the mean of all, and the chosen GPUs."""

from holter.views.figures.machine._samples import NO_GPU_SEEN, devices_chart

MISSING = NO_GPU_SEEN
draw = devices_chart("GPU", "gpu.util", all_of="all GPUs")
