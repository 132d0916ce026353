"""Metrics of running jobs in the text format of Prometheus: step times, issues, utilization."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holter.dashboard.answers import in_turn
from holter.views.jobs import RUNNING
from holter.views.telemetry import RECENT_NS, Telemetry, complete_until, outgoing

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores

_MOST_JOBS = 20


def routes(stores: Stores) -> list[Route]:
    """Return the route `/metrics`."""

    async def metrics(request: Request) -> Response:
        text = await in_turn(stores, lambda: _exposition(stores))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route("/metrics", metrics)]


def _exposition(stores: Stores) -> str:
    """Return the metrics of the jobs that run, each of its last minute; `holter_jobs` counts all jobs."""
    listed, _ = stores.listed()
    running = [job for job in listed if job["status"] in RUNNING and not job["silent_s"]]
    rows: dict[str, list[str]] = {}
    missing: list[str] = []
    for job in running[:_MOST_JOBS]:
        try:
            with stores.reading(job["name"], job["store"]) as reading:
                until = complete_until(reading.trial, time.time_ns())
                points = [] if until is None else Telemetry(reading.trial).points(until - RECENT_NS, until)
        except (OSError, LookupError, ValueError, OverflowError) as error:
            missing.append(f"# {job['name']} has no metrics: {' '.join(str(error).split())}")
            continue
        for point in points:
            if math.isfinite(point.value):
                labels = {"job_name": job["name"], **point.labels}
                rows.setdefault(point.name, []).append(_line(point.name, labels, point.value))
    statuses = [job["status"] for job in listed]
    lines = ["# HELP holter_jobs Jobs by status.", "# TYPE holter_jobs gauge"]
    lines += [_line("holter_jobs", {"status": one}, statuses.count(one)) for one in sorted(set(statuses))]
    lines += missing
    for name, values in rows.items():
        of = outgoing(name)
        lines += [f"# HELP {name} {of.help}", f"# TYPE {name} {of.kind}", *values]
    return "\n".join(lines) + "\n"


def _line(name: str, labels: dict[str, str], value: float) -> str:
    named = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
    return f"{name}{{{named}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
