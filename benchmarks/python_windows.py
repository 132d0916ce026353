"""What a window of a Python profiler costs, beside the profiler itself on the same steps.

    python benchmarks/python_windows.py [--steps 30] [--rounds 3] [--windows 20]

One process and one training of small operators. A round trains the same number of steps alone, in a window of
each kind, and under cProfile and pyinstrument as a script would run them itself, with their files written.
Processor time of the process; of the rounds the best of each. Last, the time of a step before and after many
windows.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import described

from holter.schema.windows import ProfilingOrder, Request
from windows import Loop, seconds

KINDS: dict[str, dict[str, str]] = {
    "cprofile, total_time": {"profiler": "cprofile"},
    "cprofile, cpu_time": {"profiler": "cprofile", "timer": "cpu_time"},
    "cprofile, off_cpu_time": {"profiler": "cprofile", "timer": "off_cpu_time"},
    "pyinstrument": {"profiler": "pyinstrument"},
}


def windowed(loop: Loop, steps: int, parameters: dict[str, Any]) -> float:
    """Return the seconds of one step, at whose end a window begins, and of as many steps in it."""
    loop.session.windows.take(ProfilingOrder((Request("python", steps=steps, parameters=parameters),)))
    began = time.process_time()
    loop.steps(steps + 1)
    loop.session.windows.wait()
    return time.process_time() - began


def by_cprofile(loop: Loop, steps: int, folder: Path) -> float:
    """Return the seconds of as many steps and one under cProfile, one file a step."""
    began = time.process_time()
    loop.steps(1)
    for step in range(steps):
        profile = cProfile.Profile()
        profile.enable()
        loop.steps(1)
        profile.disable()
        profile.dump_stats(folder / f"{step}.pstats")
    return time.process_time() - began


def by_pyinstrument(loop: Loop, steps: int, folder: Path) -> float | None:
    """Return the seconds of as many steps and one under pyinstrument; None when it is not here."""
    try:
        from pyinstrument import Profiler
        from pyinstrument.renderers import JSONRenderer
    except ImportError:
        return None
    began = time.process_time()
    loop.steps(1)
    profiler = Profiler(interval=0.001, async_mode="disabled")
    profiler.start()
    loop.steps(steps)
    session = profiler.stop()
    (folder / "session.json").write_text(JSONRenderer().render(session))
    return time.process_time() - began


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, default=20)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holter-python-windows-"))
    try:
        measure(folder, given.steps, given.rounds, given.windows)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, steps: int, rounds: int, many: int) -> None:
    """Measure in a folder and print."""
    loop = Loop(folder)
    loop.steps(20)
    kinds = {
        name: one for name, one in KINDS.items() if by_pyinstrument(loop, 1, folder) or name != "pyinstrument"
    }
    times: dict[str, list[float]] = {
        name: [] for name in ("alone", *kinds, "own cprofile", "own pyinstrument")
    }
    for parameters in kinds.values():
        windowed(loop, 2, parameters)  # the first one loads what it needs
    before = _step(loop)
    for _ in range(rounds):
        times["alone"].append(seconds(loop.steps(steps + 1)))
        for name, parameters in kinds.items():
            times[name].append(windowed(loop, steps, parameters))
        times["own cprofile"].append(by_cprofile(loop, steps, folder))
        own = by_pyinstrument(loop, steps, folder)
        if own is not None:
            times["own pyinstrument"].append(own)
    for _ in range(many):
        windowed(loop, 1, {"profiler": "cprofile"})
    after = _step(loop)
    loop.session.close()
    best = {name: min(values) for name, values in times.items() if values}
    print(f"{described()}\n\n{steps} steps of {best['alone'] / (steps + 1) * 1e3:.1f} ms\n")
    print("| | seconds | slowdown | of the profiler's own |\n|---|---:|---:|---:|")
    for name, value in best.items():
        own = best.get(f"own {name.split(',')[0]}")
        ratio = "" if own is None else f"{(value - best['alone']) / (own - best['alone']):.2f}"
        print(f"| {name} | {value:.2f} | {value / best['alone']:.2f} x | {ratio} |")
    print(
        f"\nA step took {before * 1e3:.2f} ms before {many} windows and {after * 1e3:.2f} ms after them "
        f"({(after / before - 1) * 100:+.1f} %)."
    )


def _step(loop: Loop) -> float:
    return statistics.median(end - begin for begin, end in itertools.pairwise(loop.steps(200)))


if __name__ == "__main__":
    main()
