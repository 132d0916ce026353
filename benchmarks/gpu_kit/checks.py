"""The checks: each measures one thing, and says in its first line what."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, Any

from gpu_kit.results import Figure, NotAvailableError, WrongError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_kit.running import Kit

Figures = dict[str, Figure]


def _needs_gpu(kit: Kit) -> None:
    if kit.device != "cuda":
        raise NotAvailableError("no NVIDIA GPU")


def nvml(kit: Kit) -> Figures:
    """Readings of holter's collector beside those of nvidia-smi."""
    if kit.device == "cuda" and shutil.which("nvidia-smi") is None:
        raise NotAvailableError("nvidia-smi is not here")
    found = kit.readings()
    if why := found.get("unavailable"):
        raise WrongError(f"no readings: {why}", {})
    if apart := [
        name
        for name in ("memory.used", "temperature.gpu")
        if abs((found[f"{name}, holter"] or 0) - (found[f"{name}, nvidia-smi"] or 0))
        > 0.05 * (found[f"{name}, nvidia-smi"] or 0) + 2
    ]:
        raise WrongError(f"{', '.join(apart)} differ", found)
    return found


def parts_on_gpu(kit: Kit) -> Figures:
    """Times of parts between CUDA events beside the kernels of torch.profiler."""
    size: dict[str, Any] = {"width": 2048, "batch": 512, "steps": 200}
    if kit.device == "cpu":
        size = {"width": 64, "layers": 1, "steps": 100, "stand_in": True}
    kineto = kit.plain(kineto=[20, 60], **size)
    _, told = kit.recorded("parts", **size)
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
    """A profiling window beside torch.profiler over the same steps: operators, steps inside, bytes."""
    size: dict[str, Any] = {"steps": 60, "window": [20, 24]}
    kineto = kit.plain(kineto=[20, 24], **size)
    ran, told = kit.recorded("window", "--profile-steps", "20:24:shapes", **size)
    seen = told["window"]
    if not seen:
        raise WrongError("the window was not recorded", {})
    operators = told["operators"] or {}
    return {
        "operators": sum(len(rows) for rows in operators.values() if isinstance(rows, list)),
        "MFU, %": (seen.get("mfu") or {}).get("pct"),
        "step outside, ms": ran["step_ms"],
        "step inside, holter, ms": ran["window_ms"],
        "step inside, torch.profiler, ms": kineto["window_ms"],
        "start of torch.profiler, ms": kineto["profiler_start_ms"],
        "job, bytes": kit.bytes_of("window"),
    }


def utilization(kit: Kit) -> Figures:
    """Share of the peak, and rows of the roofline, of large products in fp32 and bf16."""
    size: dict[str, Any] = {"width": 8192, "batch": 4096, "layers": 4, "steps": 40}
    if kit.device == "cpu":
        size = {"steps": 30}
    found: Figures = {}
    for dtype in ("float32", "bfloat16"):
        name = f"mfu-{dtype}"
        _, told = kit.recorded(name, "--profile-steps", "20:24:shapes", dtype=dtype, **size)
        found[f"{dtype}, %"] = ((told["window"] or {}).get("mfu") or {}).get("pct")
        detail = (kit.diagnosed(name)["window"] or {}).get("detail") or {}
        found[f"{dtype}, rows of the roofline"] = len(detail.get("roofline") or [])
    return found


def overhead(kit: Kit) -> Figures:
    """Medians of steps of about 1, 10 and 100 ms: alone, with holter, TraceML and torch.profiler."""
    found: Figures = {}
    for pause in (1, 10, 100):
        steps = max(40, 1000 // pause)
        size: dict[str, Any] = {"width": 64, "layers": 2, "pause_ms": pause, "steps": steps}
        found[f"{pause} ms: alone, ms"] = kit.plain(**size)["step_ms"]
        recorded, _ = kit.recorded(f"overhead-{pause}", **size)
        found[f"{pause} ms: holter, ms"] = recorded["step_ms"]
        profiled = kit.plain(kineto=[0, steps], **size)
        found[f"{pause} ms: torch.profiler, ms"] = profiled["step_ms"]
        there = importlib.util.find_spec("traceml_ai") is not None
        traced = kit.plain(tool="traceml", **size)["step_ms"] if there else None
        found[f"{pause} ms: TraceML, ms"] = traced
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
    _, told = kit.recorded("oom", fails=True, oom=True)
    failure = told["job"]["failure"] or {}
    figures: Figures = {"kind": failure.get("kind"), "exception": failure.get("exception")}
    if "memory" not in str(failure).lower():
        raise WrongError("the failure does not name memory", figures)
    return figures


def allocator(kit: Kit) -> Figures:
    """Memory of PyTorch's allocator as the job holds it, beside what PyTorch says at the end."""
    _needs_gpu(kit)
    ran, told = kit.recorded("allocator", width=2048, batch=512, steps=200)
    found: Figures = {
        one["name"]: one["most"] for one in told["numbers"] if str(one["name"]).startswith("cuda.")
    }
    found["peak told by PyTorch"] = ran["peak_bytes"]
    if "cuda.allocated_peak" not in found:
        raise WrongError("the job holds no memory of the allocator", found)
    return found


def collectives(kit: Kit) -> Figures:
    """DistributedDataParallel with one rank: NCCL on a GPU, gloo in a rehearsal."""
    _, told = kit.recorded("collectives", ranks=True, steps=60)
    found: Figures = {
        "steps": (told["steps"] or {}).get("count"),
        "communication, %": (told["breakdown"] or {}).get("communication"),
        "faults": len(told["cost"]["faults"]),
    }
    if found["steps"] != 60 or found["faults"]:
        raise WrongError("the job does not hold its 60 steps, or names a fault", found)
    return found


def _framework(kit: Kit, name: str) -> Figures:
    ran, told = kit.framework(name)
    found: Figures = {
        "ran on": ran["device"],
        "steps": (told["steps"] or {}).get("count"),
        "step, ms": (told["steps"] or {}).get("p50_ms"),
    }
    if not found["steps"]:
        raise WrongError("no step was recorded", found)
    if kit.device == "cuda" and ran["device"] == "cpu":
        raise WrongError(f"{name} did not use the GPU", found)
    return found


def jax(kit: Kit) -> Figures:
    """Steps of a compiled JAX function."""
    return _framework(kit, "jax")


def tensorflow(kit: Kit) -> Figures:
    """Steps of Keras on TensorFlow."""
    return _framework(kit, "tensorflow")


def xgboost(kit: Kit) -> Figures:
    """Rounds of XGBoost."""
    return _framework(kit, "xgboost")


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
        allocator,
        collectives,
        jax,
        tensorflow,
        xgboost,
    )
}
