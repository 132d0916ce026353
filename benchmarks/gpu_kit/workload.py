"""The training that the checks run: `python workload.py JSON`; its last line is JSON with its measurements.

`kind` decides what bounds it: compute (large products), launch (many small ones), memory (sums of a large
tensor), data (a slow data set), sync (a number is read after each layer). `width` and `layers` are the size.
`tool` is a profiler beside holter; `stand_in` puts the tests' GPU that is not there in place of one.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

GIVEN: dict[str, Any] = {
    "device": "cpu", "kind": "compute", "steps": 60, "width": 256, "layers": 4, "batch": 64,
    "dtype": "float32", "nan_at": -1, "kineto": [], "oom": False, "pause_ms": 0, "tool": "",
    "ranks": False, "stand_in": False, "window": [],
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
        if GPU is not None and self.number == 0:
            x = GPU.OnGpu.apply(x)
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


def stand_in_gpu() -> Any:
    """Return the tests' GPU that is not there, or None."""
    if not GIVEN["stand_in"]:
        return None
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests/recorder/frameworks"))
    return importlib.import_module("stand_in_gpu")


GPU = stand_in_gpu()


def synchronize() -> None:
    """Wait for the device."""
    if GPU is not None:
        GPU.synchronize()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def batches() -> Any:
    """Yield the same batch again and again; if data bounds the training, after four times its last step.

    A wait of constant length is small beside the steps of a machine that other programs use.
    """
    batch = torch.randn(GIVEN["batch"], GIVEN["width"], dtype=DTYPE)
    took = 0.0
    for _ in range(GIVEN["steps"]):
        if GIVEN["kind"] == "data":
            time.sleep(min(max(4 * took, 0.03), 0.5))
        began = time.perf_counter()
        yield batch
        took = time.perf_counter() - began


def tool(model: Any) -> Any:
    """Return what makes the context of a step under the tool beside holter."""
    if GIVEN["tool"] == "traceml":
        import traceml_ai

        traceml_ai.init(mode="auto")
        return lambda: traceml_ai.trace_step(model)
    return nullcontext


def profile() -> Any:
    """Return torch.profiler for the kinds of activity that the device has."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if DEVICE.type == "cuda" else []
    return torch.profiler.profile(activities=kinds)


def run_out_of_memory() -> None:
    """Take memory until there is none; a rehearsal raises what PyTorch raises then."""
    if DEVICE.type == "cpu":
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 79.11 GiB of "
            "which 512.00 MiB is free."
        )
    held = [torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)]
    while True:
        held.append(torch.empty_like(held[-1]))


def distributed(model: Any) -> Any:
    """Wrap the model for one rank that communicates, with NCCL on a GPU and gloo elsewhere."""
    settings = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.update({**settings, "MASTER_PORT": "0"})
    store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
    backend = "nccl" if DEVICE.type == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(model)


def median(times: list[float]) -> float | None:
    """Return the upper median."""
    return sorted(times)[len(times) // 2] if times else None


def main() -> None:
    """Train, and print what was measured. `kineto` and `window` are profiled steps, [first, end)."""
    torch.manual_seed(0)
    model: Any = nn.Sequential(*(Block(GIVEN["width"], n) for n in range(GIVEN["layers"])))
    model = model.to(DEVICE, DTYPE)
    model = distributed(model) if GIVEN["ranks"] else model
    made = torch.optim.SGD if GPU is None else GPU.Sgd
    optimizer = made(model.parameters(), {"lr": 1e-4} if GPU is not None else 1e-4)
    context, times, profiler = tool(model), [], None
    if GIVEN["oom"]:
        run_out_of_memory()
    first, end = GIVEN["kineto"] or (-1, -1)
    for step, batch in enumerate(batches()):
        if step == first:
            synchronize()
            began_profiler = time.perf_counter()
            profiler = profile()
            profiler.start()
            start_ms = 1e3 * (time.perf_counter() - began_profiler)
        began = time.perf_counter()
        with context():
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
        if GPU is not None and step == 0 and "HOLTER_SPOOL" in os.environ:
            GPU.measure("cuda")
        if step % 10 == 0 or GPU is not None:
            synchronize()
        times.append(1e3 * (time.perf_counter() - began))
        if profiler is not None and step == end - 1:
            synchronize()
            profiler.stop()
    synchronize()
    found: dict[str, Any] = {"step_ms": median(times), "steps": len(times)}
    if GIVEN["window"]:
        inside = slice(*GIVEN["window"])
        found["window_ms"] = median(times[inside])
    if profiler is not None:
        kernels = [one for one in profiler.events() if one.device_type != torch.autograd.DeviceType.CPU]
        found["profiler_start_ms"] = start_ms
        found["kernel_ms"] = sum(one.time_range.elapsed_us() for one in kernels) / 1e3 / (end - first)
        found["kernels"] = len(kernels) / (end - first)
    if DEVICE.type == "cuda":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    if GPU is not None:
        found["kernel_ms"] = GPU.Event.launched_ms / len(times)
    print(json.dumps(found))


main()
