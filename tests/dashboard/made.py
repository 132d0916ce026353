"""Jobs to look at: a trace of two GPUs whose numbers are known, and a small training recorded on the spot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import SOURCE

from holter.importers.importing import import_job

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
STEPS, STEP_US, SLOW_US = 3, 10_000, 20_000
GEMM = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_tn>(Params)"
ADD = f"void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>({HOSTILE})"
RUN_US = {GEMM: 4000, ADD: 1000, "copy": 500}
"""What one step of one rank runs on its GPU, us."""


def trace(rank: int, steps: int = STEPS, slow: int | None = None) -> dict:
    """Return a trace as torch.profiler writes it: steps of 10 ms, each as in `RUN_US`.

    In the step `slow`, the kernel `ADD` takes 20 ms longer.
    """
    events: list[dict] = []
    number = 0

    def add(name, category, at, took, *, pid=100, tid=100, **args):
        events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": at,
                "dur": took,
                "args": args,
            }
        )

    def run(name, category, at, took, *, asked, call="cudaLaunchKernel", stream=7, **args):
        nonlocal number
        number += 1
        add(call, "cuda_runtime", asked, 20, correlation=number)
        more = {"device": rank, "stream": stream, "correlation": number}
        add(name, category, at, took, pid=rank, tid=stream, **more, **args)

    for step in range(steps):
        extra = SLOW_US if step == slow else 0
        begin = 1_000_000 + step * STEP_US + (SLOW_US if slow is not None and step > slow else 0)
        add(f"ProfilerStep#{step + 10}", "user_annotation", begin, STEP_US + extra - 10)
        add("augment", "user_annotation", begin + 10, 100 + 50 * step)
        add(HOSTILE, "user_annotation", begin + 130, 20)
        add("train.py(10): main", "python_function", begin + 160, 9000)
        add("aten::mm", "cpu_op", begin + 500, 300)
        copied = {"kind": "HtoD", "bytes": 1 << 20}
        run(
            "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", begin + 250, 500,
            asked=begin + 200, call="cudaMemcpyAsync", **copied,
        )  # fmt: skip
        run(GEMM, "kernel", begin + 1000, RUN_US[GEMM], asked=begin + 600)
        run(ADD, "kernel", begin + 6000, RUN_US[ADD] + extra, asked=begin + 700)
        add("cudaDeviceSynchronize", "cuda_runtime", begin + 7000 + extra, 500)
        for at, used in ((400, 1e9), (5000, 2e9)):
            memory = {"Device Type": 1, "Device Id": rank, "Bytes": 1, "Total Allocated": used + step * 1e8}
            events.append(
                {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100,
                 "ts": begin + at, "s": "t", "args": memory}
            )  # fmt: skip
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": rank, "name": "NVIDIA A100-SXM4-80GB"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceEvents": events,
    }


def imported(store: Path, folder: Path, name: str = "trace") -> None:
    """Write the traces of both ranks, and import them as a job."""
    paths = []
    for rank in range(2):
        path = folder / f"rank{rank}.pt.trace.json"
        path.write_text(json.dumps(trace(rank)))
        paths.append(path)
    import_job(paths, str(store), name, now_ns=time.time_ns())


def stalled(store: Path, folder: Path) -> None:
    """Import the trace of one rank whose eighth of twelve steps is slow, as job `stalled`."""
    path = folder / "stalled.pt.trace.json"
    path.write_text(json.dumps(trace(0, steps=12, slow=7)))
    import_job([path], str(store), "stalled", now_ns=time.time_ns())


TRAINING = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, i):
        return decode_image(i), i % 2

def decode_image(i):
    until = time.perf_counter() + 0.004
    while time.perf_counter() < until:
        sum(range(100))
    return torch.randn(8)

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        for x, y in DataLoader(Photos(), batch_size=4, num_workers=2):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()

main()
"""


def recorded(store: Path, folder: Path, name: str = "small") -> None:
    """Record a training of 48 steps whose loader is slow, with windows of every profiler, and tensors."""
    script = folder / "train.py"
    script.write_text(TRAINING)
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLTER_")}
    done = subprocess.run(
        [
            sys.executable, "-m", "holter", "run", "--store", str(store), "--job", name,
            "--profile-steps", "8:11:operators", "--profile-steps", "12:16:pyinstrument",
            "--profile-steps", "17:20:cprofile",
            "--save", "gradients@4:each", "--save", "weights@4:histogram", "--save", "activations@4:active",
            "--", sys.executable, str(script),
        ],
        env={**env, "PYTHONPATH": str(SOURCE)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
