"""A training with many windows of every profiler; prints what the process holds before and after, as JSON."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holter.recorder import session as sessions
from holter.recorder.sampling.loop_samples import SWITCH_S
from holter.schema.windows import ProfilingOrder, Request

KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("operators", {}),
    ("operators", {"shapes": True, "stacks": True}),
    ("python", {"profiler": "cprofile"}),
    ("python", {"profiler": "cprofile", "timer": "off_cpu_time"}),
    ("python", {"profiler": "pyinstrument"}),
    ("dataloader", {}),
)


def hooks(session: sessions.Session) -> list[str]:
    """Return everything of torch and Python that a profiler may have put itself into."""
    modules = nn.modules.module
    at = session.watch_phases.__self__.states.current  # type: ignore[union-attr]
    return [
        *(f"{name} {len(getattr(modules, name))}" for name in dir(modules) if name.startswith("_global_")
          and hasattr(getattr(modules, name), "__len__")),
        *(f"{one.__name__} {id(one)}" for one in (at.begin, at.end_of)),
        f"prepare {id(torch.autograd.profiler.profile._prepare_trace)}",
        f"profiler {torch._C._autograd._profiler_enabled()} {torch.autograd.profiler._is_profiler_enabled}",
        f"python {sys.getprofile()} {sys.gettrace()} {threading.getprofile()} {threading.gettrace()}",
        # The sampler of the loop shortens Python's switch interval while the loop's own code runs.
        f"gc {len(gc.callbacks)} {gc.get_threshold()} {sys.getswitchinterval() in (0.005, SWITCH_S)}",
        f"signals {[str(signal.getsignal(one)) for one in signal.valid_signals()]}",
        f"timers {signal.getitimer(signal.ITIMER_PROF)} {signal.getitimer(signal.ITIMER_REAL)}",
        f"environment {sorted(os.environ)}",
    ]  # fmt: skip


def observers() -> list[bool]:
    """Return whether torch has anybody to tell of operators: all threads', this thread's."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    names = ("_ZN2at18hasGlobalCallbacksEv", "_ZN2at23hasThreadLocalCallbacksEv")
    for name in names:
        getattr(library, name).restype = ctypes.c_bool
    return [getattr(library, name)() for name in names]


def calls(step: Callable[[], None]) -> int:
    """Return how many functions a step calls, of Python and of C."""
    seen = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return seen


def held(session: sessions.Session, step: Callable[[], None]) -> dict[str, Any]:
    """Return what the process holds, and what a step of it does."""
    session.windows.wait()
    # Now and then a step does more: a segment is full, a cost is told.
    called = min(calls(step) for _ in range(20))
    for _ in range(3):
        gc.collect()
    status = Path("/proc/self/status").read_text()
    return {
        "hooks": hooks(session),
        "observers": observers(),
        "calls": called,
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
        "rss_kb": int(status.split("VmRSS:")[1].split()[0]),
        "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "modules": len(sys.modules),
        "wake": int(session.wake[0]),
    }


def main(count: int) -> None:
    """Train; open so many windows, one after the other, and look before and after."""
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = sessions.current  # the recording begins with the first use of torch
    assert session is not None

    def steps(number: int) -> None:
        for _ in range(number):
            optimizer.zero_grad()
            model(torch.randn(8, 32)).square().mean().backward()
            optimizer.step()

    def windows(first: int, last: int) -> None:
        for number in range(first, last):
            profiler, parameters = KINDS[number % len(KINDS)]
            session.windows.take(ProfilingOrder((Request(profiler, steps=2, parameters=parameters),)))
            steps(4)
            for path in Path(session.spool.directory).glob("*.operators"):
                path.unlink()  # as the agent does

    steps(5)
    clean = hooks(session)
    windows(0, 2 * len(KINDS))  # the first of each kind imports what it needs
    before = held(session, lambda: steps(1))
    windows(2 * len(KINDS), 2 * len(KINDS) + count)
    after = held(session, lambda: steps(1))
    print(json.dumps({"clean": clean, "before": before, "after": after}))


main(int(os.environ["COUNT"]))
