"""What a mark costs, against the floor of two clock reads and one struct write, interleaved in one run.

Run: `python benchmarks/marks.py [--check]`. With `--check` it exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

ROUNDS = 301
CALLS = 500
TARGET = 2.0
"""A mark, and an annotation, may cost this many times the floor."""
OFF_TARGET_NS = 150
"""What an annotation may cost that nobody records."""


SETUP = """
import mmap, struct, time
clock = time.perf_counter_ns
pack_into = struct.Struct("<qqdiHBB").pack_into
memory = mmap.mmap(-1, 4096)

def least():
    begin = clock()
    pack_into(memory, 64, begin, clock() - begin, 0.0, 3, 7, 1, 4)

class Empty:
    __slots__ = ()
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): pass

empty = Empty()
def nothing(name):
    return empty

import holter
from holter.recorder import session
current = session.activate()
code = current.name("bench") << 8 | 4
begin, end_of, add = current.thread_spool().begin, current.thread_spool().end_of, current.thread_spool().add
annotate, annotation_begin, annotation_end = holter.annotate, holter.annotation_begin, holter.annotation_end
phase, step, steps = holter.phase, holter.step, holter.steps
kept = annotate("kept")
batches = range(4)
"""

NOTHING = "an empty range: a call, enter, exit"
FLOOR = "floor: two clock reads, one struct"
MARK = "mark: begin + end of"
STEP = "a step: 7 marks and its boundary"
ANNOTATE = "with annotate(name)"
PHASE = "with phase(name)"
ITERATED = "for batch in steps(batches): 4 of them"
PLAIN_LOOP = "for batch in batches: 4 of them"
STATEMENTS = {
    FLOOR: "least()",
    "the same without a call": "t = clock(); pack_into(memory, 64, t, clock() - t, 0.0, 3, 7, 1, 4)",
    MARK: "begin(code); end_of(code)",
    "add": "add(4, 1, 5, 6)",
    STEP: "begin(code); end_of(code);" * 7 + "current.boundary()",
    NOTHING: "with nothing('augment'): pass",
    ANNOTATE: "with annotate('augment'): pass",
    "with a kept range": "with kept: pass",
    "annotation_begin + annotation_end": "annotation_begin('augment'); annotation_end('augment')",
    PHASE: "with phase('simulate'): pass",
    "with step()": "with step(): pass",
    ITERATED: "for batch in steps(batches): pass",
    PLAIN_LOOP: "for batch in batches: pass",
}
"""What is measured, as statements in one loop, so that the loop and nothing else is added to each."""


def timers(statements: dict[str, str], scope: dict[str, object]) -> dict[str, timeit.Timer]:
    """Compile each statement into a loop of its own."""
    return {name: timeit.Timer(text, "pass", globals=scope) for name, text in statements.items()}


def measure(loops: dict[str, timeit.Timer], calls: int, clean: Callable[[], None]) -> dict[str, float]:
    """Return the median ns per call of each, taken in turns so that a noisy machine disturbs all alike."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            times[name].append(loop.timeit(calls) / calls * 1e9)
            clean()
    return {name: statistics.median(values) for name, values in times.items()}


def unrecorded() -> dict[str, float]:
    """Return the same for a program that is started without holter, measured in a process of its own."""
    program = f"""
import json, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).resolve().parent.parent / "src")]!r}
import marks, holter
scope = {{"annotate": holter.annotate, "phase": holter.phase, "step": holter.step, "steps": holter.steps}}
scope["batches"] = range(4)
assert holter.step.__module__ == "holter.recorder.unrecorded"
names = (marks.ANNOTATE, marks.PHASE, "with step()", marks.ITERATED, marks.PLAIN_LOOP)
timed = marks.timers({{name: marks.STATEMENTS[name] for name in names}}, scope)
print(json.dumps(marks.measure(timed, marks.CALLS, lambda: None)))
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> int:
    """Print the table; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when a mark misses its target")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as spool:

        def drain() -> None:
            # What the agent does: full segments go, so that none is dropped.
            for old in sorted(Path(spool).glob("*.seg"), key=lambda path: int(path.name.split(".")[2]))[:-1]:
                old.unlink()

        os.environ["HOLTER_SPOOL"] = spool
        scope: dict[str, Any] = {}
        exec(compile(SETUP, "setup", "exec"), scope)
        on = measure(timers(STATEMENTS, scope), CALLS, drain)
        scope["current"].close()
        own = ("annotat", "phase(", "step(", "batches")
        annotations = {name: text for name, text in STATEMENTS.items() if any(one in text for one in own)}
        off = measure(timers(annotations, scope), CALLS, drain)
    before = unrecorded()
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"medians of {ROUNDS} rounds"
    )
    for name, value in on.items():
        print(f"{name:36} {value:7.0f} ns  {value / on[FLOOR]:5.2f} x floor")
    for name, value in off.items():
        print(f"{name + ', off':36} {value:7.0f} ns  {value / on[FLOOR]:5.2f} x floor")
    for name, value in before.items():
        print(f"{name + ', without holter':36} {value:7.0f} ns  {value / on[FLOOR]:5.2f} x floor")
    print(
        f"an annotation costs {on[ANNOTATE] / (on[FLOOR] + on[NOTHING]):.2f} x the floor in an empty range; "
        f"switched off {off[ANNOTATE] / on[NOTHING]:.2f} x an empty range"
    )
    missed = [
        f"{name}: {value:.4g}, at most {most:.4g}"
        for name, value, most in (
            (f"{MARK}, x floor", on[MARK] / on[FLOOR], TARGET),
            (f"{ANNOTATE}, x floor", on[ANNOTATE] / on[FLOOR], TARGET),
            (f"{ANNOTATE}, off, ns", off[ANNOTATE], OFF_TARGET_NS),
        )
        if value > most
    ]
    print("\n".join(f"missed: {text}" for text in missed))
    return 1 if check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
