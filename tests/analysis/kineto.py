"""A trace of torch.profiler as tables, read whole and simply: what the analyses are compared with."""

from __future__ import annotations

import gzip
import json
import os
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from holter.schema.table import Table
from holter.schema.tables import TABLES

DATA = Path(os.environ.get("HOLTER_DATA", "../shared/data"))

_COPY = re.compile(r"(?:Memcpy|Copy)\s*(\w)to(\w)(?:.*\((\w+) -> (\w+)\))?", re.IGNORECASE)
_COMMUNICATION = re.compile(r"nccl|rccl|hccl|cross_device_reduce", re.IGNORECASE)
_SYNC = re.compile(r"(Stream|Device|Event)Synchronize")
_CATEGORIES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime"}
_DEVICE_SIDE = ("kernel", "gpu_memcpy", "gpu_memset")


def given(*parts: str) -> Path:
    """Return a file of the real data; skips the test where there is none."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    return path


def _ns(us: float) -> int:
    whole = int(us)
    return whole * 1000 + round((us - whole) * 1000)


@lru_cache(maxsize=2)
def load(path: Path, rank: int = 0) -> dict[str, Table]:
    """Read a trace into tables; a rank that the file does not tell is `rank`."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        document = json.load(file)
    rank = int(document.get("distributedInfo", {}).get("rank", rank))
    rows: dict[str, list[dict]] = {
        name: [] for name in ("kernels", "launches", "memory_operations", "syncs", "operators", "counters")
    }
    events = [e for e in document["traceEvents"] if e.get("ph") == "X" and "dur" in e]
    asked = {
        e["args"]["correlation"]
        for e in events
        if _CATEGORIES.get(e["cat"], e["cat"]) in _DEVICE_SIDE and "correlation" in e["args"]
    }
    for e in events:
        kind, args, name = _CATEGORIES.get(e["cat"], e["cat"]), e.get("args", {}), e["name"]
        row = {"time": _ns(e["ts"]), "duration": _ns(e["dur"]), "rank": rank, "node": "n0", "name": name}
        if kind in _DEVICE_SIDE:
            row |= {"device": args["device"], "stream": args["stream"]}
            row["correlation"] = args.get("correlation", 0)
        else:
            tid = e.get("tid")
            row["thread"] = int(tid) if str(tid).isdecimal() else -1
        if kind == "kernel":
            row["kind"] = "communication" if _COMMUNICATION.search(name) else "compute"
            rows["kernels"].append(row)
        elif kind in ("gpu_memcpy", "gpu_memset"):
            found = _COPY.search(name)
            row["kind"] = f"{found[1]}2{found[2]}".lower() if found else "memset"
            row["bytes"] = args.get("bytes", 0)
            rows["memory_operations"].append(row)
        elif kind in ("cuda_runtime", "cuda_driver"):
            if args.get("correlation") in asked:
                rows["launches"].append({**row, "correlation": args["correlation"]})
            elif _SYNC.search(name):
                rows["syncs"].append({**row, "kind": _SYNC.search(name)[1].lower()})
            else:
                rows["operators"].append({**row, "kind": "runtime"})
        elif kind in ("cpu_op", "user_annotation", "python_function", "Operator"):
            word = "python" if kind == "python_function" else "operator"
            marked = kind == "user_annotation" or "#" in name
            rows["operators"].append({**row, "kind": "annotation" if marked else word})
    return {name: Table.of(name, listed).sorted("time") for name, listed in rows.items() if name in TABLES}
