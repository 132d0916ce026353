"""Describes a process: its key, its role and the first line of its journal."""

from __future__ import annotations

import os
import sys
import time

from holter.recorder import rank


class Identity:
    """One process. Its key is its pid and its start, so that a pid that is used again is another process."""

    def __init__(self, started: int | None = None) -> None:
        self.pid = os.getpid()
        self.started = time.perf_counter_ns() if started is None else started
        """Monotonic ns."""
        self.worker: int | None = None
        """Index of the data-loader worker; None for every other process."""
        self.parent: str | None = None
        """Key of the process that it was forked from, or works for."""
        self.recording = False
        """Whether it has recorded a span. A process that only failed is not a trainer."""

    @property
    def key(self) -> str:
        """Name of the process in the spool."""
        return f"{self.pid}-{self.started}"

    def fact(self, stacks_signal: int | None) -> dict[str, object]:
        """Return the fact `process` of the journal."""
        now, wall = time.perf_counter_ns(), time.time_ns()
        role = "worker" if self.worker is not None else "trainer" if self.recording else "other"
        return {
            "pid": self.pid,
            "ppid": os.getppid(),
            "started": self.started,
            "wall": wall - (now - self.started),
            **rank.from_environment(os.environ),
            "run": rank.run_from_environment(os.environ, os.getppid()),
            "role": role,
            "worker": self.worker,
            "parent": self.parent,
            "argv": list(getattr(sys, "orig_argv", sys.argv)),
            "executable": sys.executable,
            "python": ".".join(map(str, sys.version_info[:3])),
            "stacks_signal": stacks_signal,
        }
