"""How long it takes to read tensors of a long, generated job, and how many bytes a row of them takes."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import described

import holter
from holter.store import job
from holter.store.compact import compact
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.job import JobFolder

STEPS = 100_000
TENSORS = 20
MANY = 10_000
ROUNDS = 5
STATISTICS = ("min", "max", "mean", "std", "abs_mean", "q05", "q50", "q95")
CHANGES = ("delta_l2", "delta_abs_mean", "delta_max")


def rows(names: list[str], first: int, steps: int, random: np.random.Generator) -> dict[str, Any]:
    """Make up statistics of gradients and weights that drift from step to step, as those of a training do."""
    count = len(names) * steps
    step = np.repeat(np.arange(first, first + steps), len(names))
    which = np.tile(np.arange(len(names)), steps)
    scale = 0.02 / (1 + which) * (1 + 0.2 * np.sin(step / 3000)) * random.normal(1, 0.02, count)
    weight = which % 2 == 0
    found: dict[str, Any] = {
        "time": 1_700_000_000_000_000_000 + step * 400_000_000 + which * 1000,
        "rank": np.zeros(count, dtype=np.int32),
        "step": step,
        "mode": ["train"] * count,
        "name": (which, names),
        "role": (which % 2, ["weight", "grad"]),
        "count": 4096 * (1 + which),
        "zeros": random.poisson(3, count),
    }
    for n, name in enumerate(STATISTICS):
        sign = -1 if name in ("min", "q05") else 1
        found[name] = (
            sign * scale * (4.0 if name in ("min", "max") else 1 + n / 10) * random.normal(1, 0.01, count)
        )
    for name in CHANGES:
        found[name] = np.where(weight, scale * 1e-3 * random.normal(1, 0.1, count), np.nan)
    return found


def long_job(store: str) -> JobFolder:
    """Write a job of few tensors and many steps, in the files a running job would leave, then compact it."""
    folder = job.create(store, "long", command=["true"], interval_ms=500, rules=[], now_ns=1)
    writer = Writer(folder, "n0")
    random = np.random.default_rng(0)
    names = [
        f"layer{n // 2}.weight" if n % 2 == 0 else f"gradient/layer{n // 2}.weight" for n in range(TENSORS)
    ]
    for first in range(0, STEPS, 2500):
        writer.append("tensors", rows(names, first, 2500, random))
        writer.flush()
    writer.close()
    folder.update(end=2)
    return folder


def wide_job(store: str) -> JobFolder:
    """Write a job of many tensors and ten steps."""
    folder = job.create(store, "wide", command=["true"], interval_ms=500, rules=[], now_ns=1)
    writer = Writer(folder, "n0")
    random = np.random.default_rng(0)
    names = [f"blocks.{n // 20}.{n % 20}.weight" for n in range(MANY)]
    for step in range(10):
        writer.append("tensors", rows(names, step, 1, random))
    writer.close()
    folder.update(end=2)
    return folder


def seconds(ask: Callable[[], object]) -> tuple[float, float]:
    """Return median and slowest of a few times."""
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), max(taken)


def main() -> None:
    """Write the two jobs, ask, print the tables."""
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        folder = long_job(store)
        wide = wide_job(store)
        print(f"written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        name = "gradient/layer3.weight"

        def history() -> None:
            found = holter.open(folder.url).tensors()[name].history()
            assert len(found) == STEPS

        def listing() -> None:
            assert len(holter.open(wide.url).tensors().names) == MANY

        def size() -> float:
            return sum(entry.size for entry in folder.place.files("tensors")) / (STEPS * TENSORS)

        fresh, fresh_size = seconds(history), size()
        began = time.perf_counter()
        compact(folder)
        print(f"compacted in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        answers = {
            f"one of {TENSORS} tensors over {STEPS:,} steps, all statistics, files as they come": (
                fresh,
                0.3,
            ),
            "the same, compacted": (seconds(history), 0.3),
            f"names of {MANY:,} tensors": (seconds(listing), 0.2),
        }
        small = size()
    print(f"{described()}\n\n| opening the job and reading | median | slowest | target |\n|---|---|---|---|")
    for what, ((middle, slowest), target) in answers.items():
        print(f"| {what} | {middle:.2f} s | {slowest:.2f} s | ≤ {target:g} s |")
    print("\n| bytes a row of statistics | as they come | compacted | target |\n|---|---|---|---|")
    print(f"| {STEPS * TENSORS:,} rows | {fresh_size:.1f} | {small:.1f} | ≤ 40 |")


if __name__ == "__main__":
    main()
