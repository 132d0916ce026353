"""A training loop that times its own steps and writes them down, alone or with a peer attached."""

from __future__ import annotations

import argparse
import json
import os
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZES = {"1ms": (4, 256, 32), "10ms": (4, 512, 128)}
"""For each target step: layers, width, batch."""
WARM_UP = 20


def profiler(tool: str) -> AbstractContextManager[Any]:
    """Return torch's own profiler recording every step, or nothing."""
    return torch.profiler.profile() if tool == "torch.profiler" else nullcontext()


def step_tools(tool: str, model: nn.Module, out: Path) -> Any:
    """Attach a peer by its documented lines; return what makes the context of one step."""
    if tool == "traceml":
        import traceml_ai as traceml

        traceml.init(mode="auto")
        return lambda: traceml.trace_step(model)
    if tool == "smdebug":
        import smdebug.pytorch as smd

        hook = smd.Hook(out_dir=f"{out}.{os.getpid()}.smdebug", save_config=smd.SaveConfig(save_interval=500))
        hook.register_module(model)
    return nullcontext


def material(size: str) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    """Return model, optimizer and batches of a step of about so long, on one thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers, width, batch = SIZES[size]
    model = nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(batch * 64, width), torch.randn(batch * 64, width))
    return model, optimizer, DataLoader(data, batch_size=batch)


def train(size: str, steps: int, tool: str, out: Path) -> dict[str, Any]:
    """Train; return nanoseconds of wall and of CPU of each step after the warm-up."""
    model, optimizer, batches = material(size)
    context = step_tools(tool, model, out)
    ends: list[int] = []
    cpu_ends: list[int] = []
    with profiler(tool) as recording:
        while len(ends) <= steps + WARM_UP:
            for inputs, targets in batches:
                with context():
                    optimizer.zero_grad()
                    loss = nn.functional.mse_loss(model(inputs), targets)
                    loss.backward()
                    optimizer.step()
                if recording is not None:
                    recording.step()
                # From end to end, so that waiting for the batch is part of the step.
                ends.append(time.perf_counter_ns())
                cpu_ends.append(time.process_time_ns())
    return {"wall": _differences(ends), "cpu": _differences(cpu_ends)}


def _differences(ends: list[int]) -> list[int]:
    return [end - begin for begin, end in zip(ends[WARM_UP:], ends[WARM_UP + 1 :], strict=False)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=sorted(SIZES), default="1ms")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tool", default="")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.write_text(json.dumps(train(options.size, options.steps, options.tool, options.out)))
