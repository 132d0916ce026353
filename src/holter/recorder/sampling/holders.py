"""Finds another Python thread that holds the interpreter, so that the training thread waits for it.

While another thread computes in Python, the sampler of the loop wakes late, and the training thread waits as
long. A thread that computes without the interpreter lock, as in torch or numpy, lets both run.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from time import perf_counter_ns

from holter.recorder.sampling.frames import frame_text
from holter.recorder.sampling.other_threads import reading_frames
from holter.recorder.sampling.producers import of_user

LATE = 0.8
"""A holder gives up the lock after Python's switch interval; this part of it is late."""
CPU_SHARE = 0.25
"""A holder has run, or been ready to run, for this share of the time since it was looked at last."""
LEAST_SHARE = 0.02
"""It has run for this share: on a crowded machine, a thread that sleeps is long ready before it runs."""
_OURS = "holter-"
_MOST_KNOWN = 256


class Holders:
    """Remembers how long threads have run."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int, int]] = {}
        """Native id of a thread → when it was looked at; how long it had run, and waited for a core, ns."""
        self._waited = 0
        """How long the sampler had waited for a core when it went to sleep, ns."""
        self._on = getattr(sys, "_is_gil_enabled", lambda: True)()

    def sleeps(self) -> None:
        """Note that the calling thread goes to sleep."""
        self._waited = _scheduled(threading.get_native_id())[1]

    def holder(self, late: int, trains: int) -> str | None:
        """Return the thread that held the interpreter: `thread metrics;run (a.py:5);collect (a.py:12)`.

        Args:
            late: How late the calling thread woke after `sleeps`, ns.
            trains: The training thread.
        """
        least = LATE * 1e9 * sys.getswitchinterval()
        if not self._on or late < least:
            return None
        if late - (_scheduled(threading.get_native_id())[1] - self._waited) < least:  # it waited for a core
            return None
        # `threading.enumerate` would take a lock that the training may need.
        threads = getattr(threading, "_active", {})
        passed = (trains, threading.get_ident())
        with reading_frames:
            stacks = sys._current_frames()
            own = {ident: of_user(frame) for ident, frame in stacks.items() if ident not in passed}
            stacks.clear()  # the frames of the training, too
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        found, most = None, CPU_SHARE
        for ident, frames in own.items():
            thread = threads.get(ident)
            native, name = getattr(thread, "native_id", None), getattr(thread, "name", "")
            if not frames or native is None or name.startswith(_OURS):
                continue
            # It may hold the lock while it waits for a core.
            (ran, waited), now = _scheduled(native), perf_counter_ns()
            then, ran_then, waited_then = self._known.get(native, (now, ran, waited))
            self._known[native] = now, ran, waited
            share = (ran - ran_then + waited - waited_then) / max(now - then, 1)
            if share >= most and ran - ran_then >= LEAST_SHARE * (now - then):
                most = share
                shown = (frame_text(one.f_code, one.f_lineno or one.f_code.co_firstlineno) for one in frames)
                found = ";".join([f"thread {name.replace(';', ',')}", *shown])
        return found


def _scheduled(thread: int) -> tuple[int, int]:
    """Return how long a thread has run and has waited for a core, ns; 0 where the kernel does not say."""
    # The clock of a thread would be cheaper, but if the thread has just ended, a read can crash the process.
    with suppress(OSError, ValueError, IndexError), open(f"/proc/self/task/{thread}/schedstat") as file:
        ran, waited = file.read().split()[:2]
        return int(ran), int(waited)
    return 0, 0
