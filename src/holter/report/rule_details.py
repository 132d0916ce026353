"""Details of each profiler rule in the form of SageMaker's reports, from recorded values only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.documents import Document

Details = dict[str, Any]
"""Statistics of a rule, in the form of `evaluations.json` or of SageMaker."""

_OF = re.compile(r"(.*) of (.*)")
_BOX = ("p25", "p50", "p75", "p95", "upper", "lower")
_OVERALL = ("Network", "GPU", "CPU", "CPU memory", "GPU memory", "I/O")
_PASSES = {"forward": "Forward pass", "backward": "Backward pass"}
_FRAMEWORK = (
    "ratio",
    "phase",
    "phase_time",
    "CPU",
    "CPU_total",
    "GPU",
    "GPU_total",
    "general",
    "forward_backward",
    "horovod",
)


def details(rule: Document) -> Details:
    """Return the details of a rule's document, as `evaluations.json` holds it; empty for an unknown one."""
    made = _MADE.get(rule["rule"])
    found = rule.get("details")
    return made(found, rule) if made is not None and isinstance(found, dict) and found else {}


def _overall_system_usage(found: Details, rule: Document) -> Details:
    """Return metric → node → max, p99, p95, p50, min."""
    result: Details = {}
    for node, groups in found.get("nodes", {}).items():
        for group in _OVERALL:
            if groups.get(group):
                order = ("max", "p99", "p95", "p50", "min")
                result.setdefault(group, {})[node] = {name: groups[group].get(name) for name in order}
    return result


def _max_initialization_time(found: Details, rule: Document) -> Details:
    step = {name: at for name, at in found.get("step_num", {}).items() if at is not None}
    return {"job_start": found.get("job_start"), "job_end": found.get("job_end"), "step_num": step}


def _overall_framework_metrics(found: Details, rule: Document) -> Details:
    result = {name: found[name] for name in _FRAMEWORK if found.get(name)}
    if "forward_backward" in result:
        result["forward_backward"] = {_PASSES[name]: pct for name, pct in result["forward_backward"].items()}
    return result


def _bottleneck(found: Details, rule: Document) -> Details:
    """Return snapshots with a low GPU, and of the last that were bottlenecks the devices, by microseconds."""
    nodes = [node for node in found.values() if isinstance(node, dict) and "bottlenecks" in node]
    when: Details = {}
    for node in nodes:
        for time, counts in node["bottlenecks"].items():
            at = when.setdefault(str(int(time) // 1000), {})
            for name, count in counts.items():
                at[name] = at.get(name, 0) + count
    low = sum(node["low_gpu_utilization"] for node in nodes)
    return {"low_gpu_utilization": low, "bottlenecks": dict(sorted(when.items()))} if nodes else {}


def _gpus(*names: str) -> Callable[[Details, Document], Details]:
    """Return node → GPU → statistics, and when the last reading was, microseconds."""

    def made(found: Details, rule: Document) -> Details:
        gpus: Details = {}
        last = []
        for key, box in found.get("gpus", {}).items():
            node, _, gpu = key.rpartition("/")
            gpus.setdefault(node, {})[gpu] = {n: box[n] for n in (*names, *_BOX) if box.get(n) is not None}
            last.append(box.get("last_timestamp"))
        known = [time for time in last if time is not None]
        return gpus | ({"last_timestamp": max(known) // 1000} if known else {})

    return made


def _batch_size(found: Details, rule: Document) -> Details:
    """Return node → cpu, gpu<n>, gpu<n>_memory → box."""
    result: Details = {}
    for key, box in found.get("boxes", {}).items():
        if match := _OF.fullmatch(key):
            node, _, gpu = match[2].rpartition("/")
            name = {"cpu": "cpu", "gpu": gpu, "memory": f"{gpu}_memory"}.get(match[1], match[1])
            result.setdefault(node or match[2], {})[name] = {one: box[one] for one in _BOX if one in box}
    last = rule.get("last_evaluated")
    return result | ({"last_timestamp": last // 1000} if result and last else {})


def _load_balancing(found: Details, rule: Document) -> Details:
    """Return node → workloads; and distances, when it fired."""
    result: Details = {}
    for key, counts in found.get("workloads", {}).items():
        gpu, node = _device(key)
        result.setdefault(node, {}).setdefault("workloads", {})[gpu] = counts
    for key, others in found.get("distances", {}).items() if rule.get("triggered") else ():
        gpu, node = _device(key)
        near = {_device(other)[0] if _device(other)[1] == node else other: d for other, d in others.items()}
        result.setdefault(node, {}).setdefault("distances", {})[gpu] = near
    return result


def _device(key: str) -> tuple[str, str]:
    match = _OF.fullmatch(key)
    return (match[1], match[2]) if match else (key, "")


def _dataloader(found: Details, rule: Document) -> Details:
    if "nodes" in found:
        return {node: _dataloader(one, rule) for node, one in found["nodes"].items()}
    result = {
        name: found.get(name) for name in ("pin_memory", "num_workers", "prefetch", "cores", "dataloaders")
    }
    waits = found.get("dataloading_time_ms") or {}
    if waits.get("max") is not None:
        points = {name: _seconds(waits.get(name)) for name in ("p25", "p50", "p95")}
        result["dataloading_time"] = points | _histogram(waits["histogram"], 0.0, waits["max"])
    return result


def _step_outlier(found: Details, rule: Document) -> Details:
    steps = {}
    for key, one in found.get("processes", {}).items():
        mode, _, rank = key.partition("/")
        name = rank if mode == "train" else f"{rank}-{mode}"
        steps[name] = {
            "step_stats": {n: _seconds(one.get(n)) for n in ("mean", "max", "p99", "p95", "p50", "min")},
            "number_of_outliers": one["number_of_outliers"],
            "phase": f"Step:ModeKeys.{str(one['phase']).upper()}",
            "stddev": one["stddev"],
            **_histogram(one["histogram"]["counts"], one["histogram"]["from"], one["histogram"]["to"]),
            "step_numbers": one["step_numbers"],
        }
    return {"step_details": steps} if steps else {}


def _histogram(counts: list[int], low_ms: float, high_ms: float) -> Details:
    """Return shares of all in equal bins, and the bins' edges in seconds."""
    total = sum(counts)
    bins = len(counts)
    edges = [(low_ms + (high_ms - low_ms) * at / bins) / 1000 for at in range(bins + 1)] if bins else []
    return {"probs": [count / total for count in counts] if total else [], "binedges": edges}


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


_MADE: dict[str, Callable[[Details, Document], Details]] = {
    "BatchSize": _batch_size,
    "CPUBottleneck": _bottleneck,
    "Dataloader": _dataloader,
    "GPUMemoryIncrease": _gpus("increase", "gpu_max", "p05"),
    "IOBottleneck": _bottleneck,
    "LoadBalancing": _load_balancing,
    "LowGPUUtilization": _gpus("gpu_max", "gpu_95", "gpu_5"),
    "MaxInitializationTime": _max_initialization_time,
    "OverallFrameworkMetrics": _overall_framework_metrics,
    "OverallSystemUsage": _overall_system_usage,
    "StepOutlier": _step_outlier,
}
RULES = tuple(_MADE)
"""The rules of a profiler report."""
