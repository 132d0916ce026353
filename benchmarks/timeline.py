"""How long a generated timeline of many events takes to open and to zoom, and how much memory.

python benchmarks/timeline.py [--events 1e7] [--store FOLDER]
python benchmarks/timeline.py --cold TRACE.json.gz [--events 1e7] [--longer FILE.json.gz]

With `--cold` a real trace, again and again until it has so many events: from its json.gz, never seen before,
to the first picture, in one process. To write the longer trace takes minutes; `--longer` keeps it, and takes
it if it is there already.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import generated_trace
import numpy as np
from importing import repeat
from machine import described, pace

from holter.importers import import_job
from holter.importers.kineto import scanning
from holter.store import cache, job
from holter.store.compact import compact
from holter.store.trial import Trial
from holter.views.timeline.details import connections, search
from holter.views.timeline.lanes import Timeline
from holter.views.timeline.packing import packed

if TYPE_CHECKING:
    from collections.abc import Callable

ZOOMS = 300
PIXELS = 1500
SHORTEST_NS = 20_000


def timed(ask: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return wall seconds, CPU seconds and the answer."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = ask()
    return time.perf_counter() - wall, time.process_time() - cpu, answer


def memory() -> float:
    """Return the most memory that this process has had, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def generate(store: str, events: int, compacted: bool) -> str:
    """Write the job; returns where it is."""
    folder = generated_trace.write(store, f"trace-{events}", events)
    if compacted:
        compact(folder)
    return folder.url


def build(url: str) -> dict[str, Any]:
    """Compute the tiles."""
    wall, cpu, timeline = timed(lambda: Timeline(Trial(job.at(url))))
    return {"wall": wall, "cpu": cpu, "mb": memory(), "events": sum(lane.events for lane in timeline.lanes)}


def look(url: str) -> dict[str, Any]:
    """Open the job as a server would, take the first picture and many others at random places and zooms."""
    wall, cpu, first = timed(lambda: _first(url))
    timeline, blocks, size = first
    warm = timed(timeline.warm)[:2]
    random = np.random.default_rng(0)
    whole = timeline.end_ns - timeline.start_ns
    zooms = []
    for span in np.exp(random.uniform(np.log(SHORTEST_NS), np.log(whole), ZOOMS)).astype(int).tolist():
        begin = timeline.start_ns + int(random.integers(0, whole - span + 1))
        zooms.append(timed(partial(timeline.picture, begin, begin + span, pixels=PIXELS))[:2])
    found = timed(lambda: search(timeline, "sgemm"))
    kernel = found[2][0].first
    return {
        "first": (wall, cpu),
        "blocks": blocks,
        "bytes": size,
        "warm": warm,
        "zooms": zooms,
        "search": found[:2],
        "connections": timed(lambda: connections(timeline, kernel))[:2],
        "mb": memory(),
    }


def cold(trace: Path, store: str) -> dict[str, Any]:
    """Import a trace into a new job, open it, and take the first picture."""
    imported = timed(lambda: import_job([trace], store, "cold", now_ns=0))
    folder, report = imported[2]
    first = timed(lambda: _first(folder.url))
    return {"events": report.events, "import": imported[:2], "first": first[:2], "mb": memory()}


def _cold(trace: Path, events: int, kept: Path | None) -> None:
    """Print how long it takes from a long json.gz to the first picture."""
    scanning.compiled()  # once for each machine, in a second
    with tempfile.TemporaryDirectory() as folder:
        longer = kept or Path(folder) / "longer.json.gz"
        if not longer.exists():
            count = apart(cold, trace, folder + "/one")["events"]
            draft = longer.with_name("draft." + longer.name)
            apart(repeat, trace, draft, -(-events // count))
            draft.rename(longer)
        seen = apart(cold, longer, folder + "/many")
    print(f"{described()}; pace {pace():.0f} ms\n\n| {seen['events']:,} events | wall | CPU | target |")
    print("|---|---|---|---|")
    for what in ("import", "first"):
        name = {"import": "import of the json.gz", "first": "tiles, and first picture as JSON"}[what]
        print(f"| {name} | {seen[what][0]:.1f} s | {seen[what][1]:.1f} s | |")
    wall, cpu = (seen["import"][n] + seen["first"][n] for n in (0, 1))
    print(f"| from json.gz to the first picture | {wall:.1f} s | {cpu:.1f} s | ≤ 20 s |")
    print(f"| memory | {seen['mb']:.0f} MB | | ≤ 1000 MB |")


def _first(url: str) -> tuple[Timeline, int, int]:
    timeline = Timeline(Trial(job.at(url)))
    picture = timeline.picture(pixels=PIXELS)
    numbers = {lane: number for number, lane in enumerate(timeline.lanes)}
    encoded = packed(picture, timeline.start_ns, numbers, "")
    return timeline, sum(len(strip.time) for strip in picture.strips), len(encoded)


def apart(part: Callable[..., Any], *given: Any) -> Any:
    """Run a part in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(part, *given).result()


def measure(store: str, events: int, compacted: bool) -> None:
    """Print the figures of one job."""
    url = apart(generate, store, events, compacted)
    built, seen = apart(build, url), apart(look, url)
    kept = cache.entry(job.at(url))
    tiles = 0 if kept is None else sum(entry.size for entry in kept.files("tiles"))
    walls, cpus = (np.array(column) * 1000 for column in zip(*seen["zooms"], strict=True))
    state = "compacted" if compacted else "as written"
    print(f"\n{built['events']:,} events in {len(Timeline(Trial(job.at(url))).lanes)} lanes, {state}\n")
    print("| | wall | CPU | target |\n|---|---|---|---|")
    print(f"| tiles, once | {built['wall']:.1f} s | {built['cpu']:.1f} s | |")
    first = f"open, and first picture as JSON: {seen['blocks']:,} blocks, {seen['bytes'] / 1e6:.1f} MB"
    print(f"| {first} | {seen['first'][0]:.2f} s | {seen['first'][1]:.2f} s | ≤ 2 s |")
    wall, cpu = seen["warm"]
    print(f"| load what zooms need, behind the first picture | {wall:.2f} s | {cpu:.2f} s | |")
    for share in (50, 95, 100):
        wall, cpu = np.percentile(walls, share), np.percentile(cpus, share)
        name = {50: "median", 95: "95 %", 100: "slowest"}[share]
        what = f"zoom of all lanes on {PIXELS} pixels, {name} of {ZOOMS}"
        print(f"| {what} | {wall:.0f} ms | {cpu:.0f} ms | ≤ 100 ms |")
    for what in ("search", "connections"):
        print(f"| {what} | {seen[what][0] * 1000:.0f} ms | {seen[what][1] * 1000:.0f} ms | |")
    print(f"\ntiles take {tiles / 1e6:.0f} MB, {tiles / built['events']:.1f} bytes an event; ", end="")
    print(f"memory: {built['mb']:.0f} MB to compute them, {seen['mb']:.0f} MB to show them (target ≤ 1000)")


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--store", help="keep the jobs here; by default they are deleted")
    parser.add_argument("--cold", type=Path, metavar="TRACE", help="a json.gz to make a long one of")
    parser.add_argument("--longer", type=Path, metavar="FILE", help="the long one, kept for the next time")
    given = parser.parse_args()
    if given.cold is not None:
        _cold(given.cold, given.events, given.longer)
        return
    with tempfile.TemporaryDirectory() as own:
        os.environ["XDG_CACHE_HOME"] = str(Path(own) / "cache")
        for compacted in (False, True):
            store = Path(given.store or own) / ("compacted" if compacted else "written")
            measure(str(store), given.events, compacted)
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
