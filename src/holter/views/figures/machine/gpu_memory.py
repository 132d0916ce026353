"""GPU memory use over time: the mean of all GPUs, and the chosen GPUs."""

from holter.views.figures.machine._samples import devices_chart

MISSING = "No GPU was seen, or it does not tell how full its memory is."
draw = devices_chart("GPU memory", "gpu.mem.used_pct", all_of="all GPUs", label="in use")
