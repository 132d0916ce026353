"""Sums up all jobs of stores: hours, idle time and its cost, verdicts, owners, and the worst problems."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypedDict, cast

from holter.analysis.verdict.evidence import counted
from holter.store import index
from holter.store.job import JobFolder
from holter.store.layout import JOB_NAME
from holter.store.urls import place
from holter.views.document.bill import bill_of, money
from holter.views.jobs import RUNNING, silent_s
from holter.views.wording import hours_text, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holter.store.document_types import IndexEntry, UsageEntry
    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types import Description


class FleetJob(TypedDict):
    """One job of a fleet; unknown is None."""

    name: str
    store: str
    status: str
    silent: bool
    """Whether it has no end and its agent is silent."""
    owner: str | None
    created: int | None
    end: int | None
    nodes: int | None
    gpus: int | None
    hours: float | None
    node_hours: float | None
    gpu_hours: float | None
    idle_pct: float | None
    idle_of: str | None
    cost: float | None
    idle_cost: float | None
    suspect: str | None
    says: str | None
    kept: bool
    """Whether the store still has it."""


class FleetSum(TypedDict):
    """The sum of some jobs; counts say how many jobs a sum leaves out, because something is unknown."""

    jobs: int
    running: int
    failed: int
    node_hours: float
    nodes_unknown: int
    """Jobs whose nodes or duration are unknown; they are missing in `node_hours`."""
    gpu_hours: float
    gpus_unknown: int
    """Jobs whose GPUs or duration are unknown; they are missing in `gpu_hours`."""
    idle_node_hours: float
    idle_unknown: int
    cost: float | None
    """None if no job has a price."""
    idle_cost: float | None
    priced: int


class FleetProblem(TypedDict):
    """What one rule's findings cost in the jobs that ended in the last days."""

    rule: str
    jobs: int
    node_hours: float
    cost: float | None
    worst: str
    """The job in which it costs most."""


class Fleet(TypedDict):
    """All jobs of some stores."""

    schema: int
    stores: list[str]
    wrong: list[str]
    """Stores that could not be listed, and why."""
    days: float
    total: FleetSum
    owners: dict[str, FleetSum]
    verdicts: dict[str, FleetSum]
    problems: list[FleetProblem]
    jobs: list[FleetJob]


def usage(trial: Trial, told: Description) -> UsageEntry:
    """Return what an ended job used, which its manifest and the index of its store keep."""
    made = bill_of(trial, told, 1.0)
    idle = made["idle"] if made else None
    gpus = [node["gpus"] for node in told["nodes"]]
    lost = [
        {"rule": one["rule"], "pct": min(one["lost_pct"], 100.0)}
        for one in (made["findings"] if made else ())
    ]
    return cast(
        "UsageEntry",
        {
            "nodes": len(told["nodes"]) or 1,
            "gpus": None if any(one is None for one in gpus) else sum(len(one or ()) for one in gpus),
            "idle_pct": None if idle is None else max(0.0, min(idle["pct"], 100.0)),
            "idle_of": None if idle is None else idle["of"],
            "lost": lost,
        },
    )


def index_entry(manifest: Document) -> IndexEntry:
    """Return what the index of a store keeps of a job."""
    names = ("status", "owner", "created", "start", "end", "price", "verdict", "usage")
    known = {name: manifest.get(name) for name in names}
    return cast("IndexEntry", {"id": str(manifest.get("id")), "name": manifest["name"], **known})


def fleet(
    urls: Sequence[str], *, price: float | None = None, days: float = 7.0, now_ns: int | None = None
) -> Fleet:
    """Sum up the jobs of stores. Ended jobs come from the index; only the others are read one by one.

    Args:
        urls: The stores.
        price: The price of one machine per hour; by default that of each job (`holter run --price`).
        days: The most expensive problems are those of the jobs that ended in so many days.
        now_ns: The time, ns since the epoch.
    """
    now = time.time_ns() if now_ns is None else now_ns
    wrong: list[str] = []
    found: list[tuple[FleetJob, IndexEntry]] = []
    for url in urls:
        try:
            found += [(_job(url, entry, price, now, kept), entry) for entry, kept in _entries(url, now)]
        except (OSError, ValueError) as error:
            wrong.append(f"store {url}: {error}")
    found.sort(key=lambda one: (-(one[0]["created"] or 0), one[0]["name"]))
    jobs = [job for job, _ in found]
    recent = [one for one in found if (one[0]["end"] or 0) >= now - days * 86400e9]
    return {
        "schema": 1,
        "stores": list(urls),
        "wrong": wrong,
        "days": days,
        "total": _sum(jobs),
        "owners": _by(jobs, "owner"),
        "verdicts": _by([job for job in jobs if job["suspect"]], "suspect"),
        "problems": _problems(recent, price),
        "jobs": jobs,
    }


def _entries(url: str, now: int) -> Iterable[tuple[IndexEntry, bool]]:
    """Yield each job of a store, and whether the store still has it."""
    store = place(url)
    names = {name for name in store.folders() if JOB_NAME.fullmatch(name)}
    listed = index.entries(url)
    newest: dict[str, int] = {}
    for entry in listed:
        newest[entry["name"]] = max(newest.get(entry["name"], 0), entry["created"] or 0)
    for entry in listed:
        yield entry, entry["name"] in names and (entry["created"] or 0) == newest[entry["name"]]
    for name in sorted(names - newest.keys()):
        folder = JobFolder(store.below(name), name)
        entry = index_entry(folder.manifest())
        if entry["status"] is None:
            entry["status"] = "Unreadable"
        if entry["status"] in RUNNING:
            nodes = folder.nodes()
            gpus = [facts.get("gpus") for facts in nodes.values()]
            count = None if not gpus or None in gpus else sum(len(one or ()) for one in gpus)
            entry["usage"] = {
                "nodes": len(nodes) or 1,
                "gpus": count,
                "idle_pct": None,
                "idle_of": None,
                "lost": [],
            }
            if silent_s(folder, now) is not None:
                heard = [facts.get("heartbeat") or 0 for facts in nodes.values()]
                entry["end"] = max(heard, default=0) or entry["start"]
        yield entry, True


def _job(url: str, entry: IndexEntry, price: float | None, now: int, kept: bool) -> FleetJob:
    used, verdict = entry["usage"], entry["verdict"] or {}
    running = entry["status"] in RUNNING
    until = entry["end"] or (now if running else None)
    start = entry["start"] or entry["created"]
    hours = max(until - start, 0) / 3600e9 if until and start else None
    nodes, gpus = (used["nodes"], used["gpus"]) if used else (None, None)
    node_hours = None if hours is None or nodes is None else hours * nodes
    each = price if price is not None else entry["price"]
    cost = None if each is None or node_hours is None else each * node_hours
    idle = used["idle_pct"] if used else None
    return {
        "name": entry["name"],
        "store": url,
        "status": entry["status"],
        "silent": running and entry["end"] is not None,
        "owner": entry["owner"],
        "created": entry["created"],
        "end": None if running else entry["end"],
        "nodes": nodes,
        "gpus": gpus,
        "hours": hours,
        "node_hours": node_hours,
        "gpu_hours": None if hours is None or gpus is None else hours * gpus,
        "idle_pct": idle,
        "idle_of": used["idle_of"] if used else None,
        "cost": cost,
        "idle_cost": None if cost is None or idle is None else cost * idle / 100,
        "suspect": verdict.get("suspect"),
        "says": verdict.get("headline") or verdict.get("sentence"),
        "kept": kept,
    }


def _sum(jobs: Sequence[FleetJob]) -> FleetSum:
    priced = [job for job in jobs if job["cost"] is not None]
    return {
        "jobs": len(jobs),
        "running": sum(job["status"] in RUNNING and not job["silent"] for job in jobs),
        "failed": sum(job["status"] == "Failed" for job in jobs),
        "node_hours": sum(job["node_hours"] or 0.0 for job in jobs),
        "nodes_unknown": sum(job["node_hours"] is None for job in jobs),
        "gpu_hours": sum(job["gpu_hours"] or 0.0 for job in jobs),
        "gpus_unknown": sum(job["gpu_hours"] is None for job in jobs),
        "idle_node_hours": sum((job["node_hours"] or 0.0) * (job["idle_pct"] or 0.0) / 100 for job in jobs),
        "idle_unknown": sum(job["idle_pct"] is None for job in jobs),
        "cost": sum(job["cost"] or 0.0 for job in priced) if priced else None,
        "idle_cost": sum(job["idle_cost"] or 0.0 for job in priced) if priced else None,
        "priced": len(priced),
    }


def _by(jobs: Sequence[FleetJob], key: str) -> dict[str, FleetSum]:
    """Return the sums by owner or suspect, those with most machine hours first."""
    groups: dict[str, list[FleetJob]] = defaultdict(list)
    for job in jobs:
        groups[str(cast("Any", job)[key] or "unknown")].append(job)
    sums = {name: _sum(members) for name, members in groups.items()}
    return dict(sorted(sums.items(), key=lambda one: (-one[1]["node_hours"], one[0])))


def _problems(found: Sequence[tuple[FleetJob, IndexEntry]], price: float | None) -> list[FleetProblem]:
    """Return what rules' findings cost, the most expensive first; findings of one job overlap."""
    lost: dict[str, list[tuple[float, float | None, str]]] = defaultdict(list)
    for job, entry in found:
        each = price if price is not None else entry["price"]
        for one in (entry["usage"] or {"lost": []})["lost"]:
            hours = (job["node_hours"] or 0.0) * one["pct"] / 100
            lost[one["rule"]].append((hours, None if each is None else each * hours, job["name"]))
    problems: list[FleetProblem] = [
        {
            "rule": rule,
            "jobs": len(parts),
            "node_hours": sum(hours for hours, _, _ in parts),
            "cost": sum(costs) if (costs := [cost for _, cost, _ in parts if cost is not None]) else None,
            "worst": max(parts, key=lambda one: one[0])[2],
        }
        for rule, parts in lost.items()
    ]
    return sorted(problems, key=lambda one: (-(one["cost"] or 0.0), -one["node_hours"]))


def _hours(hours: float, of: str, unknown: int, jobs: int) -> str:
    """Word a sum of hours, and how many jobs it leaves out."""
    if unknown == jobs:
        return f"{of} hours unknown"
    return f"{hours_text(hours)} {of} hours" + (f" ({counted(unknown, 'job')} left out)" if unknown else "")


def summary_lines(found: Fleet) -> Iterator[str]:
    """Write the sums of a fleet in sentences."""
    total = found["total"]
    yield f"{counted(total['jobs'], 'job')}: {total['running']:,} running, {total['failed']:,} failed"
    machines = _hours(total["node_hours"], "machine", total["nodes_unknown"], total["jobs"])
    yield f"{machines}, {_hours(total['gpu_hours'], 'GPU', total['gpus_unknown'], total['jobs'])}"
    if total["idle_unknown"] < total["jobs"]:
        share = 100 * total["idle_node_hours"] / total["node_hours"] if total["node_hours"] else 0.0
        left = (
            f"; of {counted(total['idle_unknown'], 'job')} it is not known" if total["idle_unknown"] else ""
        )
        idle = f"{hours_text(total['idle_node_hours'])} of the machine hours"
        yield f"at least {idle} were idle ({percent(share)}){left}"
    if total["cost"] is not None:
        some = (
            f", of {counted(total['priced'], 'job')} with a price" if total["priced"] < total["jobs"] else ""
        )
        yield f"cost {money(total['cost'])}, of it idle {money(total['idle_cost'])}{some}"
