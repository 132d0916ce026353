"""Import torch.profiler traces: events per CPU-second, bytes and peak memory, beside gzip + json.load.

Bytes are those of the whole job, manifest and all. Beside it stands what nothing in Python can surpass
that holds an object an event: to unpack and decode the file into typed events (msgspec), and no more. The
share of it that an import reaches says more than events a second,
where the machine's speed changes. Each measurement is a process of its own, rounds of all take
turns, the best of each counts, and the spread of all rounds of an import stands in brackets. With
`--times N` the first trace is also imported when it is N times as long (its events again and again, each
time later and with correlations of its own), which shows whether time and memory grow with the file. Where
the build had a compiler (decisions 48 and 50) the usual events are taken apart in C; `HOLTER_COMPILE=0`
shows what imports cost without.

    python benchmarks/importing.py [TRACE…] [--rounds 3] [--times 1 5 20]

Without TRACE: all torch.profiler traces below `$HOLTER_DATA` (default ../shared/data).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from machine import described, pace

from holter.importers.kineto import scanning

IMPORT = """
import json, resource, sys, time
from pathlib import Path
import duckdb  # what every command loads is not what an import takes
from holter.importers import import_job
began = time.process_time()
folder, report = import_job([Path(sys.argv[1])], sys.argv[2], "job", now_ns=0)
cpu = time.process_time() - began
size = sum(p.stat().st_size for p in Path(sys.argv[2]).rglob("*") if p.is_file())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu": cpu, "events": report.events, "bytes": size, "peak": peak}))
"""
LOAD = """
import gzip, json, resource, sys, time
began = time.process_time()
with gzip.open(sys.argv[1]) as file:
    document = json.load(file)
cpu = time.process_time() - began
events = document["traceEvents"] if isinstance(document, dict) else document
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu": cpu, "events": len(events), "peak": peak}))
"""
DECODE = """
import gzip, json, msgspec, resource, sys, time
Word, Time = int | str | None, int | float | str | None
fields = [("ph", str, ""), ("cat", str | None, None), ("name", str | None, None), ("pid", Word, None),
          ("tid", Word, None), ("ts", Time, None), ("dur", Time, None), ("args", msgspec.Raw, msgspec.Raw())]
Event = msgspec.defstruct("Event", fields, gc=False)
Trace = msgspec.defstruct("Trace", [("traceEvents", list[Event])], gc=False)
began = time.process_time()
with gzip.open(sys.argv[1]) as file:
    text = file.read()
events = msgspec.json.decode(text, type=Trace if text.lstrip()[:1] == b"{" else list[Event])
cpu = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu": cpu, "events": len(getattr(events, "traceEvents", events)), "peak": peak}))
"""
SOURCES = ("hta", "kineto", "param", "tracelens")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, nargs="*", default=[])
    given = parser.parse_args()
    traces = given.traces or found()
    if not traces:
        print("no traces are here; HOLTER_DATA names the folder of real traces")
        return
    how = "taken apart in C" if scanning.compiled() else "decoded event by event"
    print(f"{described()}; pace {pace():.0f} ms; usual events are {how}")
    print(
        "| trace | events | json.gz MB | M events/CPU-s | decoding alone | share of it | json.load "
        "| stored/json.gz | peak MB | json.load |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        least = Path(folder) / "one event (what every import costs).json.gz"
        least.write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}'))
        for trace in (least, *traces):
            told(trace.name, trace, given.rounds)
        for times in given.times:
            longer = Path(folder) / "longer.json.gz"
            # In a process of its own: what it grows to would count as the peak of all that follow.
            with ProcessPoolExecutor(1) as other:
                other.submit(repeat, traces[0], longer, times).result()
            # Loaded whole, a long trace takes some 25 times its json.gz of memory: only ours reads those.
            told(f"{traces[0].name} x {times}", longer, given.rounds if times <= 5 else 1, beside=times <= 5)


def found() -> list[Path]:
    """Return the real traces of torch.profiler, the largest first."""
    root = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "traces"
    listed = [path for source in SOURCES for path in (root / source).rglob("*.json.gz")]
    return sorted(listed, key=lambda path: -path.stat().st_size)


def told(name: str, trace: Path, rounds: int, *, beside: bool = True) -> None:
    """Measure one trace and print its line."""
    ours: list[dict[str, Any]] = []
    bare: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as store:
            ours.append(run(IMPORT, str(trace), store))
        if beside:
            bare.append(run(DECODE, str(trace)))
            theirs.append(run(LOAD, str(trace)))
    size = trace.stat().st_size
    mine, decoded, other = (min(all_, key=_cpu, default=None) for all_ in (ours, bare, theirs))
    assert mine is not None
    if other is not None and mine["events"] != other["events"]:
        raise SystemExit(f"{name}: {mine['events']} events imported, of {other['events']}")
    speeds = ["" if o is None else f"{o['events'] / o['cpu'] / 1e6:.2f}" for o in (mine, decoded, other)]
    spread = f" ({mine['cpu']:.3f}-{max(map(_cpu, ours)):.3f} s)"
    share = "" if decoded is None else f"{decoded['cpu'] / mine['cpu']:.2f}"
    peaks = ["" if one is None else f"{one['peak'] / 1e6:.0f}" for one in (mine, other)]
    print(
        f"| {name[:60]} | {mine['events']:,} | {size / 1e6:.2f} | {speeds[0]}{spread} | {speeds[1]} "
        f"| {share} | {speeds[2]} | {mine['bytes'] / size:.2f} | {peaks[0]} | {peaks[1]} |",
        flush=True,
    )


def _cpu(one: dict[str, Any]) -> float:
    taken: float = one["cpu"]
    return taken


def run(code: str, *arguments: str) -> dict[str, Any]:
    """Run code in a process of its own; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def repeat(trace: Path, target: Path, times: int) -> int:
    """Write a trace again so many times as long; return its number of events."""
    document = msgspec.json.decode(gzip.decompress(trace.read_bytes()))
    events = document.pop("traceEvents")
    moments = [event["ts"] for event in events if event.get("ts")]
    length = max(moments) - min(moments) + 1000
    with gzip.open(target, "wb", compresslevel=2) as file:
        file.write(msgspec.json.encode(document)[:-1] + b', "traceEvents": [')
        for number in range(times):
            if number:
                file.write(b",\n")
                for event in events:
                    later(event, length)
            file.write(b",\n".join(msgspec.json.encode(event) for event in events))
        file.write(b"]}")
    return times * len(events)


def later(event: dict[str, Any], length: float) -> None:
    """Move an event to the next round."""
    if event.get("ts"):
        event["ts"] += length
    args = event.get("args")
    if isinstance(args, dict) and isinstance(args.get("correlation"), int):
        args["correlation"] += 10_000_000
    name = event.get("name")
    if isinstance(name, str) and name.startswith("ProfilerStep#"):
        event["name"] = f"ProfilerStep#{int(name[13:]) + 1000}"
    if isinstance(event.get("id"), int):
        event["id"] += 10_000_000


if __name__ == "__main__":
    main()
