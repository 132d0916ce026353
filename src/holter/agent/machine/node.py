"""Facts of this machine: hardware, limits, and the metrics that can be measured."""

from __future__ import annotations

import os
import platform
import re
import socket
from typing import TYPE_CHECKING

from holter.agent.collectors import Collector, Machine, collectors
from holter.agent.machine.procfs import file_text, meminfo

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.clock import Clock
    from holter.store.documents import Document

OBEYS = ("interval_ms", "monitoring", "stop", "stacks", "profile")
"""The orders in `control.json` that this agent follows; other orders are refused."""


def node_name() -> str:
    """Return a name for this machine that a path may hold."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname().split(".")[0]).strip("-.")
    return name or "node"


def node_facts(
    machine: Machine, made: list[Collector], missing: list[tuple[str, str]], clock: Clock
) -> Document:
    """Return what `nodes/<node>.json` holds."""
    limit, total = machine.cgroup.memory_limit(), meminfo(machine.proc).get("MemTotal")
    limited = min((value for value in (limit, total) if value is not None), default=None)
    return {
        "cpus": len(machine.cores),
        "cpu_quota": machine.cgroup.cpus(),
        "memory_bytes": limited,
        "memory_total_bytes": total,
        "memory_limit_bytes": limit,
        "shm_bytes": _size(machine.shm),
        "gpus": [fact for collector in made for fact in collector.facts()],
        "host": socket.gethostname(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu_model": _cpu_model(machine),
        "python": platform.python_version(),
        "agent_pid": os.getpid(),
        "obeys": list(OBEYS),
        "clock": {"monotonic": clock.monotonic, "wall": clock.wall},
        "heartbeat": clock.time_ns(),
        "missing": [{"what": what, "why": why} for what, why in missing],
    }


def capabilities(machine: Machine | None = None) -> list[tuple[str, str]]:
    """Try every collector on this machine; return for each why it does not work, empty for one that works.

    Each is read twice, because some faults show only in a reading.
    """
    made, missing = collectors(machine or Machine())
    works = []
    for collector in made:
        name = type(collector).__module__.rpartition(".")[2]
        known = len(collector.missing)
        try:
            for now in (1, 2):
                list(collector.read(now))
        except Exception as error:
            missing.append((name, f"{type(error).__name__}: {error}"))
            continue
        missing.extend(collector.missing[known:])
        works.append((name, ""))
    return works + missing


def _size(mount: Path) -> int | None:
    """Return the size of a file system; None for one that is not there."""
    try:
        space = os.statvfs(mount)
    except OSError:
        return None
    return space.f_blocks * space.f_frsize or None


def _cpu_model(machine: Machine) -> str | None:
    match = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", file_text(machine.proc / "cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else None
