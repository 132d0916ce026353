"""What it costs to judge a job: all rules over a long one afterwards, and the pack `essentials` live.

    python benchmarks/rules.py [--hours 24] [--store STORE] [--job NAME] [--tensors 0 120] [--live-minutes 10]

The job is generated: 8 ranks, 96 cores, 8 GPUs, read every 500 ms, unless an existing one is named. Live,
its rows come as an agent writes them, a file for each table every five seconds, as fast as they are judged;
what that took is given as a share of the job's time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from generate import START_NS, Training, generate
from machine import described, environment, pace

from holter.evaluation import documents, evaluate
from holter.evaluation.selection import choose
from holter.rules import catalogue
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer

if TYPE_CHECKING:
    from holter.rules import Rule, Window
    from holter.rules.engine.judging import Judgement

TARGETS = {"cpu_s": 60.0, "peak_mib": 500.0, "live_pct": 2.0}
FLUSH_S = 5
LIVE_TABLES = ("samples", "spans", "scalars")


def child(words: list[str]) -> dict[str, Any]:
    """Measure in a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, *words], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def afterwards(url: str, each: bool) -> dict[str, Any]:
    """Judge a finished job by all rules; returns CPU seconds, wall seconds, peak memory, looks."""
    import resource

    slowest, before = _timed() if each else {}, pace()
    began, wall = time.process_time(), time.perf_counter()
    result = evaluate(job.at(url), list(catalogue()), record=False)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu, wall = time.process_time() - began, time.perf_counter() - wall
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "peak_mib": usage.ru_maxrss / 1024,
        "pace_ms": [before, pace()],
        "rules": len(result.rules),
        "looks": result.cost["looks"],
        "errors": {r["name"]: r["status_details"] for r in result.rules if r["status"] == "Error"},
        "found": [r["name"] for r in result.rules if r["issues"]],
        "slowest": dict(sorted(slowest.items(), key=lambda one: -one[1])[:20]),
    }


def _timed() -> dict[str, float]:
    """Sum up the seconds of CPU that each rule takes."""
    from holter.evaluation import status
    from holter.rules.engine import judging

    judged = judging.judge
    spent: dict[str, float] = {}

    def judge(name: str, rule: Rule, window: Window, **given: bool) -> Judgement:
        began = time.process_time()
        outcome = judged(name, rule, window, **given)
        spent[name] = spent.get(name, 0.0) + time.process_time() - began
        return outcome

    status.judge = judge  # type: ignore[attr-defined]
    return spent


def live(url: str, minutes: float) -> dict[str, Any]:
    """Judge a job by the pack `essentials` while its rows come; returns percent of one core."""
    source = Trial(job.at(url))
    until = START_NS + int(minutes * 60e9)
    # Only rows of the last minutes count: what a fresh job costs is not what a long one does.
    tables = {name: source.table(name, end_ns=until) for name in LIVE_TABLES}
    with tempfile.TemporaryDirectory() as store:
        rules = documents(choose(["pack:essentials"]))
        folder = job.create(store, "live", command=["python"], interval_ms=500, rules=rules, now_ns=START_NS)
        folder.update(start=START_NS)
        for node, facts in job.at(url).nodes().items():
            folder.write_node(node, facts)
        at, writing = START_NS, 0.0

        def wait(_seconds: float) -> None:
            nonlocal at, writing
            began = time.process_time()
            at += FLUSH_S * 10**9
            for node in {n for t in tables.values() for n in set(t["node"].tolist())}:
                writer = Writer(folder, node)
                for name, table in tables.items():
                    ends = table["time"] + table["duration"] if "duration" in table else table["time"]
                    new = table.where((ends >= at - FLUSH_S * 10**9) & (ends < at) & (table["node"] == node))
                    if new.rows:
                        writer.append(name, {n: c for n, c in new.columns.items() if n != "node"})
                writer.close()
            if at >= until:
                folder.update(end=until, status="Completed", exit_code=0)
            writing += time.process_time() - began

        began = time.process_time()
        evaluate(folder, live=True, wait=wait)
        spent = time.process_time() - began - writing
    return {"live_pct": 100 * spent / (minutes * 60), "rules": len(rules), "minutes": minutes}


def main() -> None:
    """Measure and print a table as in docs/explanation/cost.md; exits with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--store")
    parser.add_argument("--job", default="long")
    parser.add_argument(
        "--tensors", type=int, nargs="+", default=[0, 120],
        help="tensors that each rank saves every 100 steps: a job for each number",
    )  # fmt: skip
    parser.add_argument("--live-minutes", type=float, default=10)
    parser.add_argument("--each", action="store_true", help="say which rules take longest")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        what, url = given.measure
        found = afterwards(url, given.each) if what == "afterwards" else live(url, given.live_minutes)
        print(json.dumps(found))
        return
    print(f"{described()}\n")
    missed = [_measured(given, tensors) for tensors in ([None] if given.store else given.tensors)]
    raise SystemExit(any(missed))


def _measured(given: argparse.Namespace, tensors: int | None) -> bool:
    """Measure one job and print its table; returns whether a target was missed."""
    with contextlib.ExitStack() as stack:
        store = given.store or stack.enter_context(tempfile.TemporaryDirectory())
        if tensors is not None:
            generate(store, given.job, Training(hours=given.hours, tensors=tensors))
        url = os.path.join(store, given.job)
        rest = ["--live-minutes", str(given.live_minutes), *(["--each"] if given.each else [])]
        after = child(["--measure", "afterwards", url, *rest])
        now = child(["--measure", "live", url, *rest])
    print("| judging | measured | target |\n|---|---|---|")
    saved = f", {tensors} tensors of each rank every 100 steps" if tensors else ""
    made = f"{given.hours:g} h, 8 ranks, 96 cores, 8 GPUs{saved}" if tensors is not None else url
    print(f"| {made} by {after['rules']} rules: CPU | {after['cpu_s']:.0f} s | ≤ {TARGETS['cpu_s']:.0f} s |")
    print(f"| the same: memory at its peak | {after['peak_mib']:.0f} MiB | ≤ {TARGETS['peak_mib']:.0f} MiB |")
    what = f"`essentials` ({now['rules']} rules) live, first {now['minutes']:g} min"
    print(f"| {what}: of one core | {now['live_pct']:.1f} % | ≤ {TARGETS['live_pct']:g} % |")
    print(f"\n{after['looks']} looks, {after['wall_s']:.0f} s by the clock; found by: {after['found']}")
    begin, end = after["pace_ms"]
    print(f"the machine's pace (`machine.pace`): {begin:.1f} ms before, {end:.1f} ms after\n")
    for name, seconds in after["slowest"].items():
        print(f"{name:30} {seconds:6.2f} s")
    for name, error in after["errors"].items():
        print(f"{name}: {error}")
    measured = {**after, **now}
    return any(measured[name] > limit for name, limit in TARGETS.items()) or bool(after["errors"])


if __name__ == "__main__":
    main()
