"""Prints, as JSON, holter's readings of the first GPU beside those of nvidia-smi."""

from __future__ import annotations

import json
import subprocess
import time

from holter.agent.collectors import Machine, Unavailable
from holter.agent.collectors.nvidia import Nvidia

SMI = {
    "utilization.gpu": "gpu.util",
    "memory.used": "gpu.mem.used",
    "power.draw": "gpu.power",
    "temperature.gpu": "gpu.temp",
}
_MIB = 1 << 20


def main() -> None:
    """Read both at once."""
    try:
        readings = Nvidia(Machine()).read(time.monotonic_ns())
    except Unavailable as why:
        print(json.dumps({"unavailable": str(why)}))
        return
    ours = {metric: value for device, metric, value in readings if device == "gpu0"}
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(SMI)}", "--format=csv,noheader,nounits"]
    told = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.split(",")
    found: dict[str, float | None] = {}
    for (theirs, metric), text in zip(SMI.items(), told, strict=True):
        value = ours.get(metric)
        scale = _MIB if metric == "gpu.mem.used" else 1
        found[f"{theirs}, holter"] = None if value is None else value / scale
        found[f"{theirs}, nvidia-smi"] = float(text) if text.strip().replace(".", "").isdigit() else None
    print(json.dumps(found))


main()
