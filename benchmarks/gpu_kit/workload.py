"""The training that the checks run: `python workload.py JSON`; its last line is JSON with its measurements.

`kind` decides what bounds it: compute (large products), launch (many small ones), memory (sums of a large
tensor), data (a slow data set), sync (a number is read after each layer). `width` and `layers` are the size.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from torch import nn

GIVEN: dict[str, Any] = {
    "device": "cpu", "kind": "compute", "steps": 60, "width": 256, "layers": 4, "batch": 64,
    "dtype": "float32", "nan_at": -1, "kineto": False, "oom": False, "pause_ms": 0,
    **json.loads(sys.argv[1]),
}  # fmt: skip
DEVICE = torch.device(GIVEN["device"])
DTYPE = getattr(torch, GIVEN["dtype"])


class Block(nn.Module):  # type: ignore[misc]
    """One layer."""

    def __init__(self, width: int, number: int) -> None:
        super().__init__()
        self.linear, self.number = nn.Linear(width, width), number
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the layer."""
        x = torch.relu(self.linear(x))
        if GIVEN["kind"] == "launch":
            for _ in range(30):
                x = x * 1.0001
        elif GIVEN["kind"] == "memory":
            x = x + x.float().cumsum(0).to(x.dtype) * 1e-9
        elif GIVEN["kind"] == "sync":
            x = x * (1.0 + 0.0 * float(x.flatten()[0]))
        if self.step == GIVEN["nan_at"] and self.number == 1:
            x = x / torch.zeros_like(x) * 0
        self.step += 1
        return x


def synchronize() -> None:
    """Wait for the device."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def batches() -> Any:
    """Yield the same batch again and again, slowly if data bounds the training."""
    batch = torch.randn(GIVEN["batch"], GIVEN["width"], dtype=DTYPE)
    for _ in range(GIVEN["steps"]):
        if GIVEN["kind"] == "data":
            time.sleep(0.03)
        yield batch


def main() -> None:
    """Train, and print what was measured."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(GIVEN["width"], n) for n in range(GIVEN["layers"]))).to(DEVICE, DTYPE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    times: list[float] = []
    if GIVEN["oom"]:
        held = [torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)]
        while True:
            held.append(torch.empty_like(held[-1]))
    profiler = None
    if GIVEN["kineto"]:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        kinds += [torch.profiler.ProfilerActivity.CUDA] if DEVICE.type == "cuda" else []
        profiler = torch.profiler.profile(activities=kinds)
    for step, batch in enumerate(batches()):
        if profiler is not None and step == 20:
            synchronize()
            profiler.start()
        began = time.perf_counter()
        x = batch.to(DEVICE, non_blocking=True)
        with torch.profiler.record_function("part:forward"):
            loss = model(x).float().pow(2).mean()
        optimizer.zero_grad()
        with torch.profiler.record_function("part:backward"):
            loss.backward()
        with torch.profiler.record_function("part:optimizer"):
            optimizer.step()
        if GIVEN["pause_ms"]:
            time.sleep(GIVEN["pause_ms"] / 1e3)
        if step % 10 == 0:
            synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    synchronize()
    found: dict[str, Any] = {"step_ms": sorted(times)[len(times) // 2], "steps": len(times)}
    if profiler is not None:
        profiler.stop()
        ran = len(times) - 20
        kernels = [one for one in profiler.events() if one.device_type != torch.autograd.DeviceType.CPU]
        found["kernel_ms"] = sum(one.time_range.elapsed_us() for one in kernels) / 1e3 / ran
        found["kernels"] = len(kernels) / ran
    print(json.dumps(found))


main()
