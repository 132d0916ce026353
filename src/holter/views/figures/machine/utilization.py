"""CPU and GPU utilization of the machine over time."""

from holter.views.figures.machine._samples import BUSY, metrics_chart

MISSING = "No load of a CPU or GPU was read: the job was not started by `holter run`, or was too short."
draw = metrics_chart(
    "The machine",
    {
        "cpu.util": "CPU",
        "cpu.iowait": "I/O wait",
        "gpu.util": "GPU",
        "gpu.mem.used_pct": "GPU memory in use",
    },
    BUSY,
    note="Mean of all nodes and devices; the band holds every single reading.",
)
