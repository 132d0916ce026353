"""Profiling windows in a job, written without a profiler."""

from __future__ import annotations

import json

from holter.analysis.steps.steps import steps as build_steps
from holter.store.trial import Trial
from holter.store.writer import Writer

PRODUCT = '{"shapes":[[128,256],[256,512]],"types":["c10::BFloat16","c10::BFloat16"]}'


def window(folder, *, device: str) -> tuple[int, int]:
    """Give a job a window of three steps, each with a product and, on a GPU, its kernel; return the steps."""
    steps = build_steps(Trial(folder).table("spans")).where(slice(7, 10))
    begin, length, number = (steps[name].tolist() for name in ("time", "duration", "step"))
    host = {"time": begin, "duration": length, "rank": [0] * 3, "step": number, "thread": [1] * 3}
    writer = Writer(folder, "node-0")
    product = {"name": ["aten::mm"] * 3, "kind": ["operator"] * 3, "detail": [PRODUCT] * 3}
    writer.append("operators", {**host, **product, "duration": [2_000_000] * 3})
    if device != "cpu":
        call = {"name": ["cudaLaunchKernel"] * 3, "correlation": [1, 2, 3], "duration": [5000] * 3}
        writer.append("launches", {**host, **call, "time": [at + 1000 for at in begin]})
        ran = {"time": [at + 10_000 for at in begin], "duration": [100_000] * 3, "device": [0] * 3}
        rest = {name: host[name] for name in ("rank", "step")}
        kernel = {**rest, **ran, "stream": [7] * 3, "name": ["gemm"] * 3, "kind": ["compute"] * 3}
        writer.append("kernels", {**kernel, "correlation": [1, 2, 3]})
    said = {"time": begin[:1], "rank": [0], "kind": ["window"], "name": ["operators"]}
    writer.append("events", {**said, "detail": [json.dumps({"device": device})]})
    writer.close()
    return number[0], number[-1]
