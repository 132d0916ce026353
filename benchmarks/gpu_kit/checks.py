"""The checks: each measures one thing, and says in its first line what."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from gpu_kit.results import Figure, NotAvailableError, WrongError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_kit.running import Kit

Figures = dict[str, Figure]
_SMI = {
    "utilization.gpu": "gpu.util",
    "memory.used": "gpu.mem.used",
    "power.draw": "gpu.power",
    "temperature.gpu": "gpu.temp",
}
_MIB = 1 << 20


def _needs_gpu(kit: Kit) -> None:
    if kit.device != "cuda":
        raise NotAvailableError("no NVIDIA GPU")


def nvml(kit: Kit) -> Figures:
    """Readings of holter's collector beside those of nvidia-smi."""
    _needs_gpu(kit)
    if shutil.which("nvidia-smi") is None:
        raise NotAvailableError("nvidia-smi is not here")
    from holter.agent.collectors import Machine
    from holter.agent.collectors.nvidia import Nvidia

    readings = Nvidia(Machine()).read(time.monotonic_ns())
    ours = {metric: value for device, metric, value in readings if device == "gpu0"}
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader,nounits"]
    told = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.split(",")
    found: Figures = {}
    for (theirs, metric), text in zip(_SMI.items(), told, strict=True):
        value = ours.get(metric)
        scale = _MIB if metric == "gpu.mem.used" else 1
        found[f"{theirs}, holter"] = None if value is None else value / scale
        found[f"{theirs}, nvidia-smi"] = float(text) if text.strip().replace(".", "").isdigit() else None
    return found


def parts_on_gpu(kit: Kit) -> Figures:
    """Times of parts between CUDA events beside the kernels of torch.profiler."""
    size: dict[str, Any] = (
        {"width": 2048, "batch": 512, "steps": 200} if kit.device == "cuda" else {"steps": 60}
    )
    kineto = kit.plain(kineto=True, **size)
    _, told = kit.recorded("parts", pause_ms=0 if kit.device == "cuda" else 20, **size)
    _needs_gpu(kit)
    times = told["gpu_times"]
    if times is None:
        raise WrongError("no step was measured on the GPU", {"kernels a step, ms": kineto["kernel_ms"]})
    found: Figures = {f"{one['part']}, ms": one["gpu_ms"] for one in times["parts"]}
    found |= {
        "step, ms": times["gpu_ms"],
        "measured steps": times["steps"],
        "kernels a step, ms": kineto["kernel_ms"],
    }
    if times["gpu_ms"] < 0.8 * kineto["kernel_ms"]:
        raise WrongError("a step is shorter than its kernels", found)
    return found


def window(kit: Kit) -> Figures:
    """A profiling window beside torch.profiler: operators, kernels, step in the window."""
    _, told = kit.recorded("window", "--profile-steps", "20:24:shapes", steps=60)
    seen = told["window"]
    if not seen:
        raise WrongError("the window was not recorded", {})
    used = seen.get("mfu") or {}
    operators = told["operators"] or {}
    return {
        "operators": sum(len(rows) for rows in operators.values() if isinstance(rows, list)),
        "MFU, %": used.get("pct"),
    }


def utilization(kit: Kit) -> Figures:
    """Share of the peak of large products in fp32 and bf16."""
    _needs_gpu(kit)
    found: Figures = {}
    for dtype in ("float32", "bfloat16"):
        size: dict[str, Any] = {"width": 8192, "batch": 4096, "layers": 4, "steps": 40}
        _, told = kit.recorded(f"mfu-{dtype}", "--profile-steps", "20:24:shapes", dtype=dtype, **size)
        found[f"{dtype}, %"] = ((told["window"] or {}).get("mfu") or {}).get("pct")
    return found


def overhead(kit: Kit) -> Figures:
    """Slowdown of steps of about 1, 10 and 100 ms: medians with and without holter."""
    found: Figures = {}
    for pause in (1, 10, 100):
        steps = max(40, 1000 // pause)
        plain = kit.plain(width=64, layers=2, pause_ms=pause, steps=steps)["step_ms"]
        recorded, _ = kit.recorded(f"overhead-{pause}", width=64, layers=2, pause_ms=pause, steps=steps)
        found[f"{pause} ms: plain, ms"], found[f"{pause} ms: recorded, ms"] = plain, recorded["step_ms"]
    return found


def statistics(kit: Kit) -> Figures:
    """Statistics of gradients on the device, at every tenth step."""
    _, told = kit.recorded("statistics", "--save", "gradients@10", steps=60)
    saved = told["tensors"]
    if not saved:
        raise WrongError("no tensor was saved", {})
    return {name: value for name, value in saved.items() if isinstance(value, int | float | str)}


def first_nan(kit: Kit) -> Figures:
    """The module in which the first NaN arises."""
    _, told = kit.recorded("nan", nan_at=12, steps=30)
    said = " ".join(str(issue) for rule in told["rules"] for issue in rule.get("issues", []))
    named = "NonFinite" in str([rule["name"] for rule in told["rules"] if rule["status"] == "IssuesFound"])
    figures: Figures = {"named": "1" if "1" in said else "no", "rule": "found" if named else "not found"}
    if not (named or "nan" in said.lower()):
        raise WrongError("no rule tells of the NaN", figures)
    return figures


def twins(kit: Kit) -> Figures:
    """Verdicts of trainings that are bound by data, launches, memory, compute and synchronization."""
    found: Figures = {}
    for kind in ("data", "launch", "memory", "compute", "sync"):
        large = kit.device == "cuda" and kind in ("compute", "memory")
        size: dict[str, Any] = {"width": 4096, "batch": 4096} if large else {}
        _, told = kit.recorded(f"twin-{kind}", "--profile-steps", "30:33", kind=kind, steps=60, **size)
        found[kind] = told["verdict"]["suspect"]
    if found["data"] not in ("data_loading", "data_pipeline", "dataloading"):
        raise WrongError("the training that waits for data is not called so", found)
    return found


def out_of_memory(kit: Kit) -> Figures:
    """A training that runs out of the GPU's memory."""
    _needs_gpu(kit)
    _, told = kit.recorded("oom", fails=True, oom=True)
    failure = told["job"]["failure"] or {}
    figures: Figures = {"kind": failure.get("kind"), "exception": failure.get("exception")}
    if "memory" not in str(failure).lower():
        raise WrongError("the failure does not name memory", figures)
    return figures


CHECKS: dict[str, Callable[[Kit], Figures]] = {
    one.__name__.replace("_", " "): one
    for one in (
        nvml,
        parts_on_gpu,
        window,
        utilization,
        overhead,
        statistics,
        first_nan,
        twins,
        out_of_memory,
    )
}
