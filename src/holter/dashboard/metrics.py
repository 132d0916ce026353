"""What runs now, in Prometheus' text format: step times, progress, how busy the machines are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.dashboard.stores import Stores

_MOST_JOBS = 20


def exposition(stores: Stores) -> str:
    """Return the metrics of the jobs that run; names and labels as Prometheus' guide asks."""
    listed, _ = stores.listed()
    running = [job for job in listed if job["status"] in RUNNING and not job["silent_s"]]
    rows: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for job in running[:_MOST_JOBS]:
        with stores.reading(job["name"], job["store"]) as reading:
            told = reading.description
        for name, labels, value in _values(told):
            if value is not None and math.isfinite(value):
                rows.setdefault(name, []).append(({"job_name": job["name"], **labels}, float(value)))
    lines = ["# HELP holter_jobs Jobs by status.", "# TYPE holter_jobs gauge"]
    for status in sorted({job["status"] for job in listed}):
        count = sum(job["status"] == status for job in listed)
        lines.append(f'holter_jobs{{status="{_escaped(status)}"}} {count}')
    for name, values in rows.items():
        help_, kind = _KNOWN[name]
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
        for labels, value in values:
            named = ",".join(f'{key}="{_escaped(str(label))}"' for key, label in labels.items())
            lines.append(f"{name}{{{named}}} {value:.10g}")
    return "\n".join(lines) + "\n"


_KNOWN = {
    "holter_steps_total": ("Steps taken.", "counter"),
    "holter_step_seconds": ("Duration of steady steps, by quantile.", "gauge"),
    "holter_step_share_ratio": ("Share of the training loop in each part of a step, 0 to 1.", "gauge"),
    "holter_utilization_median": ("Median of a system metric since the start, in its own unit.", "gauge"),
    "holter_issues": ("Issues that rules found, by severity.", "gauge"),
}


def _values(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], float | None]]:
    steps = told["steps"] or {}
    yield "holter_steps_total", {}, steps.get("count")
    for quantile, key in (("0.5", "p50_ms"), ("0.95", "p95_ms"), ("0.99", "p99_ms")):
        value = steps.get(key)
        yield "holter_step_seconds", {"quantile": quantile}, None if value is None else value / 1000
    for part, share in (told["breakdown"] or {}).items():
        yield "holter_step_share_ratio", {"part": part}, share / 100
    for row in told["utilization"]:
        labels = {"node": row["node"], "metric": row["metric"]}
        yield (
            "holter_utilization_median",
            labels | ({"device": row["device"]} if row.get("device") else {}),
            row["p50"],
        )
    for severity in ("critical", "warning", "info"):
        count = sum(issue["severity"] == severity for rule in told["rules"] for issue in rule["issues"])
        yield "holter_issues", {"severity": severity}, count


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
