"""What torch's own end of a window costs: its CPU, that of the kernel for it, and its memory.

    python benchmarks/window_end.py [--steps 550] [--legacy]

The training of `windows.py` under torch's profiler as a window sets it up, or under torch's older one, and
without holter. A million events are some 550 steps.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from machine import described

from holter.recorder.profilers.operators import resident
from windows import BATCH, DEPTH, WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable


def training() -> Callable[[int], float]:
    """Return a function that trains so many steps and returns the CPU seconds of one."""
    torch.set_num_threads(1)
    nn = torch.nn
    blocks = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.LayerNorm(WIDTH))]
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    inputs = torch.randn(BATCH, WIDTH)

    def steps(count: int) -> float:
        began = time.thread_time()
        for _ in range(count):
            loss = (model(inputs) - inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return (time.thread_time() - began) / count

    return steps


def begin(legacy: bool) -> None:
    """Begin to collect, as little as can be."""
    made = torch._C._profiler
    if legacy:
        off = (False,) * 5
        config = made.ProfilerConfig(made.ProfilerState.CPU, *off, made._ExperimentalConfig())
        torch.autograd._enable_profiler_legacy(config)
        return
    frugal = made._ExperimentalConfig(
        disable_external_correlation=True, profile_all_threads=True, trace_only=True
    )
    settings = torch.autograd.profiler.profile(experimental_config=frugal)
    made._set_fwd_bwd_enabled_val(False)
    torch.autograd._prepare_profiler(settings.config(), settings.kineto_activities)
    torch.autograd._enable_profiler(settings.config(), settings.kineto_activities)


def main() -> None:
    """Measure once, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=550)
    parser.add_argument("--legacy", action="store_true", help="torch's older profiler")
    given = parser.parse_args()
    steps = training()
    steps(20)
    alone = steps(50)
    begin(given.legacy)
    held = [resident()]
    within = steps(given.steps)
    held.append(resident())
    before = resource.getrusage(resource.RUSAGE_THREAD)
    result = torch.autograd._disable_profiler_legacy() if given.legacy else torch.autograd._disable_profiler()
    after = resource.getrusage(resource.RUSAGE_THREAD)
    held.append(resident())
    began = time.thread_time()
    # The older one has a begin and an end for each.
    found = None if given.legacy else result.trace_activities()
    events = sum(map(len, result)) // 2 if found is None else len(found)
    listing = time.thread_time() - began
    held.append(resident())
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    collecting, ending, listed = ((later - one) / events for one, later in itertools.pairwise(held))
    print(f"{described()}\n")
    print(f"{events} operators and ranges")
    print(f"a step: {alone * 1e3:.2f} ms of CPU alone, {within * 1e3:.2f} ms collected")
    print(f"torch's end: {user:.2f} s of CPU of its own, {system:.2f} s of the kernel's")
    print(f"its list: {listing:.2f} s of CPU")
    print(f"pages filled in the end: {after.ru_minflt - before.ru_minflt}")
    print(f"bytes for each: {collecting:.0f} collecting, {ending:.0f} in the end, {listed:.0f} in the list")


if __name__ == "__main__":
    main()
