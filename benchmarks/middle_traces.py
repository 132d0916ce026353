"""Import and diagnose traces of middle size: events per CPU-second of both together, start-up excluded.

The commands of traces of 50,000 to 300,000 events take a second or less, of which Python and its modules
take half. So each measurement is a process of its own that does all once before it counts: the best of
three runs, user and system time of the process. Rounds of all traces take turns. With `--against FOLDER`,
the `src` folder of another checkout, each round measures that too, directly after, and the last column is
the median ratio of the pairs: of two figures of a busy machine only those taken together can be compared.

    python benchmarks/middle_traces.py [TRACE…] [--rounds 3] [--against ../before/src] [--aim 0.3]

Without TRACE: the torch.profiler traces of that size below `$HOLTER_DATA` (default ../shared/data).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from machine import described, environment, pace

RUN = """
import json, sys, tempfile, time
from pathlib import Path
from holter.importers import import_job
from holter.store.trial import Trial
from holter.views.document.trace_description import describe_trace

def run():
    with tempfile.TemporaryDirectory() as store:
        began = time.process_time()
        folder, report = import_job([Path(sys.argv[1])], store, "job", now_ns=0, kept=False)
        imported = time.process_time()
        describe_trace(Trial(folder))
        return report.events, imported - began, time.process_time() - imported

run()
print(json.dumps(min((run() for _ in range(3)), key=lambda found: found[1] + found[2])))
"""
SIZES = range(50_000, 300_001)
_LEAST_BYTES = 700_000
"""Compressed traces of so many events are not smaller; others are not tried."""


def measured(trace: Path, source: str | None = None) -> tuple[int, float, float]:
    """Return the number of events, and the CPU seconds of import and of diagnosis."""
    given = environment() | ({"PYTHONPATH": source} if source else {})
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(trace)], env=given, capture_output=True, text=True, check=True
    )
    events, imported, diagnosed = json.loads(done.stdout)
    return events, imported, diagnosed


def chosen(traces: list[Path]) -> list[Path]:
    """Return the given traces, or those of the real data."""
    if traces:
        return traces
    data = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "traces"
    found = [p for p in sorted(data.glob("*/*.json.gz")) if p.stat().st_size >= _LEAST_BYTES]
    return [path for path in found if path.parent.name in ("hta", "kineto", "param", "tracelens")]


def main() -> int:
    """Measure, and print a table; returns 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", help="the `src` folder of another checkout")
    parser.add_argument("--aim", type=float, default=0.3, help="M events per CPU-second, of all together")
    given = parser.parse_args()
    best: dict[Path, tuple[int, float, float]] = {}
    ratios: dict[Path, list[float]] = {}
    traces = chosen(given.traces)
    for _ in range(given.rounds):
        for trace in list(traces):
            found = measured(trace)
            if not given.traces and found[0] not in SIZES:
                traces.remove(trace)
                continue
            best[trace] = min(best.get(trace, found), found, key=lambda one: one[1] + one[2])
            if given.against:
                other = measured(trace, given.against)
                ratios.setdefault(trace, []).append(sum(other[1:]) / sum(found[1:]))
    print(f"{described()}, pace {pace():.0f} ms\n")
    print("| trace | events | import, CPU-s | diagnose, CPU-s | M events/CPU-s | times as fast |")
    print("|---|---:|---:|---:|---:|---:|")
    for trace, (events, imported, diagnosed) in best.items():
        faster = f"{statistics.median(ratios[trace]):.2f}" if trace in ratios else ""
        rate = events / (imported + diagnosed) / 1e6
        print(
            f"| {trace.parent.name}/{trace.name[:40]} | {events:,} | {imported:.2f} | {diagnosed:.2f} "
            f"| {rate:.2f} | {faster} |"
        )
    whole = sum(one[0] for one in best.values()) / sum(one[1] + one[2] for one in best.values()) / 1e6
    every = [ratio for found in ratios.values() for ratio in found]
    print(f"| all together | | | | {whole:.2f} | {f'{statistics.median(every):.2f}' if every else ''} |")
    return int(whole < given.aim)


if __name__ == "__main__":
    sys.exit(main())
