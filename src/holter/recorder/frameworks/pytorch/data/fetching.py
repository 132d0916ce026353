"""Splits the time of the thread that builds batches into computing and waiting."""

from __future__ import annotations

import contextlib
import os
import platform
import threading

_FUTEX = {"x86_64": b"202", "aarch64": b"98"}.get(platform.machine(), b"")
"""Number of the system call in which a thread waits for a lock, such as the interpreter lock."""
WAITS, RUNS, LOCKED, UNKNOWN = range(4)
"""What a thread does: it waits in a system call, runs or is runnable, waits for a lock; or unknown."""
SHORT_NS = 200_000
PATIENCE = 100
"""Samples of one kind in a row, after which the time of the other kind is added to them."""


class ThreadActivity:
    """Reads the state and the CPU time of one thread of this process from the kernel."""

    def __init__(self, native_id: int) -> None:
        self.native_id = native_id
        self._times = self._call = -1
        with contextlib.suppress(OSError):
            self._times = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._call = os.open(f"/proc/self/task/{native_id}/syscall", os.O_RDONLY | os.O_CLOEXEC)
            os.pread(self._call, 64, 0)  # some containers allow to open it, but not to read it
            return
        self.close()

    def computed(self) -> int:
        """Return the nanoseconds for which this thread ran or was runnable."""
        if self._times < 0:
            return 0
        on, ready = os.pread(self._times, 96, 0).split()[:2]
        return int(on) + int(ready)

    def state(self) -> int:
        """Return what the thread does now."""
        if self._call < 0:
            return UNKNOWN
        call = os.pread(self._call, 64, 0).partition(b" ")[0].strip()
        return RUNS if call == b"running" else LOCKED if call == _FUTEX else WAITS

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._times, self._call):
            if descriptor >= 0:
                os.close(descriptor)
        self._times = self._call = -1

    __del__ = close  # not earlier: with several fetching threads, another one may read them


class Fetching:
    """Measures the time that goes into building batches, without collating."""

    def __init__(self) -> None:
        self.thread = 0
        self.began = 0
        """Begin of the current fetch, ns; 0 while no batch is being built."""
        self.files: ThreadActivity | None = None
        self._wall = 0
        self._computed = 0
        self._computed_before = 0
        """CPU time of the thread when the fetch began; -1 if it was not read."""
        self._short = True
        """Whether the last fetch was too short to read its CPU time from the kernel."""

    def forget(self) -> None:
        """Forget the files of the parent process."""
        self.files = None

    def start(self, now: int) -> None:
        """Begin a fetch on the calling thread."""
        native, files = threading.get_native_id(), self.files
        if files is None or files.native_id != native:
            files = self.files = ThreadActivity(native)
            self.thread = threading.get_ident()
        self._computed_before = -1 if self._short else files.computed()
        self.began = now

    def stop(self, now: int) -> None:
        """End the fetch."""
        if self.began:
            time = now - self.began
            self._wall += time
            self.began = 0
            self._short = time < SHORT_NS
            if self._computed_before < 0:
                self._computed += time
            elif self.files is not None:
                self._computed += self.files.computed() - self._computed_before

    def totals(self, now: int) -> tuple[int, int]:
        """Return the nanoseconds spent on samples until `now`, and the CPU time among them."""
        began, files = self.began, self.files
        if not began or files is None:
            return self._wall, self._computed
        if self._computed_before < 0:
            return self._wall + now - began, self._computed + now - began
        return self._wall + now - began, self._computed + files.computed() - self._computed_before


class Kinds:
    """Decides whether a stack sample found the dataset computing or waiting.

    A thread that has just released the interpreter lock may still run, on its way to a wait. Samples that
    came on time do not see this, so they show what the stack usually does.
    """

    def __init__(self) -> None:
        self._seen: dict[int, list[int]] = {}

    def computes(self, stack: int, state: int, *, late: bool) -> bool:
        """Return whether the thread computes; so does one that waits for the interpreter lock."""
        if state == RUNS:
            waited, ran = self._seen.setdefault(stack, [0, 0])
            if late and waited > ran:
                return False
        if not late and state in (WAITS, RUNS):
            self._seen.setdefault(stack, [0, 0])[state] += 1
        return state != WAITS


class Ledger:
    """Assigns to each stack sample the time that it represents.

    A sample comes late while the dataset computes, because the sampler needs the interpreter lock, and then
    finds the dataset at its next wait. So too many samples find it waiting (measured: 40 % for a true 25 %).
    But the total computing time and waiting time are exact. So a sample represents the time of its own kind
    since the last sample of that kind.
    """

    def __init__(self) -> None:
        self._wall = self._computed = 0
        self._owed = [0, 0]
        self._unseen = [0, 0]

    def add(self, wall: int, computed: int) -> None:
        """Add the time since the last totals."""
        wall, self._wall = wall - self._wall, wall
        computed, self._computed = computed - self._computed, computed
        self._owed[0] += wall - computed
        self._owed[1] += computed

    def draw(self, computes: bool) -> int:
        """Return the nanoseconds that a sample represents, which found the dataset computing or waiting."""
        kind, other = int(computes), int(not computes)
        self._unseen[kind] = 0
        self._unseen[other] += 1
        time = self._owed[kind]
        self._owed[kind] = 0
        if time < 0 or self._unseen[other] >= PATIENCE:
            time += self._owed[other]
            self._owed[other] = 0
        if time < 0:  # the two clocks are not read at the same instant
            self._owed[other], time = self._owed[other] + time, 0
        return time

    def rest(self) -> int:
        """Return the time that no sample represents."""
        rest = max(sum(self._owed), 0)
        self._owed = [0, 0]
        return rest
